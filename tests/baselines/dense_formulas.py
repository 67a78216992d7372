"""The parts of the models written out, node by node and edge by edge, for one graph."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from baseline_checks import randomize
from dense_graphs import affine as affine
from torch import Tensor
from torch.nn import LayerNorm, Module, ModuleList, MultiheadAttention
from torch_geometric.data import Data
from torch_geometric.nn.models import MLP

from torch_grama.baselines.branch_stack import BranchStack, BranchSum
from torch_grama.baselines.mamba_block import MambaBlock
from torch_grama.nn import GatedGCNConv
from torch_grama.nn.norms import StepwiseBatchNorm


def prepare(model: Module) -> Module:
    """In float64, with random weights and random statistics of every batch norm."""
    model = randomize(model.double()).eval()
    generator = torch.Generator().manual_seed(7)
    for part in model.modules():
        if isinstance(part, StepwiseBatchNorm):
            noise = torch.rand(part.running_mean.shape, generator=generator, dtype=torch.float64)
            part.running_mean.copy_(noise - 0.5)
            part.running_var.copy_(noise + 0.5)
    return model


def encode(model: Module, graph: Data) -> tuple[Tensor, Tensor | None]:
    """States of nodes and edges before the first layer; None for edges without attributes."""
    x, edge = affine(model.encoder.node_lin, graph.x), graph.edge_attr
    return x, None if edge is None else affine(model.encoder.edge_lin, edge)


def batch_norm(norm: StepwiseBatchNorm | None, x: Tensor) -> Tensor:
    if norm is None:
        return x
    scaled = (x - norm.running_mean[0]) / (norm.running_var[0] + 1e-5).sqrt()
    return scaled * norm.weight + norm.bias


def layer_norm(norm: LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + (
        norm.bias
    )


def frame(part: BranchSum, x: Tensor, branches: list[Tensor]) -> Tensor:
    h = sum(
        batch_norm(norm, x + branch)
        for norm, branch in zip(part.branch_norms, branches, strict=True)
    )
    return batch_norm(part.norm, h + affine(part.mlp[3], affine(part.mlp[0], h).clamp(min=0)))


def head(model: Module, x: Tensor) -> Tensor:
    return rectified(model.head.mlp.layers, x)


def mlp(module: MLP, x: Tensor) -> Tensor:
    return rectified(module.lins, x)


def rectified(lins: ModuleList, x: Tensor) -> Tensor:
    """Linear layers, all but the last with a rectifier."""
    *hidden, last = lins
    for lin in hidden:
        x = affine(lin, x).clamp(min=0)
    return affine(last, x)


def branches(model: BranchStack, graph: Data, mix: Callable[[Module, Tensor], Tensor]) -> Tensor:
    """The whole model, of layers with a gated branch and one that ``mix(mixer, x)`` writes out."""
    x, edge = encode(model, graph)
    for local, mixer, sums in zip(model.locals, model.mixers, model.frames, strict=True):
        update, edge = gated_gcn(local.conv, x, graph.edge_index, edge)
        x = frame(sums, x, [mix(mixer, x), update])
    return head(model, x)


def softmax_rows(scores: Tensor) -> Tensor:
    weight = scores.exp()
    return weight / weight.sum(-1, keepdim=True)


def full_attention(part: MultiheadAttention, x: Tensor) -> Tensor:
    """Softmax attention of all rows of ``x`` to all rows, head by head."""
    query, key, value = (x @ part.in_proj_weight.t() + part.in_proj_bias).chunk(3, dim=-1)
    width = x.size(-1) // part.num_heads
    heads = []
    for h in range(part.num_heads):
        cut = slice(h * width, (h + 1) * width)
        scores = query[:, cut] @ key[:, cut].t() / math.sqrt(width)
        heads.append(softmax_rows(scores) @ value[:, cut])
    return affine(part.out_proj, torch.cat(heads, dim=-1))


def gated_gcn(
    conv: GatedGCNConv, x: Tensor, edge_index: Tensor, edge: Tensor | None, least: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The rectified update of the nodes and the new state of the edges."""
    own, to_target, message, from_source = affine(conv.node_lin, x).chunk(4, dim=-1)
    if edge is None:
        edge = conv.initial_edge.expand(edge_index.size(1), -1)
    top, bottom = torch.zeros_like(x), torch.full_like(x, 1e-6)
    new_edge = edge.clone()
    for number, (j, i) in enumerate(edge_index.t().tolist()):
        logit = affine(conv.edge_lin, edge[number]) + to_target[i] + from_source[j]
        gate = 1 / (1 + (-logit).exp())
        top[i] += gate * message[j]
        bottom[i] += gate
        if conv.edge_state != "none":
            new_edge[number] += batch_norm(conv.edge_norm, logit).clamp(min=0)
    bottom = bottom if conv.normalize_gates else torch.ones_like(x)
    return batch_norm(conv.node_norm, own + top / bottom).clamp(min=least), new_edge


def mamba(block: MambaBlock, sequence: Tensor) -> Tensor:
    """One sequence ``[T, F]``, step by step."""
    inner = block.expansion * block.channels
    x, z = affine(block.in_lin, sequence).split(inner, dim=-1)
    taps = block.conv.weight.squeeze(1)  # the last one meets the present
    state = torch.zeros(inner, block.state_channels, dtype=sequence.dtype)
    outputs = []
    for t in range(sequence.size(0)):
        u = block.conv.bias.clone()
        for k in range(min(block.kernel_size, t + 1)):
            u = u + taps[:, -1 - k] * x[t - k]
        u = u * torch.sigmoid(u)
        r, b, c = affine(block.select_lin, u).split(
            [block.rank, block.state_channels, block.state_channels]
        )
        delta = torch.log1p(affine(block.step_lin, r).exp())
        state = (-delta[:, None] * block.log_decay.exp()).exp() * state
        state = state + torch.outer(delta * u, b)
        y = state @ c + block.skip * u
        outputs.append(affine(block.out_lin, y * z[t] * torch.sigmoid(z[t])))
    return torch.stack(outputs)
