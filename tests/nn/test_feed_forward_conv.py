import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

from torch_grama.nn import FeedForwardConv, GatedGCNConv, GRAMABlock, GRAMAConv, RootedGCNConv

CHANNELS = 5


def test_is_the_formula(directed):
    module = FeedForwardConv(RootedGCNConv(CHANNELS), CHANNELS, 2).double()
    x, edge_index, weight = directed.x, directed.edge_index, directed.edge_weight
    u = F.gelu(module.conv(x, edge_index, weight))
    first, _, _, second, _ = module.feed_forward
    normed = F.batch_norm(x + u, None, None, training=True)
    expected = u + second(F.gelu(first(normed)))
    assert torch.allclose(module(x, edge_index, step=1, edge_weight=weight), expected)
    assert not module.norm.running_mean[0].any()
    assert torch.allclose(module.norm.running_mean[1], 0.1 * (x + u).mean(0))


@pytest.mark.parametrize("edge_state", ["block", "model"])
def test_edge_states_go_the_way_of_the_convolution(directed, edge_state):
    # a feed-forward part that adds nothing leaves the activation of the convolution
    class Activated(GatedGCNConv):
        def forward(self, x, edge_index, edge_attr=None, step=0):
            out, edges = super().forward(x, edge_index, edge_attr, step)
            return F.gelu(out), edges

    def make(conv):
        block = GRAMABlock(CHANNELS, conv, seq_len=2, num_recurrences=2, share_weights=False)
        block.take_edges()
        return block.double()

    attributes = torch.randn(directed.num_edges, CHANNELS).double()
    plain = make(lambda width: Activated(width, True, 2, edge_state=edge_state))
    wrapped = make(
        lambda width: FeedForwardConv(GatedGCNConv(width, True, 2, edge_state=edge_state), width, 2)
    )
    for part, other in zip(wrapped.backbone, plain.backbone, strict=True):
        torch.nn.init.zeros_(part.feed_forward[3].weight)
        torch.nn.init.zeros_(part.feed_forward[3].bias)
        part.conv.load_state_dict(other.state_dict())
    wrapped.coefficients.load_state_dict(plain.coefficients.state_dict())
    given = torch.stack([directed.x, 2 * directed.x])
    states, _ = wrapped(given, 0 * given, directed.edge_index, edge_attr=attributes)
    expected, _ = plain(given, 0 * given, directed.edge_index, edge_attr=attributes)
    assert torch.allclose(states, expected)
    (states.sum() + expected.sum()).backward()
    without = [
        {name for name, p in block.named_parameters() if p.grad is None}
        for block in (wrapped, plain)
    ]
    assert {name.replace("conv.", "") for name in without[0]} == without[1]


def test_nodes_that_only_send_are_not_updated(directed):
    inner = SAGEConv((CHANNELS, CHANNELS), CHANNELS)
    conv = GRAMAConv(FeedForwardConv(inner, CHANNELS), out_channels=CHANNELS).double()
    senders = torch.randn(directed.num_nodes, CHANNELS).double()
    out = conv((senders, directed.x), directed.edge_index)
    assert out.size() == directed.x.size()


def test_a_compiled_convolution_is_told_the_recurrence(directed):
    conv = GatedGCNConv(CHANNELS, num_recurrences=2).double()
    module = FeedForwardConv(torch.compile(conv, backend="eager"), CHANNELS, 2).double()
    module(directed.x, directed.edge_index, step=1)
    assert not conv.node_norm.running_mean[0].any()
    assert conv.node_norm.running_mean[1].any()
