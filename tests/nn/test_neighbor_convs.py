import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv, GINConv, GINEConv
from torch_geometric.nn.aggr import MultiAggregation
from torch_geometric.utils import to_dense_adj

from torch_grama.nn import (
    GCN2Stack,
    GRAMABlock,
    NeighborSumConv,
    NormedConv,
    RootedGCNConv,
    build_gin_conv,
)
from torch_grama.nn.neighbor_convs import build_aggregation, convolve

CHANNELS = 5
MESSAGES = torch.tensor([[1.0, -2.0], [3.0, 5.0], [-4.0, 0.5]], dtype=torch.float64)
TARGET = torch.tensor([1, 1, 2])


def dense_formula(module, data, edge_weight=None):
    edges = {"edge_attr": edge_weight, "max_num_nodes": data.num_nodes}
    # to_dense_adj has a row for each source
    adjacency = to_dense_adj(data.edge_index, **edges)[0].to(data.x.dtype).t()
    has_loop = adjacency.diagonal() != 0
    adjacency = adjacency + torch.diag((~has_loop).to(data.x.dtype))
    scale = adjacency.sum(dim=1).rsqrt()
    out = (scale[:, None] * adjacency * scale) @ data.x @ module.lin.weight.t()
    out = out + data.x @ module.root.weight.t()
    return out if module.bias is None else out + module.bias


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("build", [GCNConv, GATConv, lambda c, _: build_gin_conv(c)])
def test_a_convolution_of_pyg_computes_in_float32(directed, build, dtype):
    conv, x = build(CHANNELS, CHANNELS), directed.x.to(dtype)
    expected = conv(x.float(), directed.edge_index)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(convolve(conv, x, directed.edge_index), expected)
        pair = convolve(conv, (x, x), edge_index=directed.edge_index) if build is GATConv else None
    assert pair is None or torch.equal(pair, expected)


class TestGCN2Stack:
    @pytest.mark.parametrize("theta", [0.5, None])
    @pytest.mark.parametrize("loops", [True, False])
    @pytest.mark.parametrize("weighted", [True, False])
    def test_is_layers_of_pyg_with_an_activation_between(self, directed, theta, loops, weighted):
        stack = GCN2Stack(CHANNELS, 3, 0.2, theta, loops=loops).double()
        weight = directed.edge_weight if weighted else None
        x, x_0 = directed.x.clone().requires_grad_(), 2 * directed.x
        out, expected = stack(x, x_0, directed.edge_index, weight), x
        for number, layer in enumerate(stack.convs, 1):
            args = (theta, number) if theta else ()
            conv = GCN2Conv(CHANNELS, 0.2, *args, add_self_loops=loops).double()
            conv.load_state_dict(layer.state_dict())
            given = expected if number == 1 else expected.relu()
            expected = conv(given, x_0, directed.edge_index, weight)
        assert torch.allclose(out, expected)
        gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (out, expected)]
        assert torch.allclose(*gradients)

    def test_no_layer_is_refused(self):
        with pytest.raises(ValueError, match=r"'num_layers' to be .*at least 1"):
            GCN2Stack(CHANNELS, 0, 0.2)

    def test_drops_between_layers_and_starts_anew(self, directed):
        stack = GCN2Stack(CHANNELS, 2, 0.2, dropout=0.5).double()
        given = directed.x, directed.x, directed.edge_index
        assert not torch.equal(stack(*given), stack(*given))
        before = stack.eval()(*given)
        assert torch.equal(before, stack(*given))
        stack.reset_parameters()
        assert not torch.equal(before, stack(*given))

    def test_is_float32_inside_autocast(self, directed):
        stack, x = GCN2Stack(CHANNELS, 2, 0.2), directed.x.bfloat16()
        expected = stack(x.float(), x.float(), directed.edge_index)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(stack(x, x, directed.edge_index), expected)

    def test_one_layer_is_the_convolution_as_a_backbone(self, directed):
        def make(backbone):
            torch.manual_seed(0)
            return GRAMABlock(CHANNELS, backbone, seq_len=2, num_recurrences=3).double()

        stack = make(GCN2Stack(CHANNELS, 1, 0.2, loops=False))
        plain = make(GCN2Conv(CHANNELS, 0.2, 0.5, 1, add_self_loops=False))
        given = torch.stack([directed.x, 2 * directed.x])
        results = [block(given, 0 * given, directed.edge_index) for block in (stack, plain)]
        for out, expected in zip(*results, strict=True):
            assert torch.allclose(out, expected)


