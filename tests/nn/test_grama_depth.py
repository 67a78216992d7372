"""Depth at initialisation: neither states nor gradients explode or vanish."""

import pytest
import torch
from backbone_cases import BY_NAME, CASES, CHANNELS, EDGE_DIM, BackboneCase, backbones
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv

from torch_grama.nn import NormedConv

NODES = 16
# Sums over neighbours multiply the scale of the states by the degrees; they need a norm.
SUMS = {
    "GatedGCNConv of sums with edges",
    "GIN of many aggregations",
    "GINConv",
    "GINEConv",
    "ResGatedGraphConv",
    "GraphConv",
    "ChebConv",
}
NORMED = BackboneCase("normed sum", lambda: NormedConv(GraphConv(CHANNELS, CHANNELS), CHANNELS))


@pytest.fixture(scope="module")
def graph():
    """A random graph of average degree five."""
    generator = torch.Generator().manual_seed(7)
    upper = torch.rand(NODES, NODES, generator=generator).triu(1) > 1 - 5 / (NODES - 1)
    upper &= torch.ones(NODES, NODES, dtype=torch.bool).triu(1)
    edge_index = (upper | upper.t()).nonzero().t().contiguous()
    assert 4 <= edge_index.size(1) / NODES <= 6
    return Data(
        x=torch.randn(NODES, 5, generator=generator).double(),
        edge_index=edge_index,
        edge_attr=torch.randn(edge_index.size(1), EDGE_DIM, generator=generator).double(),
    )


def norm_of_gradients(block):
    gradients = [p.grad.flatten() for p in block.parameters() if p.grad is not None]
    return torch.cat(gradients).norm()


@backbones([*(case for case in CASES if case.name not in SUMS), NORMED])
@pytest.mark.parametrize("coefficients", ["selective", "naive"])
@pytest.mark.parametrize(
    ("seq_len", "num_blocks"),
    [(2, 2), (4, 2), (4, 4), (16, 2), (4, 16), (16, 8)],
    ids=["depth 4", "depth 8", "depth 16", "depth 32", "depth 64", "depth 128"],
)
def test_states_and_gradients_keep_their_scale(case, coefficients, seq_len, num_blocks, graph):
    model = case.fresh(seq_len=seq_len, num_blocks=num_blocks, coefficients=coefficients)
    read = []
    model.head.register_forward_pre_hook(lambda _, arguments: read.append(arguments[0]))

    case.run(model, graph).square().mean().backward()

    first, last = model.embedding(graph.x)[0][-1].std(), read[0].std()
    assert 1e-2 < last / first < 1e2
    first, last = (norm_of_gradients(model.blocks[index]) for index in (0, -1))
    assert 1e-4 < first / last < 1e4


@pytest.mark.parametrize("coefficients", ["selective", "naive"])
def test_the_form_of_the_paper_does_not(coefficients, graph):
    case = BY_NAME["GraphConv"]
    model = case.fresh(seq_len=16, num_blocks=4, coefficients=coefficients, gain=None)
    read = []
    model.head.register_forward_pre_hook(lambda _, arguments: read.append(arguments[0]))

    case.run(model, graph)

    assert read[0].std() > 1e2 * model.embedding(graph.x)[0][-1].std()
