"""What only a GPU can show: compiled kernels, captured graphs, no waiting for the device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GATConv, GCN2Conv

from torch_grama.nn import GRAMA, Running

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def make_graphs(num_graphs: int = 20, size: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(num_graphs * size, (num_graphs * size * 4,), generator=generator)
    target = source // size * size + torch.randint(size, source.size(), generator=generator)
    x = torch.randn(num_graphs * size, 10, generator=generator)
    batch = torch.arange(num_graphs).repeat_interleave(size)
    return x.cuda(), torch.stack([source, target]).cuda(), batch.cuda()


def make_model(engine: str = "auto", cached: bool = False, **options: object) -> GRAMA:
    torch.manual_seed(0)
    running = Running(engine, check_input=False, cached=cached)
    return GRAMA(10, 48, 3, **{"seq_len": 8, "running": running, **options}).cuda()


def gradient_errors(model: GRAMA, judge: GRAMA) -> list[float]:
    """Distance of each gradient from the judge's, relative to its size."""
    pairs = zip(model.parameters(), judge.parameters(), strict=True)
    total = sum(float(p.grad.square().sum()) for p in judge.parameters()) ** 0.5
    return [
        float((ours.grad - theirs.grad).norm() / theirs.grad.norm().clamp(min=1e-3 * total))
        for ours, theirs in pairs
    ]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("backbone", ["gcn", "gatedgcn", "gps", GCN2Conv(48, 0.2)], ids=str)
def test_float32_is_as_near_to_float64_as_the_reference(backbone, batched) -> None:
    x, edge_index, batch = make_graphs()
    options = {"batch": batch, "batch_size": 20} if batched else {}
    model = make_model(backbone=backbone).eval()
    reference = make_model("reference", backbone=backbone).eval()
    judge = make_model("reference", backbone=backbone).double().eval()
    outputs = [m(x, edge_index, **options) for m in (model, reference)]
    outputs.append(judge(x.double(), edge_index, **options))
    for out in outputs:
        out.square().sum().backward()
    assert (outputs[0] - outputs[2]).norm() / outputs[2].norm() < 1e-5
    limits = [max(1e-4, 3 * error) for error in gradient_errors(reference, judge)]
    for error, limit in zip(gradient_errors(model, judge), limits, strict=True):
        assert error < limit


@pytest.mark.parametrize("backbone", ["gatedgcn", "neighbor-sum"])
def test_training_with_batch_norm_is_near_float64(backbone) -> None:
    x, edge_index, _ = make_graphs()
    model, judge = (make_model(backbone=backbone, seq_len=2, num_blocks=2) for _ in range(2))
    outputs = [model(x, edge_index), judge.double()(x.double(), edge_index)]
    for out in outputs:
        out.square().sum().backward()
    assert (outputs[0] - outputs[1]).norm() / outputs[1].norm() < 1e-5
    assert max(gradient_errors(model, judge)) < 1e-3
    for ours, theirs in zip(model.buffers(), judge.buffers(), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "backbone", ["gcn", "gatedgcn", "neighbor-sum", GCN2Conv(48, 0.2)], ids=str
)
def test_forward_and_backward_never_wait_for_the_device(backbone) -> None:
    x, edge_index, batch = make_graphs()
    model = make_model(backbone=backbone)
    for attempt in range(2):
        torch.cuda.set_sync_debug_mode("error" if attempt else "default")
        try:
            model(x, edge_index, batch=batch, batch_size=20).sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("seq_len", [4, 8])
def test_captured_training_step_equals_eager(seq_len) -> None:
    x, edge_index, _ = make_graphs()
    y = torch.randint(3, (x.size(0),), device="cuda")

    def train(model: GRAMA, captured: bool) -> list[Tensor]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step() -> None:
            optimizer.zero_grad(set_to_none=False)
            F.cross_entropy(model(x, edge_index), y).backward()
            optimizer.step()

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            for _ in range(3):
                graph.replay()
        else:
            for _ in range(3):
                step()
        return [p.detach().clone() for p in model.parameters()]

    ours = train(make_model(seq_len=seq_len, cached=True), captured=True)
    theirs = train(make_model(seq_len=seq_len, cached=True), captured=False)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_compiled_model_equals_eager() -> None:
    x, edge_index, _ = make_graphs()
    model = make_model().eval()
    expected = model(x, edge_index)
    torch.testing.assert_close(torch.compile(model)(x, edge_index), expected, rtol=1e-4, atol=1e-5)


def test_bf16_stays_near_float32() -> None:
    x, edge_index, _ = make_graphs()
    model = make_model().eval()
    expected = model(x, edge_index)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out, coefficients = model(x, edge_index, return_coefficients=True)
    assert all(c.phi.dtype == torch.float32 for c in coefficients)
    assert (out.float() - expected).norm() / expected.norm() < 3e-2


@pytest.mark.parametrize("backbone", ["gcn", "gatedgcn", "gin", "gps", "neighbor-sum", GATConv])
def test_bf16_stays_near_float32_with_many_neighbours(backbone) -> None:
    # in bf16 the degree of the hub would be 256
    leaves = torch.arange(1, 1_000, device="cuda")
    to_hub = torch.stack([leaves, torch.zeros_like(leaves)])
    edge_index = torch.cat([to_hub, to_hub.flip(0)], dim=1)
    x = torch.rand(1_000, 10, device="cuda")
    model = make_model(backbone=backbone, seq_len=2, num_blocks=2)
    expected = model(x, edge_index)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(x, edge_index).float()
    for rows in (slice(0, 1), slice(1, None)):
        assert (out - expected)[rows].norm() / expected[rows].norm() < 5e-2
