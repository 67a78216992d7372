import pytest
import torch

from torch_grama import GRAMA
from torch_grama.nn.readout import POOLINGS, pool_graphs, pooled_channels

BATCH = torch.tensor([0, 0, 0, 2, 2])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_against_a_loop_over_graphs(pooling):
    x = torch.randn(5, 4, dtype=torch.float64) - 3  # a maximum below zero is not lost
    one = {"mean": lambda g: g.mean(0), "sum": lambda g: g.sum(0), "max": lambda g: g.amax(0)}
    rows = []
    for graph in (x[:3], None, x[3:]):
        parts = [torch.zeros(4) if graph is None else one[p](graph) for p in POOLINGS[pooling]]
        rows.append(torch.cat([part.double() for part in parts]))
    found = pool_graphs(x, BATCH, 3, pooling)
    torch.testing.assert_close(found, torch.stack(rows))
    assert found.size(1) == pooled_channels(4, pooling)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_one_graph_needs_no_batch_vector(pooling):
    x = torch.randn(5, 4)
    alone = pool_graphs(x, pooling=pooling)
    torch.testing.assert_close(alone, pool_graphs(x, torch.zeros(5, dtype=torch.long), 1, pooling))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients(pooling):
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pool_graphs(x, BATCH, 3, pooling), (x,))


def test_no_nodes_at_all():
    assert pool_graphs(torch.zeros(0, 4), pooling="max").tolist() == [[0.0] * 4]


def test_unknown_word():
    with pytest.raises(ValueError, match=r"'mean'.*got 'maen'"):
        pool_graphs(torch.zeros(1, 4), pooling="maen")


@pytest.mark.parametrize("pooling", POOLINGS)
def test_model_pools_as_asked(pooling):
    edge_index = torch.tensor([[0, 1, 3, 4], [1, 2, 4, 3]])
    model = GRAMA(3, 8, 2, readout="graph", pooling=pooling)
    out = model(torch.randn(5, 3), edge_index, batch=BATCH, batch_size=3)
    assert out.size() == (3, 2)
    out.sum().backward()


def test_pooling_without_a_graph_readout_is_refused():
    with pytest.raises(ValueError, match="readout='graph'"):
        GRAMA(3, 8, 2, pooling="max")
