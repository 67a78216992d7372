import pytest
import torch
from baseline_checks import call, draw_graph, read_batch
from dense_formulas import affine, frame, gated_gcn, head, layer_norm, mamba, prepare

from torch_grama.baselines import GMN
from torch_grama.baselines.gmn import sample_walk_tokens


def both_ways(scan, sequence):
    return mamba(scan.forwards, sequence) + mamba(scan.backwards, sequence.flip(0)).flip(0)


def encode(scan, x, edge, graph, nodes):
    """One subgraph, given by its nodes."""
    states = []
    for i in nodes:
        messages = [
            (affine(scan.neighbor_lin, x[j]) + shift).clamp(min=0)
            for (j, target), shift in zip(graph.edge_index.t().tolist(), edge, strict=True)
            if target == i and j in nodes
        ]
        received = torch.stack(messages).mean(0) if messages else 0
        states.append((affine(scan.own_lin, x[i]) + received).clamp(min=0))
    return torch.stack(states).mean(0)


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_gmn_is_its_formula(edge_dim):
    size = 7
    graph = draw_graph(size, 0, edge_dim)
    model = prepare(GMN(5, 6, 3, 2, edge_dim=edge_dim, walk_length=2, state_channels=3))
    view = read_batch(graph.x, graph.edge_index)
    tokens = sample_walk_tokens(view, 2, 2, 2, False)
    x = affine(model.node_lin, graph.x)
    start = edge = None if edge_dim is None else affine(model.edge_lin, graph.edge_attr)
    degree = torch.bincount(graph.edge_index[0], minlength=size)
    order = sorted(range(size), key=lambda i: (int(degree[i]), i))
    for local, scan, sums in zip(model.locals, model.scans, model.frames, strict=True):
        shift = [0] * graph.edge_index.size(1)
        if start is not None:
            shift = affine(scan.edge_lin, start)
        read = torch.zeros_like(x)
        for i in range(size):
            sequence = torch.stack(
                [
                    encode(
                        scan, x, shift, graph, tokens.node[tokens.token == 5 * i + place].tolist()
                    )
                    for place in range(5)
                ]
            )
            normed = layer_norm(scan.norm, sequence)
            read[i] = sequence[-1] + mamba(scan.token_scan.forwards, normed)[-1]
            read[i] += mamba(scan.token_scan.backwards, normed.flip(0))[-1]
        scanned = torch.zeros_like(x)
        scanned[order] = both_ways(scan.node_scan, read[order])
        update, edge = gated_gcn(local.conv, x, graph.edge_index, edge)
        x = frame(sums, x, [scanned, update])
    torch.testing.assert_close(call(model, graph), head(model, x))


def test_training_draws_walks_from_the_global_generator():
    graph = draw_graph(10, 0)
    model = GMN(5, 6, 3, 1).double()

    def run(seed):
        torch.manual_seed(seed)
        return call(model, graph)

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))
    model.eval()
    assert torch.equal(run(0), run(1))


@pytest.mark.parametrize("name", ["walk_length", "num_samples", "num_walks"])
def test_sizes_must_be_positive(name):
    with pytest.raises(ValueError, match=name):
        GMN(5, 6, 3, 1, **{name: 0})
