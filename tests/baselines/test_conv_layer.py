import pytest
import torch
from baseline_checks import draw_graph
from torch.nn import Linear, Module
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.nn.inits import reset

from torch_grama.baselines.conv_layer import ConvLayer, FeedForward
from torch_grama.nn.graph_input import read_graph_input


class Recorder(Module):
    """A convolution that remembers what it was called with."""

    edge_state = "block"

    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        self.seen = {"edge_weight": edge_weight, "edge_attr": edge_attr}
        return 2 * x, edge_attr + 1


class Plain(Module):
    def forward(self, x, edge_index):
        return -x


def read(data, edge_weight=None):
    return read_graph_input(data.num_nodes, data.edge_index, edge_weight)


def test_a_convolution_gets_what_it_declares_and_hands_on_its_edge_state():
    data = draw_graph(5, 0)
    weight = torch.rand(data.edge_index.size(1))
    edges = torch.zeros(data.edge_index.size(1), 5)
    layer = ConvLayer(Recorder(), 5, 5, act=None)
    out, after = layer(data.x, read(data, weight), edges)
    assert layer.conv.seen == {"edge_weight": weight, "edge_attr": edges}
    assert torch.equal(out, 2 * data.x)
    assert torch.equal(after, edges + 1)


def test_a_plain_convolution_gets_nothing_more_and_edge_states_pass_by():
    data = draw_graph(5, 0)
    edges = torch.zeros(data.edge_index.size(1), 5)
    out, after = ConvLayer(Plain(), 5, 5)(data.x, read(data), edges)
    assert torch.equal(out, (-data.x).relu())
    assert after is edges


def test_identity_residual_comes_after_the_activation():
    data = draw_graph(5, 0)
    out, _ = ConvLayer(Plain(), 5, 5, residual="identity")(data.x, read(data), None)
    torch.testing.assert_close(out, data.x + (-data.x).relu())


def test_linear_residual_comes_before_the_norm():
    data = draw_graph(5, 0)
    layer = ConvLayer(Plain(), 5, 5, norm="layer_norm", residual="linear").double()
    out, _ = layer(data.x, read(data), None)
    inner = torch.nn.functional.layer_norm(layer.skip_lin(data.x) - data.x, (5,))
    torch.testing.assert_close(out, inner.relu())


def test_a_norm_inside_the_convolution_leaves_one_to_the_feed_forward_part():
    layer = ConvLayer(Plain(), 5, 5, norm="batch_norm", feed_forward=True, conv_normalizes=True)
    assert layer.norm is None
    assert layer.feed_forward.norm1 is not None


def test_reset_reaches_every_part():
    layer = ConvLayer(GCNConv(5, 5), 5, 5, norm="batch_norm", residual="linear", feed_forward=True)
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(7)
    reset(layer)
    assert not any(bool((value == 7).any()) for value in layer.parameters())


def test_feed_forward_without_norm_is_a_residual_mlp():
    part = FeedForward(4, act="gelu")
    x = torch.randn(6, 4)
    first, second = part.lin1, part.lin2
    assert isinstance(first, Linear)
    assert first.out_features == 8
    inner = torch.nn.functional.gelu(x @ first.weight.t() + first.bias)
    torch.testing.assert_close(part(x), x + inner @ second.weight.t() + second.bias)


def test_feed_forward_drops_out_in_training_alone():
    part = FeedForward(4, dropout=0.5)
    x = torch.randn(6, 4)
    assert not torch.equal(part(x), part(x))
    assert torch.equal(part.eval()(x), part(x))


@pytest.mark.parametrize("conv", [GCNConv, SAGEConv], ids=lambda conv: conv.__name__)
def test_a_linear_convolution_runs_as_its_map_with_the_values_and_gradients_of_pyg(conv):
    data = draw_graph(5, 0)
    edge_index = torch.cat([data.edge_index, torch.tensor([[0, 2], [0, 2]])], 1)  # with two loops
    layer = ConvLayer(conv(5, 3), 5, 3, act=None).double()
    weight = torch.rand(edge_index.size(1), dtype=torch.double, requires_grad=True)
    x = data.x.double().requires_grad_()
    graph = read_graph_input(data.num_nodes, edge_index, weight if layer.call.edge_weight else None)
    out, _ = layer(x, graph, None)
    expected = layer.conv(x, edge_index, *([weight] if layer.call.edge_weight else []))
    torch.testing.assert_close(out, expected)
    inputs = [x, *layer.parameters(), *([weight] if layer.call.edge_weight else [])]
    picks = torch.randn_like(out)
    torch.testing.assert_close(
        torch.autograd.grad((out * picks).sum(), inputs),
        torch.autograd.grad((expected * picks).sum(), inputs),
    )
    assert len(graph.adjacencies) == 1  # PyG's own normalisation did not run

    seen = []
    layer.conv.register_forward_hook(lambda *_: seen.append(1))
    torch.testing.assert_close(layer(x, graph, None)[0], expected)
    assert seen  # a watched convolution is called
