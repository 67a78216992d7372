import pytest
import torch
from dense_graphs import dense, draw_weighted_graph

from torch_grama.baselines.products import propagate
from torch_grama.nn.linear_backbone import sum_adjacency


@pytest.fixture
def graph():
    x, edge_index, weight = draw_weighted_graph()
    return x, sum_adjacency(edge_index, weight, 9, torch.float64), dense(edge_index, weight, 9)


def test_equals_the_dense_product(graph):
    x, adjacency, matrix = graph
    torch.testing.assert_close(propagate(adjacency, x), matrix @ x)


def test_weights_that_are_learned_get_their_gradient():
    x, edge_index, weight = draw_weighted_graph()
    weight.requires_grad_()

    def product(x, weight):
        return propagate(sum_adjacency(edge_index, weight, 9, torch.float64), x)

    assert torch.autograd.gradcheck(product, (x.requires_grad_(), weight))


def test_function_transforms(graph):
    x, adjacency, matrix = graph
    slope = torch.func.grad(lambda x: propagate(adjacency, x).square().sum())(x)
    torch.testing.assert_close(slope, 2 * matrix.t() @ matrix @ x)


def test_half_precision_keeps_its_type(graph):
    x, adjacency, matrix = graph
    out = propagate(adjacency, x.bfloat16())
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), matrix @ x.bfloat16().double(), atol=0.05, rtol=0.02)


def test_no_edges():
    x = torch.randn(3, 2)
    adjacency = sum_adjacency(torch.zeros(2, 0, dtype=torch.long), None, 3, torch.float32)
    assert torch.equal(propagate(adjacency, x), torch.zeros(3, 2))
