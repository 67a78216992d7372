import pytest
import torch
from torch.nn import Linear, Module, Parameter
from torch.nn.utils import parametrize, prune
from torch_geometric.nn import GATv2Conv, GCN2Conv, GCNConv, GraphConv, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import scatter

from torch_grama.nn import GRAMA, LinearBackbone, LinearMap, RootedGCNConv, Running
from torch_grama.nn.graph_input import GraphInput
from torch_grama.nn.linear_backbone import (
    find_linear_map,
    gcn_adjacency,
    mean_adjacency,
    sum_adjacency,
)

CHANNELS = 5


def build(engine="auto", **options):
    """A model with every random number its own."""
    torch.manual_seed(1)
    channels = options.pop("hidden_channels", CHANNELS)
    return GRAMA(5, channels, 2, running=Running(engine), **options).double()


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


def assert_same(got, expected, leaves):
    """In value and in the gradients of the leaves."""
    assert torch.allclose(got, expected)
    gradients = [torch.autograd.grad(out.square().sum(), leaves) for out in (got, expected)]
    assert all(torch.allclose(a, b) for a, b in zip(*gradients, strict=True))


def layers(kind, *options):
    """One layer of the kind for each set of options."""
    return [kind(CHANNELS, CHANNELS, **given) for given in options]


WEIGHTED = [
    *layers(GCNConv, {}, {"improved": True}, {"add_self_loops": False}, {"bias": False}),
    *(RootedGCNConv(CHANNELS, **given) for given in ({}, {"bias": False}, {"loops": False})),
    *layers(GraphConv, {}, {"aggr": "mean"}, {"bias": False}),
]
UNWEIGHTED = [
    *(module for module in WEIGHTED if not getattr(module, "improved", False)),
    *layers(SAGEConv, {}, {"aggr": "sum"}, {"root_weight": False}, {"bias": False}),
]
OTHER = [{"aggr": "max"}, {"flow": "target_to_source"}]
NOT_LINEAR = [
    *layers(GCNConv, {"improved": True}, {"normalize": False}, *OTHER),
    *layers(GraphConv, {"aggr": ["add", "mean"], "aggr_kwargs": {"mode": "sum"}}, *OTHER),
    *layers(SAGEConv, {"aggr": ["mean", "max"]}, {"normalize": True}, {"project": True}, *OTHER),
    *(GCN2Conv(CHANNELS, 0.1, **given) for given in ({"normalize": False}, *OTHER)),
    *layers(GATv2Conv, {}),
    *layers(Linear, {}),
]


@pytest.mark.parametrize(
    ("module", "weighted"),
    [*((module, False) for module in UNWEIGHTED), *((module, True) for module in WEIGHTED)],
    ids=str,
)
def test_map_of_a_convolution_equals_the_convolution(module, weighted, directed):
    module = module.double()
    weights = [directed.edge_weight] if weighted else []
    leaves = [directed.x, *weights, *module.parameters()]
    for leaf in leaves:
        leaf.requires_grad_()
    expected = module(directed.x, directed.edge_index, *weights)
    assert_same(read(module, directed, *weights)(directed.x), expected, leaves)


@pytest.mark.parametrize("options", [{}, {"theta": 0.5, "layer": 2}, {"add_self_loops": False}])
@pytest.mark.parametrize("shared", [True, False])
def test_map_with_an_initial_residual_equals_the_convolution(options, shared, directed):
    module = GCN2Conv(CHANNELS, 0.3, shared_weights=shared, **options).double()
    x, first, weight = directed.x, directed.x.cos(), directed.edge_weight
    leaves = [x, first, weight, *module.parameters()]
    for leaf in leaves:
        leaf.requires_grad_()
    expected = module(x, first, directed.edge_index, weight)
    graph = GraphInput(directed.num_nodes, directed.edge_index, weight, x_0=first)
    assert_same(find_linear_map(module, graph)(x), expected, leaves)


@pytest.mark.parametrize("module", NOT_LINEAR, ids=str)
def test_what_is_not_known_to_be_linear_is_called(module, directed):
    assert read(module, directed) is None


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        (GCNConv(CHANNELS, CHANNELS), GCNConv(CHANNELS, CHANNELS), True),
        (GCNConv(CHANNELS, CHANNELS), GCNConv(CHANNELS, CHANNELS, improved=True), False),
        # the one reads the weights, the other does not
        (GraphConv(CHANNELS, CHANNELS, aggr="mean"), SAGEConv(CHANNELS, CHANNELS), False),
    ],
)
def test_layers_with_equal_settings_share_one_adjacency(one, other, share, path):
    graph = GraphInput(path.num_nodes, path.edge_index, path.edge_weight)
    first, second = (find_linear_map(module, graph).adjacency for module in (one, other))
    assert (first is second) is share
    assert torch.equal(first.value, second.value) is share


