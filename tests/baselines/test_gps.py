import math

import pytest
import torch
from baseline_checks import call, draw_graph
from dense_formulas import (
    affine,
    branches,
    frame,
    full_attention,
    head,
    prepare,
    softmax_rows,
)
from torch_geometric.nn import GCNConv

from torch_grama.baselines import GPS, Transformer
from torch_grama.baselines.branch_stack import node_noise
from torch_grama.baselines.gps import GLOBAL, RANDOM, WINDOW


def test_performer_is_its_formula():
    graph = draw_graph(6, 1)
    model = prepare(GPS(5, 8, 3, 1, local="gcn", attention="performer", heads=2))
    part = model.mixers[0].attention
    x = affine(model.encoder.node_lin, graph.x)
    features = part.fast_attn.projection_matrix
    heads = []
    for h in range(2):
        cut = slice(64 * h, 64 * (h + 1))
        query, key, value = ((x @ lin.weight.t())[:, cut] for lin in (part.q, part.k, part.v))
        weight = ((query @ features.t()).clamp(min=0) + 1e-3) @ (
            (key @ features.t()).clamp(min=0) + 1e-3
        ).t()
        heads.append(weight / weight.sum(1, keepdim=True) @ value)
    attended = affine(part.attn_out, torch.cat(heads, -1))
    gcn = GCNConv(8, 8).double()
    gcn.load_state_dict(model.locals[0].conv.state_dict())
    update = gcn(x, graph.edge_index)
    expected = head(model, frame(model.frames[0], x, [attended, update]))
    torch.testing.assert_close(call(model, graph), expected)


def test_transformer_is_its_formula_and_does_not_see_the_edges():
    graph = draw_graph(7, 2)
    model = prepare(Transformer(5, 8, 3, 2))
    x = affine(model.encoder.node_lin, graph.x)
    for mixer, sums in zip(model.mixers, model.frames, strict=True):
        x = frame(sums, x, [full_attention(mixer.attention, x)])
    torch.testing.assert_close(call(model, graph), head(model, x))
    graph.edge_index = graph.edge_index[:, :0]
    torch.testing.assert_close(call(model, graph), head(model, x))


@pytest.mark.parametrize("attention", ["multihead", "performer"])
def test_attention_dropout_is_for_training(attention):
    graph = draw_graph(6, 1)
    model = GPS(5, 8, 3, 1, attention=attention, attention_dropout=0.5).double()
    assert not torch.equal(call(model, graph), call(model, graph))
    model.eval()
    assert torch.equal(call(model, graph), call(model, graph))


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


@pytest.mark.parametrize(
    ("attention", "size"), [("multihead", 7), *(("bigbird", size) for size in (1, 6, 15, 40))]
)
def test_gps_is_its_formula(attention, size):
    graph = draw_graph(size, 0, edge_dim=3)
    model = prepare(GPS(5, 8, 3, 2, edge_dim=3, attention=attention))

    def attend(mixer, x):
        return bigbird(mixer, x) if attention == "bigbird" else full_attention(mixer.attention, x)

    torch.testing.assert_close(call(model, graph), branches(model, graph, attend))


def test_bigbird_takes_memory_in_proportion_to_the_nodes():
    model = GPS(5, 8, 3, 1, attention="bigbird").eval()
    size = 50_000  # the square would take 10 GB a head
    nodes = torch.arange(size - 1)
    out = model(torch.randn(size, 5), torch.stack([nodes, nodes + 1]))
    assert out.shape == (size, 3)
