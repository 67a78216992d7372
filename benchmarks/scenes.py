"""The scenes of the runtime benchmark; each returns rows of measured numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch.nn import Module

from benchmarks.graphs import ROMAN_EMPIRE, chain, molecules
from benchmarks.stacks import GatedGCNStack, GCNStack, GPSStack
from benchmarks.timing import Timing, time_models, time_recorded
from torch_grama.nn import GRAMA, Running

Row = dict[str, str | int | float | None]
BASELINE = "PyG GCN, cached"


def depth_scene(device: torch.device, width: int, depths: list[int], quick: bool) -> list[Row]:
    """Roman-empire's size; depth S x L with S = 2 blocks."""
    problem = chain(*ROMAN_EMPIRE).to(device)
    sizes = (problem.x.size(1), width, problem.num_classes)
    rows: list[Row] = []
    for depth in depths:
        length = depth // 2
        models: dict[str, Callable[[], Module]] = {
            BASELINE: _build(GCNStack, sizes[0], width, depth, sizes[2], cached=True),
            "PyG GCN, as shipped": _build(GCNStack, sizes[0], width, depth, sizes[2], cached=False),
            "GRAMA(GCN)": _grama(sizes, length, cached=True),
            "GRAMA(GCN), not cached": _grama(sizes, length),
            "GRAMA(GCN), naive": _grama(sizes, length, cached=True, coefficients="naive"),
            "GRAMA(GCN), recomputed": _grama(sizes, length, cached=True, recompute=True),
        }
        # a CPU without such instructions takes minutes for a step
        if device.type == "cuda" or torch.ops.mkldnn._is_mkldnn_bf16_supported():
            models["GRAMA(GCN), bf16"] = _grama(sizes, length, cached=True)
        if not quick:
            models["GRAMA(GCN), reference"] = _grama(sizes, length, engine="reference")
        if device.type == "cuda" or (depth <= 8 and not quick):
            models["GatedGCN"] = _build(GatedGCNStack, sizes[0], width, depth, sizes[2])
            models["GRAMA(GatedGCN)"] = _grama(sizes, length, backbone="gatedgcn")
        if device.type == "cuda" and depth <= (4 if quick else 8):
            models["PyG GPS"] = _build(GPSStack, sizes[0], width, depth, sizes[2])
            models["GRAMA(GPS)"] = _grama(sizes, length, backbone="gps")
        timings = time_models(
            models, problem, 5 if quick else 20, 2 if quick else 5, autocast=("GRAMA(GCN), bf16",)
        )
        found = [_row("depth", name, width, depth, timings, BASELINE) for name in models]
        if device.type == "cuda" and depth <= 8:
            few = {name: models[name] for name in (BASELINE, "GRAMA(GCN)", "GRAMA(GatedGCN)")}
            recorded = time_recorded(few, problem, 5 if quick else 30)
            for row in found:
                times = recorded.get(str(row["model"]))
                if times is not None:
                    row["recorded_train_ms"], row["recorded_infer_ms"] = times
        rows += found
    return rows


