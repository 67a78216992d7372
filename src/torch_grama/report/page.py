"""The report: one HTML file with everything in it, from the files of runs alone."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from torch_grama.report.dynamics_figures import (
    dynamics_figures,
    example_picture,
    influence_figures,
    reach_rows,
    smoothness_figure,
)
from torch_grama.report.figure_parts import Figure
from torch_grama.report.learning_figures import error_figures, learning_figures
from torch_grama.report.page_cards import (
    MEANINGS,
    block_rows,
    compare_runs,
    setting_rows,
    summarize_run,
)
from torch_grama.report.rendering import read_asset, render
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_files import RunFiles, name_apart
from torch_grama.runs.run_folder import RunError

MAX_BYTES = 2_000_000
# Runs whose dynamics are drawn one by one; the others stand in cards, curves and tables.
_MAX_DETAILED = 12


@dataclass(frozen=True)
class Page:
    r"""A report."""

    html: str  #: the whole file
    policy: str  #: the content security policy that it carries, for a server to repeat


def build_page(
    runs: Sequence[RunFiles],
    title: str = "GRAMA report",
    links: Mapping[str, str] | None = None,
    home: str | None = None,
) -> Page:
    if not runs:
        raise RunError("Expected at least one run to report (got none)")
    runs = name_apart(runs)
    for detailed in (_MAX_DETAILED, 4, 1, 0):
        page = _build(runs, title, links or {}, home, detailed)
        if len(page.html.encode()) <= MAX_BYTES:
            return page
    raise RunError(
        f"Expected a report below {MAX_BYTES // 1_000_000} MB (got more with {len(runs)} runs): "
        f"name fewer runs"
    )


def write_page(runs: Sequence[RunFiles], path: str | Path, title: str = "GRAMA report") -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    links = {str(run.folder): _link(run.folder, path.parent) for run in runs}
    html = build_page(runs, title, links).html
    write_atomically(path, html.encode())
    return path


@lru_cache(maxsize=8)
def script_hash(script: str) -> str:
    r"""How a content security policy names an inline script."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def make_policy(scripts: Sequence[str]) -> str:
    r"""A policy that allows these scripts, inline style, and nothing from anywhere."""
    allowed = " ".join(map(script_hash, scripts)) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def embed_json(value: object) -> str:
    r"""JSON that can stand inside a script element, whatever its strings hold."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _build(
    runs: Sequence[RunFiles],
    title: str,
    links: Mapping[str, str],
    home: str | None,
    detailed: int,
) -> Page:
    learning, influence = learning_figures(runs), influence_figures(runs)
    smoothness = smoothness_figure(runs)
    panels = [_panel(run, index, detailed, len(runs) > 1) for index, run in enumerate(runs)]
    figures = [*learning, *influence, *([smoothness] if smoothness else [])]
    figures += [figure for panel in panels for figure in (*panel.dynamics, *panel.errors)]
    data = {
        "figures": {figure.name: figure.to_dict() for figure in figures},
        "examples": {f"example-{p.key}": p.example for p in panels if p.example is not None},
    }
    scripts = [read_asset(name) for name in ("chart.js", "page.js", "example.js")]
    policy = make_policy(scripts)
    html = render(
        "page.html.jinja",
        title=title,
        home=home,
        policy=policy,
        scripts=scripts,
        data=embed_json(data),
        runs=runs,
        links=links,
        cards=[summarize_run(run) for run in runs],
        learning=learning,
        tables=compare_runs(runs),
        influence=influence,
        reach=reach_rows(runs),
        smoothness=smoothness,
        panels=panels,
        meanings=MEANINGS,
        settings=setting_rows(runs, "settings"),
        environment=setting_rows(runs, "environment"),
        left_out=max(0, len(runs) - detailed),
    )
    return Page(html, policy)


@dataclass(frozen=True)
class _Panel:
    run: RunFiles
    key: str
    blocks: Sequence[Mapping[str, str]]
    dynamics: Sequence[Figure] = ()
    errors: Sequence[Figure] = ()
    example: Mapping[str, object] | None = None


def _panel(run: RunFiles, index: int, detailed: int, many: bool) -> _Panel:
    key = str(index)
    if index >= detailed:
        return _Panel(run, key, block_rows(run))
    dynamics, errors = dynamics_figures(run, key), error_figures(run, key, many)
    return _Panel(run, key, block_rows(run), dynamics, errors, example_picture(run))


def _link(folder: Path, start: Path) -> str:
    r"""The way from the report to a run, as an address; empty between two drives."""
    try:
        return quote(Path(os.path.relpath(folder.resolve(), start.resolve())).as_posix())
    except ValueError:
        return ""
