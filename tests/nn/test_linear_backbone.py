import pytest
import torch
from torch.nn import Linear, Module
from torch_geometric.nn import GATv2Conv, GCNConv, GraphConv, SAGEConv

from torch_grama.nn import GRAMA, LinearBackbone, LinearMap, RootedGCNConv
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import find_linear_map, sum_adjacency

CHANNELS = 5


def read(module, data, edge_weight=None):
    graph = GraphInput(data.num_nodes, data.edge_index, edge_weight)
    return find_linear_map(module, graph)


class TwiceTheNeighbours(Module):
    """A linear backbone as a user would write it."""

    def __init__(self, channels):
        super().__init__()
        self.lin = Linear(channels, channels)
        self.num_calls = 0

    def forward(self, x, edge_index):
        self.num_calls += 1
        return self.linear_map(edge_index, None, x.size(0))(x)

    def linear_map(self, edge_index, edge_weight, num_nodes):
        adjacency = sum_adjacency(edge_index, edge_weight, num_nodes, self.lin.weight.dtype)
        return LinearMap(adjacency, 2 * self.lin.weight.t(), bias=self.lin.bias)


WEIGHTED = [
    GCNConv(CHANNELS, CHANNELS),
    GCNConv(CHANNELS, CHANNELS, improved=True),
    GCNConv(CHANNELS, CHANNELS, add_self_loops=False),
    GCNConv(CHANNELS, CHANNELS, bias=False),
    RootedGCNConv(CHANNELS),
    RootedGCNConv(CHANNELS, bias=False),
    GraphConv(CHANNELS, CHANNELS),
    GraphConv(CHANNELS, CHANNELS, aggr="mean"),
    GraphConv(CHANNELS, CHANNELS, bias=False),
]
UNWEIGHTED = [
    *(module for module in WEIGHTED if not getattr(module, "improved", False)),
    SAGEConv(CHANNELS, CHANNELS),
    SAGEConv(CHANNELS, CHANNELS, aggr="sum"),
    SAGEConv(CHANNELS, CHANNELS, root_weight=False),
    SAGEConv(CHANNELS, CHANNELS, bias=False),
]
NOT_LINEAR = [
    GCNConv(CHANNELS, CHANNELS, improved=True),
    GATv2Conv(CHANNELS, CHANNELS),
    GCNConv(CHANNELS, CHANNELS, normalize=False),
    GCNConv(CHANNELS, CHANNELS, flow="target_to_source"),
    GCNConv(CHANNELS, CHANNELS, aggr="max"),
    GraphConv(CHANNELS, CHANNELS, aggr="max"),
    GraphConv(CHANNELS, CHANNELS, flow="target_to_source"),
    GraphConv(CHANNELS, CHANNELS, aggr=["add", "mean"], aggr_kwargs={"mode": "sum"}),
    SAGEConv(CHANNELS, CHANNELS, aggr="max"),
    SAGEConv(CHANNELS, CHANNELS, normalize=True),
    SAGEConv(CHANNELS, CHANNELS, project=True),
    SAGEConv(CHANNELS, CHANNELS, flow="target_to_source"),
    SAGEConv(CHANNELS, CHANNELS, aggr=["mean", "max"]),
    Linear(CHANNELS, CHANNELS),
]


@pytest.mark.parametrize("module", UNWEIGHTED, ids=str)
def test_map_of_a_convolution_equals_the_convolution(module, directed):
    module = module.double()

    linear = read(module, directed)

    expected = module(directed.x, directed.edge_index)
    assert torch.allclose(linear(directed.x), expected)


@pytest.mark.parametrize("module", WEIGHTED, ids=str)
def test_map_of_a_weighted_convolution_equals_the_convolution(module, directed):
    module = module.double()

    linear = read(module, directed, directed.edge_weight)

    expected = module(directed.x, directed.edge_index, directed.edge_weight)
    assert torch.allclose(linear(directed.x), expected)


@pytest.mark.parametrize("module", NOT_LINEAR, ids=str)
def test_what_is_not_known_to_be_linear_is_called(module, directed):
    assert read(module, directed) is None


@pytest.mark.parametrize("module", [m for m in NOT_LINEAR if not isinstance(m, Linear)], ids=str)
def test_the_model_calls_what_is_not_known_to_be_linear(module, directed):
    torch.manual_seed(1)
    model = GRAMA(5, CHANNELS, 2, backbone=module).double()
    torch.manual_seed(1)
    expected = GRAMA(5, CHANNELS, 2, backbone=module, engine="reference").double()

    got = model(directed.x, directed.edge_index)

    assert torch.allclose(got, expected(directed.x, directed.edge_index))


