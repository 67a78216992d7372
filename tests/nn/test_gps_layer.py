import pytest
import torch
from torch.nn import Linear, MultiheadAttention, Sequential
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, GINEConv, GPSConv

from torch_grama.nn import GPSLayer
from torch_grama.nn.gps_layer import reset_what_is_left_out

CHANNELS = 8


def layer(attention="multihead", conv=True, **options):
    local = GCNConv(CHANNELS, CHANNELS) if conv else None
    return GPSLayer(CHANNELS, local, attention=attention, **options).double()


@pytest.fixture
def graphs(graphs):
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, CHANNELS, dtype=torch.float64)
    return graphs


attentions = pytest.mark.parametrize("attention", ["multihead", "performer"])
forms = pytest.mark.parametrize("pre_norm", [False, True])


@attentions
def test_a_single_graph_equals_pyg(attention, graphs):
    module = layer(attention)
    twin = GPSConv(
        CHANNELS,
        GCNConv(CHANNELS, CHANNELS),
        heads=4,
        norm="layer_norm",
        norm_kwargs={"mode": "node"},
        attn_type=attention,
    ).double()
    twin.load_state_dict(module.state_dict())
    for graph in graphs:
        got = module(graph.x, graph.edge_index)
        assert torch.allclose(got, twin(graph.x, graph.edge_index))


@attentions
def test_attention_reaches_every_node_of_the_graph_and_no_other(attention, graphs):
    module = layer(attention, conv=False)
    batch = Batch.from_data_list(graphs)
    x = batch.x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(
        module(x, batch.edge_index, batch.batch, 3)[0].square().sum(), x
    )
    reached = gradient.abs().sum(1) > 0
    assert reached.tolist() == [True] * 4 + [False] * 8


@attentions
def test_an_empty_graph_in_the_batch_leaves_results_and_gradients_finite(attention, graphs):
    module = layer(attention)
    graph = graphs[0]
    batch = torch.tensor([1, 1, 3, 3])
    no_edges = torch.empty(2, 0, dtype=torch.long)
    x = graph.x.requires_grad_()
    out = module(x, no_edges, batch, 5)
    out.square().sum().backward()
    assert torch.allclose(out[:2], module(x[:2], no_edges))
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


def test_pre_norm_follows_its_equation(graphs):
    module = layer(pre_norm=True)
    x, edge_index = graphs[0].x, graphs[0].edge_index

    def norm(states, gain, shift):
        centred = states - states.mean(1, keepdim=True)
        variance = centred.square().mean(1, keepdim=True)
        return centred / (variance + module.norm1.eps).sqrt() * gain + shift

    z = norm(x, module.norm1.weight, module.norm1.bias)
    attended, _ = module.attn(z[None], z[None], z[None])
    update = attended[0] + module.conv(z, edge_index)
    hidden = norm(x + update, module.norm3.weight, module.norm3.bias)
    first, _, _, second, _ = module.mlp
    expected = update + second(torch.relu(first(hidden)))
    assert torch.allclose(module(x, edge_index), expected)


@attentions
@forms
def test_gradcheck(attention, pre_norm, graphs):
    module = layer(attention, pre_norm=pre_norm)
    x = torch.cat([graphs[0].x, graphs[2].x]).requires_grad_()
    batch = torch.tensor([0] * 4 + [1] * 3)
    assert torch.autograd.gradcheck(lambda x: module(x, graphs[0].edge_index, batch, 2), x)


def test_dropout_only_while_training(graphs):
    module = layer(dropout=0.5)
    graph = graphs[0]
    assert not torch.equal(*(module(graph.x, graph.edge_index) for _ in range(2)))
    module.eval()
    assert torch.equal(*(module(graph.x, graph.edge_index) for _ in range(2)))


@pytest.mark.parametrize(("channels", "heads"), [(8, 4), (6, 2), (5, 1)])
def test_heads_divide_the_channels(channels, heads):
    assert GPSLayer(channels).heads == heads


def fill(module):
    with torch.no_grad():
        for value in module.parameters():
            value.fill_(9.0)
    return module


def list_kept(module):
    return [name for name, value in module.named_parameters() if bool((value == 9.0).any())]


class TestResetWhatIsLeftOut:
    def test_attention_without_bias(self):
        module = fill(MultiheadAttention(8, 2, bias=False))
        reset_what_is_left_out(module)
        assert list_kept(module) == ["in_proj_weight"]

    def test_leaves_other_modules_and_the_random_numbers_alone(self):
        module = fill(Sequential(Linear(8, 8), GCNConv(8, 8), GINEConv(Linear(8, 8))))
        before = torch.get_rng_state()
        reset_what_is_left_out(module)
        assert len(list_kept(module)) == len(list(module.parameters()))
        assert torch.equal(torch.get_rng_state(), before)