class TestRootedGCN:
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("weighted", [True, False])
    def test_equals_the_dense_formula(self, directed, bias, weighted):
        module = RootedGCNConv(CHANNELS, bias=bias).double()
        weight = torch.rand(directed.num_edges, dtype=torch.float64) if weighted else None
        out = module(directed.x, directed.edge_index, weight)
        assert torch.allclose(out, dense_formula(module, directed, weight))


class TestNeighborSum:
    @pytest.fixture
    def edges(self, directed):
        return torch.randn(directed.num_edges, CHANNELS, dtype=torch.float64)

    def written_out(self, module, data, edge_attr):
        rows = [torch.zeros(CHANNELS, dtype=torch.float64) for _ in range(data.num_nodes)]
        for k, (j, i) in enumerate(data.edge_index.t().tolist()):
            message = module.lin.weight @ data.x[j] + module.lin.bias
            if edge_attr is not None:
                message = message + edge_attr[k]
            rows[i] = rows[i] + message.clamp(min=0)
        return torch.stack(rows)

    @pytest.mark.parametrize("norm", ["batch_norm", None])
    @pytest.mark.parametrize("has_edges", [False, True])
    def test_equals_its_equation(self, directed, edges, has_edges, norm):
        module = NeighborSumConv(CHANNELS, norm=norm).double()
        given = edges if has_edges else None
        out = module(directed.x, directed.edge_index, given)
        expected = self.written_out(module, directed, given)
        if norm:
            expected = F.batch_norm(expected, None, None, training=True)
        assert torch.allclose(out, expected)

    def test_gradcheck(self, directed, edges):
        module = NeighborSumConv(CHANNELS).double()
        assert torch.autograd.gradcheck(
            lambda x, e: module(x, directed.edge_index, e),
            (directed.x.requires_grad_(), edges.requires_grad_()),
        )

    @pytest.mark.parametrize("size", [(1,), (CHANNELS + 1,), ()])
    def test_edge_attributes_of_another_width_are_refused(self, directed, size):
        edges = torch.randn(directed.num_edges, *size).double()
        with pytest.raises(
            ValueError, match=r"Expected 'edge_attr' of shape \[num_edges, channels"
        ):
            NeighborSumConv(CHANNELS).double()(directed.x, directed.edge_index, edges)


class TestGIN:
    @pytest.mark.parametrize("has_edges", [False, True])
    @pytest.mark.parametrize("aggregation", ["sum", "multi"])
    def test_is_the_layer_of_pyg(self, directed, has_edges, aggregation):
        module = build_gin_conv(CHANNELS, has_edges, aggregation).double()
        edges = {"edge_attr": torch.randn(directed.num_edges, CHANNELS).double()}
        out = module(directed.x, directed.edge_index, **(edges if has_edges else {}))
        assert type(module) is (GINEConv if has_edges else GINConv)
        source, target = directed.edge_index
        messages = directed.x[source]
        if has_edges:
            messages = (messages + module.lin(edges["edge_attr"])).relu()
        reduced = module.aggr_module(messages, target, dim_size=directed.num_nodes)
        assert torch.allclose(out, module.nn(directed.x + reduced))