def batch_scene(device: torch.device, quick: bool) -> list[Row]:
    """128 molecule-like graphs of about 150 nodes, width 128, depth 8."""
    problem = molecules().to(device)
    sizes, depth = (problem.x.size(1), 128, problem.num_classes), 8
    models: dict[str, Callable[[], Module]] = {
        "PyG GCN, as shipped": _build(GCNStack, sizes[0], 128, depth, sizes[2], cached=False),
        "GRAMA(GCN)": _grama(sizes, depth // 2, readout="graph"),
        "GRAMA(GCN), naive": _grama(sizes, depth // 2, readout="graph", coefficients="naive"),
        "GRAMA(GatedGCN)": _grama(sizes, depth // 2, readout="graph", backbone="gatedgcn"),
    }
    timings = time_models(models, problem, 5 if quick else 30, 2 if quick else 5)
    return [_row("batch", name, 128, depth, timings, "PyG GCN, as shipped") for name in models]


def length_scene(device: torch.device, quick: bool) -> list[Row]:
    """Cost against the sequence length L."""
    width = 128 if device.type == "cuda" else 32
    problem = chain(*ROMAN_EMPIRE).to(device)
    sizes = (problem.x.size(1), width, problem.num_classes)
    rows: list[Row] = []
    for length in [2, 4, 8, 16] if quick else [2, 4, 8, 16, 32]:
        models = {"GRAMA(GCN)": _grama(sizes, length, cached=True)}
        timings = time_models(models, problem, 3 if quick else 15, 2 if quick else 4)
        row = _row("length", "GRAMA(GCN)", width, 2 * length, timings, "GRAMA(GCN)")
        row["seq_len"] = length
        row["train_per_recurrence"] = timings["GRAMA(GCN)"].train[0] / (2 * length)
        rows.append(row)
    return rows


def size_scene(device: torch.device, quick: bool) -> list[Row]:
    """Cost against the number of nodes (five edges per node), and of edges (fixed nodes).

    On CUDA, beside each time, the share of it that the products with the adjacency matrix would
    need if they did nothing but move their bytes at the speed of a copy: per product every entry
    with its place, the row that it reads, and the result.
    """
    rows: list[Row] = []
    largest = 1_000_000 if device.type == "cuda" else 100_000
    if quick:
        largest //= 10
    nodes = [n for n in (10_000, 100_000, 1_000_000) if n <= largest]
    scenes = [("nodes", n, 5 * n) for n in nodes]
    scenes += [("edges", largest, e) for e in (largest, 2 * largest, 5 * largest)]
    if device.type == "cuda" and not quick:
        scenes.append(("largest", 2 * largest, 50 * largest))
    speed = _copy_speed(device) if device.type == "cuda" else None
    for scene, num_nodes, num_edges in scenes:
        problem = chain(num_nodes, num_edges, 16, 4).to(device)
        models = {"GRAMA(GCN)": _grama((16, 64, 4), 4, cached=True)}
        timings = time_models(models, problem, 3 if quick else 7, 2)
        row = _row(scene, "GRAMA(GCN)", 64, 8, timings, "GRAMA(GCN)")
        row["num_nodes"], row["num_edges"] = num_nodes, 2 * num_edges
        if speed is not None:
            # each of 8 recurrences is one product forwards and one backwards
            moved = 16 * (2 * num_edges * (8 + 4 * 64) + num_nodes * 4 * 64)
            row["bandwidth_share"] = 1e3 * moved / speed / timings["GRAMA(GCN)"].train[0]
        rows.append(row)
        del problem
    return rows


def _copy_speed(device: torch.device) -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.empty(1 << 28, device=device)
    target = torch.empty_like(source)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    target.copy_(source)
    begin.record()
    for _ in range(10):
        target.copy_(source)
    end.record()
    torch.cuda.synchronize(device)
    return 1e3 * 10 * 2 * source.nbytes / begin.elapsed_time(end)


def growth_exponent(rows: list[Row], against: str) -> float:
    """Slope of log time over log size, by least squares; NaN for a single size."""
    if len({row[against] for row in rows}) < 2:
        return math.nan
    points = [(math.log(float(r[against] or 0)), math.log(float(r["train_ms"] or 0))) for r in rows]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return covariance / sum((x - mean_x) ** 2 for x, _ in points)


def _grama(
    sizes: tuple[int, int, int],
    length: int,
    engine: str = "auto",
    recompute: bool = False,
    cached: bool = False,
    **options: object,
) -> Callable[[], Module]:
    running = Running(engine, recompute, cached, check_input=False)
    return _build(GRAMA, *sizes, seq_len=length, num_blocks=2, running=running, **options)


def _build(
    kind: Callable[..., Module], *arguments: object, **options: object
) -> Callable[[], Module]:
    return functools.partial(kind, *arguments, **options)


def _row(
    scene: str, name: str, width: int, depth: int, timings: dict[str, Timing], baseline: str
) -> Row:
    timing, reference = timings[name], timings[baseline]
    return {
        "scene": scene,
        "model": name,
        "width": width,
        "depth": depth,
        "train_ms": timing.train[0],
        "train_quartiles_ms": f"{timing.train[1]:.3f}-{timing.train[2]:.3f}",
        "infer_ms": timing.infer[0],
        "infer_quartiles_ms": f"{timing.infer[1]:.3f}-{timing.infer[2]:.3f}",
        "memory_gib": timing.memory,
        "train_ratio": timing.train[0] / reference.train[0],
        "infer_ratio": timing.infer[0] / reference.infer[0],
        "baseline": baseline,
    }
