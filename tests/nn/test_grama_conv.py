"""A block as a layer: equal to a model of one block, and at home in PyG's containers."""

import pytest
import torch
from torch import Tensor
from torch.nn import Linear
from torch_geometric.data import HeteroData
from torch_geometric.nn import (
    GATv2Conv,
    GCNConv,
    GINEConv,
    HeteroConv,
    RGCNConv,
    SAGEConv,
    Sequential,
    to_hetero,
)
from torch_geometric.nn.models.basic_gnn import BasicGNN

from torch_grama import GRAMA, Coefficients, GRAMAConv, Running
from torch_grama.nn import GatedGCNConv, Readout

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2], [1, 2, 3, 4, 0, 0]])


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def papers_and_authors():
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(5, 6), torch.randn(3, 4)
    data["paper", "cites", "paper"].edge_index = EDGES
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2, 0], [0, 1, 2, 4]])
    data["paper", "written_by", "author"].edge_index = torch.tensor([[0, 1, 2, 4], [0, 1, 2, 0]])
    return data


@pytest.mark.parametrize(
    "backbone", ["gcn", GatedGCNConv(8), SAGEConv(8, 8), GATv2Conv(8, 8), "neighbor-sum"]
)
@pytest.mark.parametrize("given", [{}, {"num_recurrences": 2, "norm": "layer_norm"}])
def test_it_is_a_model_of_one_block_without_readout(backbone, given):
    layer = GRAMAConv(backbone, 3, 6, 8, **given).double().eval()
    model = GRAMA(6, 8, None, seq_len=3, num_blocks=1, backbone=backbone, **given).double().eval()
    state = {k.replace("block.", "blocks.0."): v for k, v in layer.state_dict().items()}
    model.load_state_dict(state)
    x = torch.randn(5, 6, dtype=torch.float64)
    batch = torch.tensor([0, 0, 0, 1, 1])
    edges = EDGES[:, :2]
    out = layer(x, edges, batch=batch)
    assert out.size() == (5, 8)
    assert torch.allclose(out, model(x, edges, batch=batch))
    assert str(layer).startswith("GRAMAConv(6, 8, seq_len=3, conv=")
    layer.reset_parameters()
    assert not torch.allclose(layer(x, edges, batch=batch), out)


@pytest.mark.parametrize("with_senders", [False, True])
def test_nodes_may_be_renumbered(with_senders):
    layer = GRAMAConv(SAGEConv(8, 8), in_channels=8).double()
    x, senders = torch.randn(5, 8).double(), torch.randn(3, 8).double()
    edges = torch.tensor([[0, 1, 2, 0], [0, 1, 2, 4]]) if with_senders else EDGES
    order = torch.tensor([3, 0, 4, 1, 2])
    place = order.argsort()
    moved = torch.stack([edges[0] if with_senders else place[edges[0]], place[edges[1]]])
    out = layer((senders, x) if with_senders else x, edges)
    renumbered = layer((senders, x[order]) if with_senders else x[order], moved)
    assert torch.allclose(renumbered, out[order])


def test_between_two_kinds_of_nodes_the_targets_move_and_the_sources_stay():
    """Written out from the equation, step by step."""
    coefficients = Coefficients("fixed")
    layer = GRAMAConv(SAGEConv(8, 8), 2, coefficients=coefficients, act=None).double()
    senders, x = torch.randn(3, 8).double(), torch.randn(5, 8).double()
    edges = torch.tensor([[0, 1, 2, 0], [0, 1, 2, 4]])
    states, residuals = (list(part) for part in layer.embedding(x))
    phi, theta = layer.block.coefficients(*(torch.zeros(1, 2, 8).double(),) * 2)
    conv, gain, kept = layer.block.backbone, layer.block.gain, layer.block.retention
    for _ in range(2):
        new = gain * conv((senders, states[-1]), edges)
        past = sum(kept * phi[0, i] * states[-1 - i] for i in range(2))
        past = past + sum(theta[0, j] * residuals[-1 - j] for j in range(2))
        states.append(past + new)
        residuals.append(new)
    assert torch.allclose(layer((senders, x), edges), states[-1])


def test_in_sequential():
    model = Sequential(
        "x, edge_index",
        [
            (GRAMAConv(SAGEConv(8, 8), in_channels=6), "x, edge_index -> x"),
            (GRAMAConv("gatedgcn", out_channels=8), "x, edge_index -> x"),
            Linear(8, 2),
        ],
    )
    assert model(torch.randn(5, 6), EDGES).size() == (5, 2)


class GRAMANet(BasicGNN):
    supports_edge_weight = True
    supports_edge_attr = False

    def init_conv(self, in_channels, out_channels, **kwargs):
        return GRAMAConv(GCNConv(out_channels, out_channels), 3, in_channels, **kwargs)


def test_in_a_basic_gnn():
    model = GRAMANet(6, 8, num_layers=3, out_channels=2, jk="cat")
    weight = torch.rand(EDGES.size(1))
    out = model(torch.randn(5, 6), EDGES, weight)
    assert out.size() == (5, 2)
    assert not torch.allclose(model(torch.randn(5, 6), EDGES), out)


