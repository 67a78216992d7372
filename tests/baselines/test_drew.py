import pytest
import torch
from baseline_checks import randomize
from dense_graphs import dense, distances, draw_weighted_graph, symmetric

from torch_grama.baselines import DRewGatedGCN, DRewGCN, DRewGIN

MODELS = [DRewGCN, DRewGIN, DRewGatedGCN]
DELAYS = [(1, None), (2, None), (None, None), (1, 2)]


def gcn_update(layer, x, delayed, rings):
    total = torch.zeros_like(x)
    for k, ring in enumerate(rings):
        total = total + symmetric(ring) @ delayed[k] @ layer.lins[k].weight.t()
    return x + (total + layer.lins[0].bias).clamp(min=0)


def gin_update(layer, x, delayed, rings):
    def mlp(module, z):
        return (z @ module[0].weight.t() + module[0].bias).clamp(min=0)

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
    return x + torch.stack(rows).clamp(min=0)


UPDATES = {DRewGCN: gcn_update, DRewGIN: gin_update, DRewGatedGCN: gated_update}


@pytest.mark.parametrize(("nu", "max_hops"), DELAYS)
@pytest.mark.parametrize("model_class", MODELS)
def test_equals_the_formula_with_delays(model_class, nu, max_hops):
    x, edge_index, _ = draw_weighted_graph()
    model = model_class(5, 4, 3, 4, nu=nu, max_hops=max_hops, batch_norm=False)
    model = randomize(model.double())
    distance = distances(dense(edge_index, None, 9))
    states = [x @ model.lin.weight.t() + model.lin.bias]
    for place, layer in enumerate(model.layers):
        hops = range(1, min(place + 1, max_hops or 4) + 1)
        delays = [max(0, k - nu) if nu else 0 for k in hops]
        delayed = [states[place - delay] for delay in delays]
        rings = [(distance == k).double() for k in hops]
        states.append(UPDATES[model_class](layer, states[place], delayed, rings))
    torch.testing.assert_close(model(x, edge_index), model.head(states[-1]))


def test_batch_norm_comes_before_the_activation():
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(DRewGCN(5, 4, 3, 1).double())
    ring = symmetric((distances(dense(edge_index, None, 9)) == 1).double())
    h = x @ model.lin.weight.t() + model.lin.bias
    z = ring @ h @ model.layers[0].lins[0].weight.t()
    z = (z - z.mean(dim=0)) / (z.var(dim=0, unbiased=False) + 1e-5).sqrt()
    norm = model.layers[0].norm
    h = h + (z * norm.weight + norm.bias).clamp(min=0)
    torch.testing.assert_close(model(x, edge_index), model.head(h))


@pytest.mark.parametrize("model_class", MODELS)
def test_remembered_pairs_give_the_same(model_class):
    x, edge_index, _ = draw_weighted_graph()
    remembered = model_class(5, 4, 3, 3).double().eval()
    anew = model_class(5, 4, 3, 3, cached=False).double().eval()
    anew.load_state_dict(remembered.state_dict())
    torch.testing.assert_close(remembered(x, edge_index), anew(x, edge_index))
    torch.testing.assert_close(remembered(x, edge_index.clone()), anew(x, edge_index))


def test_number_of_matrices_of_each_form():
    """Layer l has l terms: depth (depth + 1) / 2 in all; the gated form has two for each."""
    depth, width = 5, 16
    terms = depth * (depth + 1) // 2
    expected = {DRewGCN: terms, DRewGIN: terms + depth, DRewGatedGCN: 2 * depth + 2 * terms}
    for model_class, matrices in expected.items():
        layers = model_class(width, width, 3, depth).layers
        assert sum(p.numel() for p in layers.parameters() if p.dim() == 2) == matrices * width**2