def test_half_precision_weights_get_float32_values(path):
    assert read(GCNConv(CHANNELS, CHANNELS).bfloat16(), path).adjacency.value.dtype == torch.float32


class TestUsersModule:
    def test_follows_the_protocol(self):
        assert isinstance(TwiceTheNeighbours(4), LinearBackbone)
        assert not isinstance(GCNConv(4, 4), LinearBackbone)

    def test_equals_the_reference_without_being_called(self, path):
        backbone = TwiceTheNeighbours(CHANNELS)
        model, other = (build(engine, backbone=backbone) for engine in ("linear", "reference"))
        got, expected = (m(path.x, path.edge_index) for m in (model, other))
        assert torch.allclose(got, expected)
        assert [block.backbone.num_calls for block in model.blocks] == [0, 0]
        assert [block.backbone.num_calls for block in other.blocks] == [4, 4]


HOOKS = {
    "forward": lambda m, hook: m.register_forward_hook(hook),
    "forward pre": lambda m, hook: m.register_forward_pre_hook(hook),
    "backward": lambda m, hook: m.register_full_backward_hook(hook),
    "backward pre": lambda m, hook: m.register_full_backward_pre_hook(hook),
    "of a part": lambda m, hook: m.lin.register_forward_hook(hook),
    "propagate": lambda m, hook: m.register_propagate_forward_hook(hook),
    "propagate pre": lambda m, hook: m.register_propagate_forward_pre_hook(hook),
    "message": lambda m, hook: m.register_message_forward_hook(hook),
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_module_with_a_hook_is_called(hook, path):
    model = build(num_blocks=1, seq_len=3)
    expected = model(path.x, path.edge_index)
    log = []
    HOOKS[hook](model.blocks[0].backbone, lambda *_: log.append(1))
    out = model(path.x, path.edge_index)
    out.sum().backward()
    assert len(log) == 3
    assert torch.allclose(out, expected)


def test_what_a_hook_returns_is_used(path):
    model = build(num_blocks=1, seq_len=1)
    block = model.blocks[0]
    block.backbone.register_propagate_forward_hook(lambda module, args, out: 2 * out)
    f = model.embedding(path.x)[0][0]
    expected = (block.retention * f + block.gain * block.backbone(f, path.edge_index)).relu()
    assert torch.allclose(model(path.x, path.edge_index), model.head(expected))


def test_a_module_that_is_explained_is_called(path):
    module = GCNConv(CHANNELS, CHANNELS).double()
    module.explain = True
    assert read(module, path) is None


class LowRank(Module):
    """An adapter around a linear map, as people replace them."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = Parameter(torch.randn(CHANNELS, 2, dtype=torch.float64))
        self.up = Parameter(torch.randn(2, CHANNELS, dtype=torch.float64))

    def forward(self, x):
        return self.inner(x) + x @ self.down @ self.up


class Scaled(Module):
    def __init__(self):
        super().__init__()
        self.factor = Parameter(torch.tensor(3.0, dtype=torch.float64))

    def forward(self, weight):
        return self.factor * weight


def adapt(module):
    module.lin = LowRank(module.lin)
    return [module.lin.down, module.lin.up]


def scale(module):
    parametrize.register_parametrization(module.lin, "weight", Scaled())
    return list(module.lin.parametrizations.parameters())


def cut(module):
    prune.l1_unstructured(module.lin, "weight", 0.5)
    return [module.lin.weight_orig]


def override(module):
    forward = module.forward
    module.forward = lambda *args, **kwargs: 2 * forward(*args, **kwargs)
    return list(module.parameters())


@pytest.mark.parametrize("change", [adapt, scale, cut, override])
@pytest.mark.parametrize("num_recurrences", [3, 9])
def test_a_module_that_was_changed_is_what_counts(change, num_recurrences, path):
    outputs, gradients = [], []
    plain = build(num_recurrences=num_recurrences)(path.x, path.edge_index)
    for engine in ("auto", "reference"):
        torch.manual_seed(2)
        model = build(engine, num_recurrences=num_recurrences)
        torch.manual_seed(2)
        changed = [parameter for block in model.blocks for parameter in change(block.backbone)]
        for _ in range(2):
            out = model(path.x, path.edge_index)
        outputs.append(out)
        gradients.append(torch.autograd.grad(out.square().sum(), changed))
    assert torch.allclose(*outputs)
    assert not torch.allclose(outputs[0], plain)
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b)
        assert a.abs().sum() > 0


def test_a_subclass_is_called(path):
    class Twice(GCNConv):
        def message(self, x_j, edge_weight):
            return 2 * super().message(x_j, edge_weight)

    assert read(Twice(CHANNELS, CHANNELS), path) is None


NODES = 5
# a cycle, a chord, and node 4 with an edge out alone
PLAIN = torch.tensor([[0, 1, 2, 3, 0, 4], [1, 2, 3, 0, 2, 0]])
LOOPS = torch.tensor([[0, 1, 2, 3, 0, 4, 1, 3], [1, 2, 3, 0, 2, 0, 1, 3]])
TWICE = torch.tensor([[0, 0, 1, 1, 2], [1, 1, 2, 0, 1]])
EMPTY = torch.empty(2, 0, dtype=torch.long)

graphs = pytest.mark.parametrize(
    "edge_index", [PLAIN, LOOPS, TWICE, EMPTY], ids=["plain", "loops", "twice", "empty"]
)
weights = pytest.mark.parametrize("weighted", [False, True])


def edge_weights(edge_index, weighted):
    if not weighted:
        return None
    return torch.rand(edge_index.size(1), dtype=torch.float64) + 0.1


def dense(adjacency):
    return adjacency.propagate(torch.eye(NODES, dtype=torch.float64))


class TestAdjacency:
    """The matrices against PyG and against the formulas."""

    @graphs
    @pytest.mark.parametrize(
        ("loop_weight", "options", "weighted"),
        [
            (1.0, {}, False),
            (1.0, {}, True),
            (None, {"add_self_loops": False}, False),
            (None, {"add_self_loops": False}, True),
            # without weights, PyG's improved loops weigh as much as the others
            (2.0, {"improved": True}, True),
        ],
    )
    def test_equals_the_normalisation_of_pyg(self, edge_index, weighted, loop_weight, options):
        weight = edge_weights(edge_index, weighted)
        got = dense(gcn_adjacency(edge_index, weight, NODES, torch.float64, loop_weight))
        (source, target), value = gcn_norm(
            edge_index, weight, num_nodes=NODES, dtype=torch.float64, **options
        )
        expected = torch.zeros(NODES, NODES, dtype=torch.float64)
        expected.index_put_((target, source), value, accumulate=True)
        assert torch.allclose(got, expected)

    def test_gradient_in_the_weights(self):
        weight = edge_weights(LOOPS, True).requires_grad_()
        assert torch.autograd.gradcheck(
            lambda w: dense(gcn_adjacency(LOOPS, w, NODES, torch.float64)), weight
        )

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_gradient_is_finite_for_nodes_without_incoming_edges(self, dtype):
        weight = edge_weights(PLAIN, True).to(dtype).requires_grad_()
        adjacency = gcn_adjacency(PLAIN, weight, NODES, dtype, loop_weight=None)
        adjacency.propagate(torch.ones(NODES, 1, dtype=dtype)).sum().backward()
        assert torch.isfinite(weight.grad).all()
        assert torch.isfinite(adjacency.value).all()

    @graphs
    @weights
    @pytest.mark.parametrize(
        ("build", "reduce"), [(mean_adjacency, "mean"), (sum_adjacency, "sum")]
    )
    def test_means_and_sums_over_incoming_edges(self, edge_index, weighted, build, reduce):
        weight = edge_weights(edge_index, weighted)
        x = torch.randn(NODES, 3, dtype=torch.float64)
        messages = x[edge_index[0]] if weight is None else x[edge_index[0]] * weight[:, None]
        got = build(edge_index, weight, NODES, torch.float64).propagate(x)
        assert torch.allclose(got, scatter(messages, edge_index[1], 0, NODES, reduce))

    @pytest.mark.parametrize("build", [gcn_adjacency, mean_adjacency, sum_adjacency])
    def test_values_have_the_type_asked_for(self, build):
        weight = edge_weights(PLAIN, True)
        assert build(PLAIN, weight, NODES, torch.float32).value.dtype == torch.float32

    @pytest.mark.parametrize("build", [gcn_adjacency, mean_adjacency, sum_adjacency])
    def test_half_precision_is_not_added_up(self, build):
        # a sum of ones in bfloat16 ends at 256
        hub = torch.stack([torch.arange(1, 1001), torch.zeros(1000, dtype=torch.long)])
        found, expected = (build(hub, None, 1001, t) for t in (torch.bfloat16, torch.float32))
        assert found.value.dtype == torch.float32
        assert torch.equal(found.value, expected.value)
