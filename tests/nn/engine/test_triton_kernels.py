"""The Triton kernels equal their torch twins; on a CPU they run in Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch
from backbone_cases import draw_keys
from torch import Tensor
from torch_geometric.nn import GraphConv

from torch_grama.nn import GRAMA, Coefficients, Running
from torch_grama.nn.engine import kernels

BATCH = torch.tensor([0, 0, 0, 1, 1, 1, 1, 3, 3])
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8, 0], [1, 2, 0, 4, 5, 6, 3, 8, 7, 2]])


def run(model: GRAMA, x: Tensor, batch: Tensor | None) -> list[Tensor]:
    model.zero_grad()
    size = None if batch is None else 4
    out = model(x, EDGES, batch=batch, batch_size=size)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.slow
@pytest.mark.usefixtures("_interpreter")
@pytest.mark.parametrize(
    ("act", "batched"),
    [
        ("relu", False),
        *((act, True) for act in ("relu", "elu", "gelu", "silu", "tanh", "leaky_relu", None)),
    ],
)
def test_model_equals_torch_kernels(act, batched, monkeypatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 5)
    batch = BATCH if batched else None
    model = GRAMA(5, 6, 3, seq_len=2, num_blocks=2, act=act, gain=0.7)
    draw_keys(model)
    assert kernels.triton_for(torch.nn.functional.relu, x) is not None
    ours = run(model, x, batch)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert kernels.triton_for(torch.nn.functional.relu, x) is None
    theirs = run(model, x, batch)
    assert len(ours) == len(theirs)
    scale = max(float(t.abs().max()) for t in theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-6 * scale)


@pytest.mark.slow
@pytest.mark.usefixtures("_interpreter")
@pytest.mark.parametrize(
    "options",
    [
        {"backbone": "gatedgcn"},
        {"backbone": GraphConv(6, 6)},
        {"coefficients": "naive"},
        {"seq_len": 6},
        {"seq_len": 4, "coefficients": Coefficients(ar_order=1, ma_order=3), "num_recurrences": 3},
        {"running": Running(recompute=True)},
        {"readout": "graph"},
    ],
    ids=str,
)
def test_options_equal_torch_kernels(options, monkeypatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 5)
    model = GRAMA(5, 6, 3, num_blocks=2, gain=0.5, **{"seq_len": 2, **options}).eval()
    draw_keys(model)
    ours = run(model, x, BATCH)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    theirs = run(model, x, BATCH)
    scale = max(float(t.abs().max()) for t in theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-6 * scale)


def test_cpu_tensors_use_torch_kernels() -> None:
    assert os.environ.get("TRITON_INTERPRET", "0") != "1"
    assert kernels.triton_for(torch.nn.functional.relu, torch.zeros(2)) is None
