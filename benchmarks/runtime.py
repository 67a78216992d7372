"""How fast is GRAMA beside the layers it is built on?

python -m benchmarks.runtime                 all scenes, on CUDA if there is one
python -m benchmarks.runtime --quick         every scene, small, under two minutes
python -m benchmarks.runtime --device cpu --width 64
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import torch
import torch_geometric

from benchmarks.plot import draw
from benchmarks.scenes import (
    Row,
    batch_scene,
    depth_scene,
    growth_exponent,
    length_scene,
    size_scene,
)
from benchmarks.small_graphs import molecules_scene, together_scene
from benchmarks.timing import FEWEST_STEPS
from torch_grama import __version__

SCENES = ("depth", "batch", "molecules", "together", "length", "size")
PAPER = Path(__file__).with_name("paper_runtime.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps, depths and sizes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--width", type=int, help="channels (default: 256 on CUDA, 64 on a CPU)")
    parser.add_argument("--depths", type=int, nargs="+", help="default: 4 8 16 32; quick: 4 32")
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument(
        "--out", type=Path, default=Path("src/torch_grama/results/runtime"), help="folder"
    )
    arguments = parser.parse_args()

    device = torch.device(arguments.device)
    width = arguments.width or (256 if device.type == "cuda" else 64)
    depths = arguments.depths or ([4, 32] if arguments.quick else [4, 8, 16, 32])
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{_slug(_hardware(device))}{'-quick' if arguments.quick else ''}.json"
    start = time.perf_counter()
    rows: list[Row] = []
    growth: dict[str, float] = {}
    # the file is written after every scene, so that a run cut short leaves what it measured
    for scene in arguments.scenes:
        found = _measure(scene, device, width, depths, arguments.quick, growth)
        rows += found
        _write(path, device, rows, growth, time.perf_counter() - start)
        if scene == "depth":
            paper = json.loads(PAPER.read_text())
            print(draw(rows, paper, path.with_suffix(".png"), _hardware(device)))
    for name, value in growth.items():
        print(f"  {name}: {value:.3f}")
    print(f"\n{path}")


def _measure(
    scene: str,
    device: torch.device,
    width: int,
    depths: list[int],
    quick: bool,
    growth: dict[str, float],
) -> list[Row]:
    """Runs one scene, prints it, and adds the rates of growth that it shows."""
    if scene == "depth":
        rows = depth_scene(device, width, depths, quick)
        print_depths(rows, json.loads(PAPER.read_text()))
    elif scene == "batch":
        print_rows("Batch of 128 graphs, depth 8", rows := batch_scene(device, quick))
    elif scene == "molecules":
        print("\nMany small graphs")
        rows = molecules_scene(device, quick)
    elif scene == "together":
        rows = together_scene(device, quick)
    elif scene == "length":
        print_rows("Cost against the sequence length", rows := length_scene(device, quick))
        per_recurrence = {r["seq_len"]: float(r["train_per_recurrence"] or 0) for r in rows}
        growth["recurrence at L = 16 over L = 2"] = per_recurrence[16] / per_recurrence[2]
    else:
        print_rows("Cost against nodes and edges", rows := size_scene(device, quick))
        for kind, against in (("nodes", "num_nodes"), ("edges", "num_edges")):
            growth[f"exponent in {kind}"] = growth_exponent(
                [r for r in rows if r["scene"] == kind], against
            )
        growth["exponent from 1e5 edges"] = growth_exponent(
            [r for r in rows if r["scene"] == "nodes"], "num_edges"
        )
    return rows


def _write(
    path: Path, device: torch.device, rows: list[Row], growth: dict[str, float], seconds: float
) -> None:
    record = {
        "hardware": _hardware(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "torch_grama": __version__,
        "precision": "float32 (highest), unless a row says bf16",
        "method": f"median of interleaved full steps, AdamW, device synchronised around each; "
        f"{FEWEST_STEPS} steps or more",
        "seconds": round(seconds),
        "growth": growth,
        "rows": rows,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")


def print_depths(rows: list[Row], paper: dict[str, object]) -> None:
    """Prints the depth scene with the paper's ratios beside ours."""
    print(f"{'model':28s} depth   train ms (ratio, paper)      infer ms (ratio, paper)    GiB")
    for row in rows:
        depth, name = row["depth"], str(row["model"])
        printed = {
            kind: paper_ratio(paper, name, int(depth or 0), kind) for kind in ("train", "infer")
        }
        cells = []
        for kind in ("train", "infer"):
            beside = f"{printed[kind]:5.2f}" if printed[kind] else "    -"
            cells.append(f"{row[f'{kind}_ms']:9.2f} ({row[f'{kind}_ratio']:5.2f}, {beside})")
        memory = "   -" if row["memory_gib"] is None else f"{row['memory_gib']:.2f}"
        print(f"{name:28s} {depth:5d} {cells[0]}  {cells[1]}   {memory}")


def paper_ratio(paper: dict[str, object], model: str, depth: int, kind: str) -> float | None:
    """The paper's time of a model over that of its GCN, or None where it has none."""
    depths, ours, base = paper["depth"], paper.get(model), paper["GCN"]
    if not isinstance(ours, dict) or not isinstance(base, dict) or not isinstance(depths, list):
        return None
    if depth not in depths:
        return None
    index = depths.index(depth)
    return float(ours[kind][index]) / float(base[kind][index])


def print_rows(title: str, rows: list[Row]) -> None:
    print(f"\n{title}")
    for row in rows:
        extra = "".join(
            f"  {key}={row[key]:,}" for key in ("seq_len", "num_nodes", "num_edges") if row.get(key)
        )
        if row.get("bandwidth_share"):
            extra += f"  {100 * float(row['bandwidth_share'] or 0):.0f} % of the bandwidth"
        print(
            f"{row['model']!s:28s} train {row['train_ms']:9.2f} ms ({row['train_ratio']:.2f})  "
            f"infer {row['infer_ms']:9.2f} ms ({row['infer_ratio']:.2f}){extra}"
        )


def _hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def _slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


if __name__ == "__main__":
    main()
