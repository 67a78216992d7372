import math

import pytest
import torch
from baseline_checks import call, draw_graph, read_batch
from dense_formulas import affine, batch_norm, head, prepare, softmax_rows
from torch_geometric.data import Batch

from torch_grama.baselines import GOAT


def distances(graph, hops):
    """The number of hops between all nodes, infinite beyond the last."""
    size = graph.x.size(0)
    adjacency = torch.zeros(size, size)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    distance = torch.full((size, size), math.inf)
    reach = torch.eye(size)
    for hop in range(hops + 1):
        distance[(reach > 0) & distance.isinf()] = hop
        reach = adjacency @ reach
    return distance


@pytest.mark.parametrize("hops", [1, 3])
def test_goat_is_its_formula(hops):
    size = 8
    graph = draw_graph(size, 0)
    model = prepare(GOAT(5, 4, 3, 2, heads=2, num_centroids=3, local_hops=hops))
    distance = distances(graph, hops)
    x = affine(model.node_lin, graph.x)
    x = affine(model.embedding[3], batch_norm(model.embedding[0], x).clamp(min=0))
    for near, far, mlp in zip(
        model.local_attentions, model.global_attentions, model.mlps, strict=True
    ):
        query, key, value = (affine(lin, x) for lin in (near.query, near.key, near.value))
        local = torch.zeros(size, 8, dtype=torch.float64)
        for h in range(2):
            cut = slice(4 * h, 4 * h + 4)
            for i in range(size):
                inside = [j for j in range(size) if distance[i, j] <= hops]
                scores = []
                for j in inside:
                    d = int(distance[i, j])
                    ring = int((distance[i] == d).sum())
                    bias = near.distance_bias.weight[d, h] - math.log(ring)
                    scores.append(query[i, cut] @ key[j, cut] / 2 + bias)
                local[i, cut] = softmax_rows(torch.stack(scores)) @ value[inside][:, cut]
        points, centres = affine(far.project, x), far.codebook.decode()
        nearest = far.codebook.assign(points)
        used = sorted(set(nearest.tolist()))
        number = torch.tensor([int((nearest == k).sum()) for k in used], dtype=torch.float64)
        query, key, value = affine(far.query, points), far.key(centres), far.value(centres)
        reads = []
        for cut in (slice(0, 4), slice(4, 8)):
            scores = query[:, cut] @ key[used][:, cut].t() / 2 + number.log()
            reads.append(softmax_rows(scores) @ value[used][:, cut])
        h = affine(mlp[0], torch.cat([local, *reads], -1))
        h = affine(mlp[4], batch_norm(mlp[1], h).clamp(min=0))
        x = batch_norm(mlp[5], h).clamp(min=0)
    torch.testing.assert_close(call(model, graph), head(model, x))


def test_enough_centres_make_the_global_part_full_attention():
    """With a centre on every node, the clusters are the nodes."""
    graph = draw_graph(6, 0)
    model = prepare(GOAT(5, 4, 3, 1, heads=1, num_centroids=6))
    far = model.global_attentions[0]
    x = model.embedding(affine(model.node_lin, graph.x)).detach()
    far.codebook.centroids.copy_(affine(far.project, x).detach() / math.sqrt(1 + 1e-5))
    points = affine(far.project, x)
    scores = affine(far.query, points) @ affine(far.key, points).t() / 2
    expected = softmax_rows(scores) @ affine(far.value, points)
    torch.testing.assert_close(far(x, read_batch(x, graph.edge_index)), expected)


def test_training_moves_the_centres_and_evaluation_does_not():
    graph = draw_graph(9, 0)
    model = GOAT(5, 4, 3, 1, num_centroids=4).double()
    book = model.global_attentions[0].codebook
    start = book.centroids.clone()
    call(model.eval(), graph)
    assert torch.equal(book.centroids, start)
    call(model.train(), graph)
    assert not torch.equal(book.centroids, start)


def test_centres_of_other_graphs_are_not_read():
    graphs = [draw_graph(6, 0), draw_graph(7, 1)]
    model = prepare(GOAT(5, 4, 3, 2, num_centroids=8))
    batch = Batch.from_data_list(graphs)
    batch.x.requires_grad_()
    (grad,) = torch.autograd.grad(call(model, batch)[:6].sum(), batch.x)
    assert grad[6:].abs().max() == 0