@pytest.mark.parametrize("module", UNWEIGHTED, ids=str)
@pytest.mark.parametrize("readout", ["node", "graph"])
def test_the_linear_engine_equals_the_reference(module, readout, batch):
    torch.manual_seed(1)
    model = GRAMA(5, CHANNELS, 2, backbone=module, readout=readout, engine="linear").double()
    torch.manual_seed(1)
    other = GRAMA(5, CHANNELS, 2, backbone=module, readout=readout, engine="reference").double()

    outputs = [m(batch.x, batch.edge_index, batch=batch.batch) for m in (model, other)]
    for out in outputs:
        out.square().sum().backward()

    assert torch.allclose(*outputs)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad)


def test_scale_multiplies_the_whole_map(path):
    linear = read(GraphConv(CHANNELS, CHANNELS).double(), path)
    gain = torch.tensor(0.3, dtype=torch.float64)

    assert torch.allclose(linear.scale(gain)(path.x), 0.3 * linear(path.x))
    assert linear.scale(None) is linear


def test_blocks_share_one_adjacency(path):
    graph = GraphInput(path.num_nodes, path.edge_index)
    maps = [find_linear_map(GCNConv(CHANNELS, CHANNELS), graph) for _ in range(2)]

    assert maps[0].adjacency is maps[1].adjacency


def test_settings_that_differ_do_not_share(path):
    graph = GraphInput(path.num_nodes, path.edge_index, path.edge_weight)
    plain, improved = (
        find_linear_map(GCNConv(CHANNELS, CHANNELS, improved=improved), graph)
        for improved in (False, True)
    )

    assert plain.adjacency is not improved.adjacency


def test_weighted_and_plain_graphs_do_not_share(path):
    weighted = GraphInput(path.num_nodes, path.edge_index, path.edge_weight)
    convolution, plain = (
        find_linear_map(module, weighted)
        for module in (
            GraphConv(CHANNELS, CHANNELS, aggr="mean"),
            SAGEConv(CHANNELS, CHANNELS, aggr="mean"),
        )
    )

    assert not torch.allclose(convolution.adjacency.value, plain.adjacency.value)


def test_half_precision_weights_get_float32_values(path):
    assert read(GCNConv(CHANNELS, CHANNELS).bfloat16(), path).adjacency.value.dtype == torch.float32


class TestUsersModule:
    def test_follows_the_protocol(self):
        assert isinstance(TwiceTheNeighbours(4), LinearBackbone)
        assert not isinstance(GCNConv(4, 4), LinearBackbone)

    def test_equals_the_reference_without_being_called(self, path):
        torch.manual_seed(1)
        model = GRAMA(5, 4, 2, backbone=TwiceTheNeighbours(4), engine="linear").double()
        torch.manual_seed(1)
        other = GRAMA(5, 4, 2, backbone=TwiceTheNeighbours(4), engine="reference").double()

        got, expected = (m(path.x, path.edge_index) for m in (model, other))

        assert torch.allclose(got, expected)
        assert [block.backbone.num_calls for block in model.blocks] == [0, 0]
        assert [block.backbone.num_calls for block in other.blocks] == [4, 4]


HOOKS = {
    "forward": lambda m, log: m.register_forward_hook(lambda *_: log.append(1)),
    "forward pre": lambda m, log: m.register_forward_pre_hook(lambda *_: log.append(1)),
    "backward": lambda m, log: m.register_full_backward_hook(lambda *_: log.append(1)),
    "backward pre": lambda m, log: m.register_full_backward_pre_hook(lambda *_: log.append(1)),
    "of a part": lambda m, log: m.lin.register_forward_hook(lambda *_: log.append(1)),
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_module_with_a_hook_is_called(hook, path):
    model = GRAMA(5, 4, 2, num_blocks=1, seq_len=3).double()
    expected = model(path.x, path.edge_index)
    log = []
    HOOKS[hook](model.blocks[0].backbone, log)

    out = model(path.x, path.edge_index)
    out.sum().backward()

    assert len(log) == 3
    assert torch.allclose(out, expected)


def test_a_module_that_is_explained_is_called(path):
    module = GCNConv(CHANNELS, CHANNELS).double()
    module.explain = True

    assert read(module, path) is None