def test_in_hetero_conv():
    data = papers_and_authors()
    model = HeteroConv(
        {
            ("paper", "cites", "paper"): GRAMAConv(GCNConv(8, 8), in_channels=6),
            ("author", "writes", "paper"): GRAMAConv(SAGEConv((4, 8), 8), in_channels=6),
            ("paper", "written_by", "author"): GRAMAConv(SAGEConv((6, 8), 8), in_channels=4),
        }
    )
    out = model(data.x_dict, data.edge_index_dict)
    assert out["paper"].size() == (5, 8)
    assert out["author"].size() == (3, 8)
    sum(o.square().sum() for o in out.values()).backward()
    assert all(p.grad is not None for p in model.parameters())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GRAMAConv(SAGEConv((-1, 8), 8), in_channels=-1)
        self.second = GRAMAConv(SAGEConv((-1, 8), 8), 2, in_channels=-1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


def test_to_hetero():
    data = papers_and_authors()
    model = to_hetero(Net(), data.metadata())
    out = model(data.x_dict, data.edge_index_dict)
    assert {name: tuple(x.size()) for name, x in out.items()} == {"paper": (5, 8), "author": (3, 8)}
    # authors hear from papers, papers from both
    data["author"].x[2] += 1.0
    changed = model(data.x_dict, data.edge_index_dict)
    assert not torch.allclose(changed["paper"][2], out["paper"][2])


@pytest.mark.parametrize("layer", [True, False])
def test_edge_types_reach_the_backbone(layer):
    conv = RGCNConv(8, 8, num_relations=2)
    model = GRAMAConv(conv, in_channels=6) if layer else GRAMA(6, 8, 2, backbone=conv)
    x, kinds = torch.randn(5, 6), torch.tensor([0, 1, 0, 1, 0, 1])
    out = model(x, EDGES, edge_type=kinds)
    assert not torch.allclose(model(x, EDGES, edge_type=1 - kinds), out)
    with pytest.raises(ValueError, match=r"'edge_type' to have shape \[6\]"):
        model(x, EDGES, edge_type=kinds[:3])
    plain = GRAMAConv("gcn", in_channels=6, out_channels=8) if layer else GRAMA(6, 8, 2)
    with pytest.raises(ValueError, match=r"no 'edge_type' .* GCNConv"):
        plain(x, EDGES, edge_type=kinds)


def test_edge_attributes_and_weights_reach_the_convolution():
    x, attributes = torch.randn(5, 8), torch.randn(6, 3)
    layer = GRAMAConv(GINEConv(Linear(8, 8), edge_dim=3), out_channels=8)
    out = layer(x, EDGES, edge_attr=attributes)
    assert not torch.allclose(layer(x, EDGES, edge_attr=2 * attributes), out)
    named = GRAMAConv("gatedgcn", out_channels=3, in_channels=8, has_edge_attr=True)
    assert named(x, EDGES, edge_attr=attributes).size() == (5, 3)


def test_mistakes_are_said_in_a_sentence():
    with pytest.raises(ValueError, match="'out_channels' for GINEConv"):
        GRAMAConv(GINEConv(Linear(8, 8)))
    with pytest.raises(ValueError, match="'out_channels' for 'gcn'"):
        GRAMAConv("gcn")
    with pytest.raises(ValueError, match="without cached and recompute"):
        GRAMAConv(SAGEConv(8, 8), running=Running(cached=True))
    layer = GRAMAConv(SAGEConv(8, 8))
    with pytest.raises(ValueError, match="target nodes"):
        layer((torch.randn(3, 8), None), EDGES)
    with pytest.raises(ValueError, match="5 nodes and 3 that send"):
        layer((torch.randn(3, 8), torch.randn(5, 8)), EDGES)
    with pytest.raises(ValueError, match="in_channels=8"):
        layer(torch.randn(5, 7), EDGES)


def test_a_whole_model_cannot_be_made_heterogeneous_and_says_what_can():
    with pytest.raises(TypeError, match="GRAMAConv layers"):
        to_hetero(GRAMA(6, 8, 2), papers_and_authors().metadata())


def test_an_encoder_gives_the_last_states():
    x, batch = torch.randn(5, 6), torch.tensor([0, 0, 0, 1, 1])
    encoder = GRAMA(6, 8, None)
    assert encoder.out_channels == 8
    assert encoder(x, EDGES).size() == (5, 8)
    model = GRAMA(6, 8, 2)
    model.load_state_dict(encoder.state_dict(), strict=False)
    assert torch.allclose(model(x, EDGES), model.head(encoder(x, EDGES)))
    pooled = GRAMA(6, 8, None, readout=Readout("graph", pooling="sum-max-mean"))
    assert pooled(x, EDGES, batch=batch).size() == (2, pooled.out_channels)


@pytest.mark.parametrize("backbone", [SAGEConv, GCNConv, GatedGCNConv])
def test_a_class_serves_as_a_backbone(backbone):
    model = GRAMA(6, 8, 2, backbone=backbone)
    assert all(type(block.backbone) is backbone for block in model.blocks)
    assert model(torch.randn(5, 6), EDGES).size() == (5, 2)


def test_one_attribute_an_edge_may_lie_in_a_vector():
    model = GRAMA(6, 8, 2, backbone="gatedgcn", edge_dim=1).eval()
    x, attribute = torch.randn(5, 6), torch.randn(6)
    expected = model(x, EDGES, edge_attr=attribute.unsqueeze(1))
    assert torch.equal(model(x, EDGES, edge_attr=attribute), expected)


def test_a_depth_in_layers_is_answered_with_blocks_and_length():
    with pytest.raises(TypeError, match=r"'num_layers'.*num_blocks=S and seq_len=L"):
        GRAMA(6, 8, 2, num_layers=4)
