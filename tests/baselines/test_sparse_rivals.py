"""BigBird's attention, GAT-sep, the message-passing state-space model, SONAR and GRIT are their
formulas."""

import math

import pytest
import torch
import torch.nn.functional as F
from baseline_checks import call, draw_graph
from dense_formulas import affine, frame, gated_gcn, head, layer_norm, prepare, softmax_rows

from torch_grama.baselines import GPS, GRIT, MPSSM, SONAR, GATSep
from torch_grama.baselines.batch_view import node_noise
from torch_grama.baselines.global_attention import GLOBAL, RANDOM, WINDOW
from torch_grama.nn.graph_input import GraphInput


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


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("parts", [(True, True), (False, False)])
def test_sonar_is_its_formula(edge_dim, parts):
    graph = draw_graph(6, 1, edge_dim)
    damping, forcing = parts
    options = {"epsilon": 0.5, "damping": damping, "forcing": forcing, "edge_dim": edge_dim}
    model = prepare(SONAR(5, 8, 3, 3, num_blocks=2, **options))
    x = affine(model.encoder.node_lin, graph.x)
    edge = None if edge_dim is None else affine(model.encoder.edge_lin, graph.edge_attr)
    for block in model.blocks:
        R = torch.zeros(6, 6, dtype=torch.float64)
        for k, (j, i) in enumerate(graph.edge_index.t().tolist()):
            hidden = affine(block.source_lin, x[j]) + x[i] @ block.target_lin.weight.t()
            if edge is not None:
                hidden = hidden + edge[k] @ block.edge_lin.weight.t()
            if i != j:
                R[i, j] += affine(block.resistance_lin, hidden.clamp(min=0)).abs().item()
        scale = R.sum(1)
        scale = torch.where(scale > 0, scale.clamp(min=1e-12).rsqrt(), 0)
        L = torch.eye(6, dtype=torch.float64) - scale[:, None] * R * scale
        v = torch.zeros_like(x)
        for _ in range(3):
            change = L @ x @ block.lin.weight.t()
            if damping:
                change += affine(block.damping, x).clamp(min=0) * v
            if forcing:
                first, last = block.force.lins
                change -= affine(last, affine(first, x).clamp(min=0))
            v = v - 0.5 * change
            x = x + 0.5 * v
        first, last = block.mlp.lins
        x = affine(last, affine(first, x).clamp(min=0))
    torch.testing.assert_close(call(model, graph), head(model, x))


def test_a_wave_without_damping_and_force_keeps_its_energy():
    ring = torch.stack([torch.arange(12), (torch.arange(12) + 1) % 12])
    graph = GraphInput(12, torch.cat([ring, ring.flip(0)], dim=1))
    model = SONAR(1, 4, 1, 400, epsilon=0.05, damping=False, forcing=False).double()
    block = model.blocks[0]
    torch.nn.init.eye_(block.lin.weight)
    torch.nn.init.zeros_(block.resistance_lin.weight)  # all resistances alike: L is symmetric
    torch.nn.init.ones_(block.resistance_lin.bias)
    block.mlp = torch.nn.Identity()
    x = torch.randn(12, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.ones(24, dtype=torch.float64)
    sizes = []
    for steps in range(0, 400, 40):
        block.num_steps = steps
        sizes.append(float(block(x, graph, weight).detach().norm()))
    assert max(sizes) < 1.5 * sizes[0]  # a heat equation would shrink, an explicit step would grow
    assert min(sizes) > 0.2 * sizes[0]


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_grit_is_its_formula(edge_dim):
    graph = draw_graph(6, 1, edge_dim)
    model = prepare(GRIT(5, 8, 3, 2, heads=2, walk_length=4, edge_dim=edge_dim))
    A = torch.zeros(6, 6, dtype=torch.float64)
    for j, i in graph.edge_index.t().tolist():
        A[i, j] += i != j
    degree = A.sum(1)
    M = A / degree.clamp(min=1e-12)[:, None]
    walk = torch.stack([torch.linalg.matrix_power(M, k) for k in range(4)], dim=-1)
    x = affine(model.encoder.node_lin, graph.x)
    x = x + walk.diagonal().t() @ model.node_walk_lin.weight.t()
    pairs = affine(model.pair_walk_lin, walk)
    if edge_dim is not None:
        edge = affine(model.encoder.edge_lin, graph.edge_attr)
        for k, (j, i) in enumerate(graph.edge_index.t().tolist()):
            pairs[i, j] += edge[k]
    for layer, part in enumerate(model.attentions):
        query = affine(part.query_lin, x)
        key, value = (x @ lin.weight.t() for lin in (part.key_lin, part.value_lin))
        found, read = torch.zeros(6, 6, 8, dtype=torch.float64), torch.zeros_like(x)
        for i in range(6):
            for j in range(6):
                scale, shift = affine(part.pair_lin, pairs[i, j]).chunk(2)
                z = (query[i] + key[j]) * scale
                found[i, j] = (z.sign() * z.abs().sqrt() + shift).clamp(min=0)
            for h, cut in enumerate((slice(0, 4), slice(4, 8))):
                weight = softmax_rows((found[i, :, cut] @ part.score[h]).clamp(-5, 5))
                read[i, cut] = weight @ (value[:, cut] + found[i, :, cut] @ part.pair_value[h])
        read = read * (part.degree_scale[0] + (1 + degree).log()[:, None] * part.degree_scale[1])
        x = frame(model.frames[layer], x, [affine(part.out_lin, read)])
        if layer == 0:
            norm = model.pair_frames[0].norm
            pairs = pairs + affine(model.pair_frames[0].lin, found)
            pairs = (pairs - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
            pairs = pairs * norm.weight + norm.bias
    torch.testing.assert_close(call(model, graph), head(model, x))
