import pytest
import torch
from baseline_checks import randomize
from het_cases import dense, distances, draw_weighted_graph, symmetric

from torch_grama.baselines import H2GCN


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_equals_the_dense_formula(num_layers, cached):
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(H2GCN(5, 4, 3, num_layers, cached=cached).double())
    distance = distances(dense(edge_index, None, 9))
    rings = [symmetric((distance == hops).double()) for hops in (1, 2)]

    state = (x @ model.lin.weight.t()).clamp(min=0)
    states = [state]
    for _ in range(num_layers):
        state = torch.cat([ring @ state for ring in rings], dim=1)
        states.append(state)
    head = model.head.mlp.layers[0]
    expected = torch.cat(states, dim=1) @ head.weight.t() + head.bias

    torch.testing.assert_close(model(x, edge_index), expected)


def test_parameters_of_the_published_setting():
    """Width 64 and two rounds on roman-empire: one layer in, one out of seven times the width."""
    model = H2GCN(300, 64, 18, 2)
    assert sum(p.numel() for p in model.parameters()) == 300 * 64 + 7 * 64 * 18 + 18


def test_rings_are_found_once(monkeypatch):
    x, edge_index, _ = draw_weighted_graph()
    model = H2GCN(5, 4, 3, 2).double()
    expected = model(x, edge_index)
    monkeypatch.setattr("torch_grama.baselines.hop_pairs.hop_pairs", None)
    assert torch.equal(model(x, edge_index.clone()), expected)