class TestNormed:
    def test_is_the_convolution_and_a_norm_of_the_step(self, directed):
        module = NormedConv(GINConv(torch.nn.Linear(CHANNELS, CHANNELS)), CHANNELS, 2).double()
        x, edge_index = directed.x, directed.edge_index
        plain = module.conv(x, edge_index)
        out = module(x, edge_index, step=1)
        assert torch.allclose(out, F.batch_norm(plain, None, None, training=True))
        assert not module.norm.running_mean[0].any()
        assert torch.allclose(module.norm.running_mean[1], 0.1 * plain.mean(0))

    def test_keywords_go_to_the_convolution(self, directed):
        module = NormedConv(RootedGCNConv(CHANNELS), CHANNELS).double().eval()
        out = module(directed.x, directed.edge_index, edge_weight=directed.edge_weight)
        plain = module.conv(directed.x, directed.edge_index, directed.edge_weight)
        assert torch.allclose(out, plain, rtol=1e-4)


class TestAggregation:
    def test_multi_maps_four_summaries(self):
        aggregation = build_aggregation("multi", 2).double()
        nothing = torch.zeros(8, dtype=torch.float64)
        pair = torch.tensor([4.0, 3.0, 2.0, 1.5, 3.0, 5.0, 1.0, -2.0], dtype=torch.float64)
        single = MESSAGES[2].repeat(4)
        out = aggregation(MESSAGES, TARGET, dim_size=3)
        expected = aggregation.lin(torch.stack([nothing, pair, single]))
        torch.testing.assert_close(out, expected)

    @pytest.mark.parametrize("shape", [(40, 3), (2, 40, 3)])
    def test_multi_is_the_one_of_pyg(self, shape):
        # few values, so that several messages are the largest; none is zero, as the zeros that
        # torch starts from would then share the gradient
        messages = torch.randint(1, 4, shape).double().requires_grad_()
        target = torch.randint(0, 12, (40,))
        sizes = {"in_channels": 3, "out_channels": 3}
        plain = MultiAggregation(["sum", "mean", "max", "min"], None, "proj", sizes).double()
        ours = build_aggregation("multi", 3).double()
        ours.load_state_dict(plain.state_dict())
        weight = torch.randn(*shape[:-2], 14, 3).double()
        results = []
        for module in (plain, ours):
            out = module(messages, target, dim_size=14)
            inputs = [messages, *module.parameters()]
            results.append([out, *torch.autograd.grad((out * weight).sum(), inputs)])
        torch.testing.assert_close(*results)

    def test_extremes_are_differentiated_twice_and_under_transforms(self):
        aggregation = build_aggregation("multi", 2).double()

        def run(messages):
            return aggregation(messages, TARGET, dim_size=3).pow(2)

        messages = MESSAGES.clone().requires_grad_()
        assert torch.autograd.gradgradcheck(run, messages)
        # an extreme of zero is no tie with the zeros that torch starts from
        for given in (messages, messages.detach().clamp(min=0), messages.detach().clamp(max=0)):
            plain = torch.autograd.functional.jacobian(run, given)
            torch.testing.assert_close(torch.func.jacrev(run)(given), plain)
            torch.testing.assert_close(torch.func.jacfwd(run)(given), plain)

    def test_multi_needs_the_node_of_each_message(self):
        with pytest.raises(ValueError, match="Expected 'index'"):
            build_aggregation("multi", 2).double()(MESSAGES, ptr=torch.tensor([0, 1, 3]))


@pytest.mark.parametrize(
    ("word", "norm"), [("neighbor-sum", "norm"), ("gin", "norm"), ("gatedgcn", "node_norm")]
)
def test_every_recurrence_keeps_its_own_running_statistics(directed, word, norm):
    block = GRAMABlock(CHANNELS, word, seq_len=2, num_recurrences=3).double()
    states = torch.stack([directed.x, 2 * directed.x])
    block(states, 0 * states, directed.edge_index)
    mean = getattr(block.backbone, norm).running_mean
    assert mean.size() == (3, CHANNELS)
    assert (mean.abs().sum(1) > 0).all()
    assert not torch.allclose(mean[0], mean[1])
    assert not torch.allclose(mean[1], mean[2])
