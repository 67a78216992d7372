"""The pooling of any model, chosen after it was built."""

import pytest
import torch
from torch import nn

from torch_grama.baselines import GCN, GPRGNN, MLP
from torch_grama.baselines.graph_head import choose_pooling

BATCH = torch.tensor([0, 0, 0, 1, 1])
EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 4]])


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [("sum", lambda x: x.sum(0)), ("max", lambda x: x.amax(0)), ("mean", lambda x: x.mean(0))],
)
def test_outputs_of_nodes_are_pooled_as_they_are(pooling, pool):
    model = GPRGNN(4, 8, 3, 2, readout="graph").eval()
    nodes = GPRGNN(4, 8, 3, 2).eval()
    nodes.load_state_dict(model.state_dict())
    choose_pooling(model, pooling)
    x = torch.randn(5, 4)
    out = nodes(x, EDGES)
    expected = torch.stack([pool(out[:3]), pool(out[3:])])
    torch.testing.assert_close(model(x, EDGES, batch=BATCH, batch_size=2), expected)


def test_a_wider_pooling_widens_the_head_and_is_trained():
    model = GCN(4, 8, 3, 2, readout="graph")
    choose_pooling(model, "sum-max-mean")
    out = model(torch.randn(5, 4), EDGES, batch=BATCH, batch_size=2)
    assert out.size() == (2, 3)
    out.sum().backward()
    assert model.head.mlp.layers[0].weight.grad.size() == (24, 24)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="'mean', 'sum' or 'max', since the outputs of the nodes"):
        choose_pooling(MLP(4, 8, 3, 2, readout="graph"), "sum-max-mean")
    with pytest.raises(ValueError, match=r"only with readout='graph' \(got pooling='sum'"):
        choose_pooling(GCN(4, 8, 3, 2), "sum")
    with pytest.raises(ValueError, match="one of 'max'"):
        choose_pooling(GCN(4, 8, 3, 2, readout="graph"), "maxx")
    with pytest.raises(ValueError, match=r"readout of graphs .* \(got Linear\)"):
        choose_pooling(nn.Linear(2, 2), "sum")
