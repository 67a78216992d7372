"""BigBird's attention, GAT-sep and the message-passing state-space model are their formulas."""

import math

import pytest
import torch
import torch.nn.functional as F
from baseline_checks import call, draw_graph
from dense_formulas import affine, frame, gated_gcn, head, layer_norm, prepare, softmax_rows

from torch_grama.baselines import GPS, MPSSM, GATSep
from torch_grama.baselines.batch_view import node_noise
from torch_grama.baselines.bigbird import GLOBAL, RANDOM, WINDOW


def bigbird(part, x):
    size, width = len(x), x.size(-1) // part.heads
    noise = node_noise(torch.arange(size), RANDOM, False, torch.float64)
    query, key, value = affine(part.in_lin, x).chunk(3, dim=-1)
    out = torch.zeros_like(x)
    for i in range(size):
        seen = {j for j in range(size) if abs(i - j) <= WINDOW or min(i, j) < GLOBAL}
        if i >= GLOBAL:
            seen |= {int(draw * size) for draw in noise[i].tolist()}
        seen = sorted(seen)
        for h in range(part.heads):
            cut = slice(h * width, (h + 1) * width)
            scores = query[i, cut] @ key[seen][:, cut].t() / math.sqrt(width)
            out[i, cut] = softmax_rows(scores) @ value[seen][:, cut]
    return affine(part.out_lin, out)


@pytest.mark.parametrize("size", [1, 6, 15, 40])
def test_bigbird_is_its_formula(size):
    graph = draw_graph(size, 0, edge_dim=3)
    model = prepare(GPS(5, 8, 3, 2, edge_dim=3, attention="bigbird"))
    x, edge = (
        affine(model.encoder.node_lin, graph.x),
        affine(model.encoder.edge_lin, graph.edge_attr),
    )
    for layer in range(2):
        update, edge = gated_gcn(model.locals[layer].conv, x, graph.edge_index, edge)
        x = frame(model.frames[layer], x, [bigbird(model.mixers[layer], x), update])
    torch.testing.assert_close(call(model, graph), head(model, x))


def test_bigbird_takes_memory_in_proportion_to_the_nodes():
    model = GPS(5, 8, 3, 1, attention="bigbird").eval()
    size = 200_000  # the square would take 160 GB a head
    nodes = torch.arange(size - 1)
    out = model(torch.randn(size, 5), torch.stack([nodes, nodes + 1]))
    assert out.shape == (size, 3)


def test_gat_sep_is_its_formula():
    graph = draw_graph(7, 0)
    model = prepare(GATSep(5, 8, 3, 2, heads=2))
    x = F.gelu(affine(model.encoder.node_lin, graph.x))
    adjacency = torch.zeros(7, 7, dtype=torch.float64)
    for source, target in graph.edge_index.t().tolist():
        adjacency[target, source] += 1
    for layer in model.layers:
        z = affine(layer.lin, layer_norm(layer.norm, x))
        scores = affine(layer.target_lin, z)[:, None] + (z @ layer.source_lin.weight.t())[None]
        weight = F.leaky_relu(scores, 0.2).exp() * adjacency[..., None]
        weight = weight / weight.sum(1, keepdim=True).clamp(min=1e-12)
        read = torch.einsum("ijh,jhd->ihd", weight, z.view(7, 2, 4)).flatten(1)
        hidden = F.gelu(affine(layer.mlp[0], torch.cat([z, read], dim=1)))
        x = x + affine(layer.mlp[3], hidden)
    torch.testing.assert_close(call(model, graph), head(model, layer_norm(model.norm, x)))


def test_mp_ssm_is_its_formula():
    graph = draw_graph(6, 1)
    model = prepare(MPSSM(5, 8, 3, 3, num_blocks=2))
    A = torch.eye(6, dtype=torch.float64)
    for source, target in graph.edge_index.t().tolist():
        A[target, source] += source != target
    scale = A.sum(1).rsqrt()
    A = scale[:, None] * A * scale
    x = affine(model.encoder.node_lin, graph.x)
    for block in model.blocks:
        W, B = block.state_lin.weight.t(), block.in_lin.weight.t()
        # three steps written as one sum
        state = sum(
            torch.linalg.matrix_power(A, t) @ x @ B @ torch.linalg.matrix_power(W, t)
            for t in range(3)
        )
        first, last = block.mlp.lins
        x = x + affine(last, affine(first, layer_norm(block.norm, state)).clamp(min=0))
    torch.testing.assert_close(call(model, graph), head(model, x))
