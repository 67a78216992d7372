import pytest
import torch
from baseline_checks import randomize
from dense_graphs import dense, distances, draw_weighted_graph, symmetric

from torch_grama.baselines import DRewGatedGCN, DRewGCN, DRewGIN

DELAYS = [(1, None), (2, None), (None, None), (1, 2)]


def gcn_update(layer, x, delayed, rings):
    total = torch.zeros_like(x)
    for k, ring in enumerate(rings):
        total = total + symmetric(ring) @ delayed[k] @ layer.lins[k].weight.t()
    return x + layer.norm(total).clamp(min=0)


def gin_update(layer, x, delayed, rings):
    def mlp(module, z):
        return module[1](z @ module[0].weight.t() + module[0].bias).clamp(min=0)

    total = (1 + layer.eps) * mlp(layer.own_mlp, x)
    for k, ring in enumerate(rings):
        total = total + mlp(layer.mlps[k], ring @ delayed[k])
    return total.clamp(min=0)


def gated_update(layer, x, delayed, rings):
    """Node by node."""
    rows = []
    own = x @ layer.own_lin.weight.t() + layer.own_lin.bias
    for i in range(x.size(0)):
        row = own[i, :4]
        for k, ring in enumerate(rings):
            there = delayed[k] @ layer.lins[k].weight.t() + layer.lins[k].bias
            gates = [(own[i, 4:] + there[j, 4:]).sigmoid() for j in ring[i].nonzero().flatten()]
            parts = [there[j, :4] for j in ring[i].nonzero().flatten()]
            if gates:
                weighted = sum(gate * part for gate, part in zip(gates, parts, strict=True))
                row = row + weighted / (sum(gates) + 1e-6)
        rows.append(row)
    return x + layer.norm(torch.stack(rows)).clamp(min=0)


UPDATES = {DRewGCN: gcn_update, DRewGIN: gin_update, DRewGatedGCN: gated_update}


@pytest.mark.parametrize(("nu", "max_hops"), DELAYS)
@pytest.mark.parametrize("model_class", UPDATES)
@pytest.mark.parametrize("cached", [True, False])
def test_equals_the_formula_with_delays(model_class, nu, max_hops, cached):
    x, edge_index, _ = draw_weighted_graph()
    model = model_class(5, 4, 3, 4, nu=nu, max_hops=max_hops, cached=cached)
    model = randomize(model.double()).eval()
    distance = distances(dense(edge_index, None, 9))
    states = [x @ model.lin.weight.t() + model.lin.bias]
    for place, layer in enumerate(model.layers):
        hops = range(1, min(place + 1, max_hops or 4) + 1)
        delays = [max(0, k - nu) if nu else 0 for k in hops]
        delayed = [states[place - delay] for delay in delays]
        rings = [(distance == k).double() for k in hops]
        states.append(UPDATES[model_class](layer, states[place], delayed, rings))
    for edges in (edge_index, edge_index.clone()):  # as they are found and as they are remembered
        torch.testing.assert_close(model(x, edges), model.head(states[-1]))
