import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import scatter

from torch_grama.nn.linear_backbone import gcn_adjacency, mean_adjacency, sum_adjacency

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
def test_equals_the_normalisation_of_pyg(edge_index, weighted, loop_weight, options):
    weight = edge_weights(edge_index, weighted)

    got = dense(gcn_adjacency(edge_index, weight, NODES, torch.float64, loop_weight))

    (source, target), value = gcn_norm(
        edge_index, weight, num_nodes=NODES, dtype=torch.float64, **options
    )
    expected = torch.zeros(NODES, NODES, dtype=torch.float64)
    expected.index_put_((target, source), value, accumulate=True)
    assert torch.allclose(got, expected)


@graphs
@weights
def test_equals_the_formula(edge_index, weighted):
    weight = edge_weights(edge_index, weighted)
    A = torch.zeros(NODES, NODES, dtype=torch.float64)
    values = torch.ones(edge_index.size(1), dtype=torch.float64) if weight is None else weight
    A.index_put_((edge_index[1], edge_index[0]), values, accumulate=True)
    A += torch.diag((A.diagonal() == 0).double())
    degree = A.sum(1)

    got = dense(gcn_adjacency(edge_index, weight, NODES, torch.float64))

    assert torch.allclose(got, A / (degree[:, None] * degree[None]).sqrt())


def test_gradient_in_the_weights():
    weight = edge_weights(LOOPS, True).requires_grad_()

    assert torch.autograd.gradcheck(
        lambda w: dense(gcn_adjacency(LOOPS, w, NODES, torch.float64)), weight
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_is_finite_for_nodes_without_incoming_edges(dtype):
    weight = edge_weights(PLAIN, True).to(dtype).requires_grad_()

    adjacency = gcn_adjacency(PLAIN, weight, NODES, dtype, loop_weight=None)
    adjacency.propagate(torch.ones(NODES, 1, dtype=dtype)).sum().backward()

    assert torch.isfinite(weight.grad).all()
    assert torch.isfinite(adjacency.value).all()


@graphs
@weights
@pytest.mark.parametrize(("build", "reduce"), [(mean_adjacency, "mean"), (sum_adjacency, "sum")])
def test_means_and_sums_over_incoming_edges(edge_index, weighted, build, reduce):
    weight = edge_weights(edge_index, weighted)
    x = torch.randn(NODES, 3, dtype=torch.float64)
    messages = x[edge_index[0]] if weight is None else x[edge_index[0]] * weight[:, None]

    got = build(edge_index, weight, NODES, torch.float64).propagate(x)

    assert torch.allclose(got, scatter(messages, edge_index[1], 0, NODES, reduce))


@pytest.mark.parametrize("build", [gcn_adjacency, mean_adjacency, sum_adjacency])
def test_values_have_the_type_asked_for(build):
    weight = edge_weights(PLAIN, True)

    assert build(PLAIN, weight, NODES, torch.float32).value.dtype == torch.float32
