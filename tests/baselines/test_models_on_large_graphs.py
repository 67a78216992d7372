import math

import pytest
import torch
import torch.nn.functional as F
from baseline_checks import call, draw_graph
from dense_formulas import (
    affine,
    batch_norm,
    full_attention,
    head,
    layer_norm,
    prepare,
    softmax_rows,
)
from dense_graphs import adjacency, distances, gcn_matrix

from torch_grama.baselines import GOAT, NAGphormer, large_graphs
from torch_grama.baselines.large_graphs import Codebook


@pytest.mark.parametrize("hops", [1, 3])
def test_goat_is_its_formula(hops):
    size = 8
    graph = draw_graph(size, 0)
    model = prepare(GOAT(5, 4, 3, 2, heads=2, num_centroids=3, local_hops=hops))
    distance = distances(adjacency(graph))
    x = affine(model.encoder.node_lin, graph.x)
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


def test_training_moves_the_centres_and_evaluation_does_not():
    graph = draw_graph(9, 0)
    model = GOAT(5, 4, 3, 1, num_centroids=4).double()
    book = model.global_attentions[0].codebook
    start = book.centroids.clone()
    call(model.eval(), graph)
    assert torch.equal(book.centroids, start)
    call(model.train(), graph)
    assert not torch.equal(book.centroids, start)


def test_assigns_the_nearest_centre_in_normalised_space():
    book = Codebook(5, 3).double()
    book.running_mean.copy_(torch.tensor([1.0, -2.0, 0.5]))
    book.running_var.copy_(torch.tensor([4.0, 0.25, 1.0]))
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    normed = (x - book.running_mean) / (book.running_var + 1e-5).sqrt()
    assert torch.equal(book.assign(x), torch.cdist(normed, book.centroids).argmin(1))
    scale = (book.running_var + 1e-5).sqrt()
    torch.testing.assert_close(book.decode(), book.centroids * scale + book.running_mean)


def test_an_update_is_the_moving_average_of_counts_and_sums():
    book = Codebook(4, 2, decay=0.9, momentum=0.2).double()
    old = {name: value.clone() for name, value in book.named_buffers()}
    x = 3 + torch.randn(30, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    normed = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    nearest = torch.cdist(normed, old["centroids"]).argmin(1)
    book.update(x)
    torch.testing.assert_close(book.running_mean, 0.2 * x.mean(0))
    torch.testing.assert_close(book.running_var, 0.8 + 0.2 * x.var(0))
    for k in range(4):
        own = normed[nearest == k]
        count = 0.9 + 0.1 * own.size(0)
        total = 0.9 * old["centroids"][k] + 0.1 * own.sum(0)
        torch.testing.assert_close(book.counts[k].item(), count)
        torch.testing.assert_close(book.centroids[k], total / count)


def test_a_centre_that_nobody_chooses_stays():
    book = Codebook(2, 2, decay=0.5)
    book.centroids.copy_(torch.tensor([[0.0, 0.0], [50.0, 50.0]]))
    book.totals.copy_(book.centroids)
    for _ in range(200):
        book.update(torch.randn(10, 2))
    assert torch.allclose(book.centroids[1], torch.tensor([50.0, 50.0]))
    assert book.centroids.isfinite().all()


def dense_output(model, graph, hops):
    matrix = gcn_matrix(adjacency(graph))
    powers = [torch.linalg.matrix_power(matrix, k) @ graph.x for k in range(hops + 1)]
    states = []
    for i in range(graph.num_nodes):
        z = affine(model.encoder.node_lin, torch.stack([power[i] for power in powers]))
        for layer in model.layers:
            z = z + full_attention(layer.attention, layer_norm(layer.attention_norm, z))
            norm, first, _, last, _ = layer.mlp
            z = z + affine(last, F.gelu(affine(first, layer_norm(norm, z))))
        z = layer_norm(model.norm, z)
        scores = torch.stack(
            [affine(model.hop_lin, torch.cat([z[0], z[k]])) for k in range(1, hops + 1)]
        )
        states.append(z[0] + softmax_rows(scores.t()).squeeze(0) @ z[1:])
    return head(model, torch.stack(states))


@pytest.mark.parametrize("hops", [1, 4])
def test_nagphormer_is_its_formula(hops):
    graph = draw_graph(7, 0)
    model = prepare(NAGphormer(5, 8, 3, 2, hops=hops))
    torch.testing.assert_close(call(model, graph), dense_output(model, graph, hops))


def test_nodes_in_parts_change_nothing(monkeypatch):
    graph = draw_graph(11, 0)
    model = prepare(NAGphormer(5, 8, 3, 1))
    whole = call(model, graph)
    monkeypatch.setattr(large_graphs, "NODES_AT_ONCE", 4)
    torch.testing.assert_close(call(model, graph), whole)


def test_one_point_changes_nothing():
    book = Codebook(2, 2)
    before = book.centroids.clone()
    book.update(torch.ones(1, 2))
    assert torch.equal(before, book.centroids)
