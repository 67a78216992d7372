"""Everything there is to see of one model on its data, in one record and one file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.nn import Module

from torch_grama.analysis._checks import check_count
from torch_grama.analysis.block_analysis import BlockAnalysis, records_of_blocks
from torch_grama.analysis.block_trace import encode_input, find_grama, trace_blocks
from torch_grama.analysis.example_graph import ExampleGraph, draw_example
from torch_grama.analysis.influence import Influence, influence_by_distance
from torch_grama.analysis.model_input import GraphLike, ModelInput, evaluation_mode, read_input
from torch_grama.analysis.prediction_summary import ErrorSummary, Predictions, summarize_errors
from torch_grama.analysis.record_file import read_record, write_record
from torch_grama.analysis.resistance import ResistanceInfluence, influence_by_resistance
from torch_grama.analysis.smoothness import Smoothness, smoothness_if_any, smoothness_of_traces

SCHEMA_VERSION = 1

# The name under which the analysed model stands beside those it is compared with.
MODEL = "model"

# Nodes and edges that the spread of influence may go through, over all its runs of the model; it is
# exact and given for every node while that suffices.
_DRAWN_WORK = 400_000
_DRAWN_CHANNELS = 32

# Nodes and edges up to which as many nodes are differentiated; fewer, in proportion, beyond.
_SAMPLED_SIZE = 30_000
_NUM_SAMPLES = 32
_MIN_SAMPLES = 8


@dataclass(frozen=True)
class AnalysisSettings:
    r"""How much is looked at. The defaults keep the file at a few hundred kB and a graph of 10,000
    nodes at about a minute.

    Attributes:
        max_graphs: Graphs whose blocks and smoothness are analysed, drawn at random.
        max_influence_graphs: Graphs of which influence is measured; the first of the former.
        max_size: Nodes and edges of all those graphs together; at least one graph is taken.
        num_samples: Nodes of each graph that are differentiated where not all are; :obj:`None` for
            32, and fewer for large graphs.
        max_hops: Largest distance of the influence curves.
        impulse_length: Lags of the impulse responses.
        closed_loop: Whether to measure the loop with the backbone.
        resistance: Whether to set influence against effective resistance too.
        example_nodes: Nodes of the graph that is drawn; 0 for none.
        max_examples: Pairs of prediction and target that are kept of a regression.
        seed: Seed of everything random.
    """

    max_graphs: int = 32
    max_influence_graphs: int = 8
    max_size: int = 200_000
    num_samples: int | None = None
    max_hops: int = 64
    impulse_length: int = 32
    closed_loop: bool = True
    resistance: bool = False
    example_nodes: int = 60
    max_examples: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("max_graphs", self.max_graphs, minimum=1)
        check_count("max_influence_graphs", self.max_influence_graphs, minimum=1)
        check_count("example_nodes", self.example_nodes, minimum=0)


@dataclass(frozen=True)
class Analysis:
    r"""What :func:`analyze` found; the entries of the file ``analysis.json`` are its attributes,
    and the entries below those of the records named here.

    Attributes:
        schema_version: Version of this form, 1.
        settings: How much was looked at, the seed included.
        num_graphs: Number of graphs in the data.
        graphs: Numbers of those that were analysed, in the order of all lists over graphs.
        num_nodes: Number of nodes of each of them.
        num_edges: Number of edges of each of them.
        blocks: Dynamics of every block; empty for a model that is not GRAMA.
        influence: Influence by distance of the model, under ``"model"``, and of those it is
            compared with, under their names.
        resistance: Influence by effective resistance likewise; empty where not asked for.
        smoothness: Dirichlet energy along the recurrence or the layers likewise; a model without
            layers that could be told has no entry.
        example: A graph to draw, with the spread of influence; :obj:`None` for a model that is not
            GRAMA.
        errors: Where the predictions are wrong; :obj:`None` where none were given.
        seconds: How long each part took.
    """

    settings: AnalysisSettings
    num_graphs: int
    graphs: list[int]
    num_nodes: list[int]
    num_edges: list[int]
    blocks: list[BlockAnalysis]
    influence: dict[str, Influence]
    resistance: dict[str, ResistanceInfluence]
    smoothness: dict[str, Smoothness]
    example: ExampleGraph | None
    errors: ErrorSummary | None
    seconds: dict[str, float] = field(compare=False)
    schema_version: int = SCHEMA_VERSION


def analyze(
    model: Module,
    data: GraphLike | ModelInput | Sequence[GraphLike | ModelInput],
    *,
    predictions: Predictions | None = None,
    compare: Mapping[str, Module] | None = None,
    settings: AnalysisSettings | None = None,
    report: Callable[[str], None] | None = None,
) -> Analysis:
    r"""Looks at a trained model: its dynamics, how far information travels, whether states become
    alike, and where it is wrong.

    Args:
        model (Module): A GRAMA model, a module that holds one, or any other model with the common
            call, of which influence, smoothness and errors are left.
        data (ModelInput, Data, Batch or sequence): The graphs, ready for the model; on its device.
        predictions (Predictions, optional): What the model said, for the errors.
            (default: :obj:`None`)
        compare (mapping, optional): Other models that take the same graphs, by name, for influence
            and smoothness side by side. (default: :obj:`None`)
        settings (AnalysisSettings, optional): How much is looked at. (default: :obj:`None`)
        report (callable, optional): Called with the name of each part before it begins.
            (default: :obj:`None`)

    Raises:
        ValueError: If there is no graph, a compared model is called ``"model"``, or a value is not
            usable.

    Example:
        >>> from torch_grama.nn import GRAMA
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> model = GRAMA(3, 8, 2, seq_len=2)
        >>> analysis = analyze(model, ModelInput(torch.randn(4, 3), ring))
        >>> len(analysis.blocks), analysis.influence["model"].exact
        (2, True)
    """
    settings = AnalysisSettings() if settings is None else settings
    models = {MODEL: model, **(compare or {})}
    if compare is not None and MODEL in compare:
        raise ValueError(f"Expected compared models under other names than '{MODEL}'")
    graphs = _read_graphs(data)
    chosen = choose_graphs(graphs, settings.max_graphs, settings.max_size, settings.seed)
    batch = read_input([graphs[index] for index in chosen])
    few = read_input([graphs[index] for index in chosen[: settings.max_influence_graphs]])
    clock = _Clock(report)

    blocks: list[BlockAnalysis] = []
    smoothness: dict[str, Smoothness] = {}
    if find_grama(model) is not None:
        with clock.time("dynamics of the blocks"), evaluation_mode(model), torch.no_grad():
            encoded = encode_input(model, batch)
            traces = trace_blocks(model, encoded)
            length, loop = settings.impulse_length, settings.closed_loop
            blocks = records_of_blocks(traces, encoded, length, loop, None, None, settings.seed)
            smoothness[MODEL] = smoothness_of_traces(traces, encoded)
            del traces
    with clock.time("smoothness"):
        for name, other in models.items():
            if name not in smoothness:
                found = smoothness_if_any(other, batch)
                smoothness.update({} if found is None else {name: found})
    influence = {}
    for name, other in models.items():
        with clock.time(f"influence of {name}"):
            influence[name] = influence_by_distance(
                other,
                few,
                num_samples=_num_samples(few, settings),
                max_hops=settings.max_hops,
                seed=settings.seed,
            )
    resistance = {}
    for name, other in models.items() if settings.resistance else ():
        with clock.time(f"resistance of {name}"):
            samples = max(_num_samples(few, settings) // 2, 1)
            resistance[name] = influence_by_resistance(
                other, few, num_samples=samples, seed=settings.seed
            )
    example = None
    if find_grama(model) is not None and settings.example_nodes > 0:
        with clock.time("example"):
            example = _example(model, graphs, chosen, settings)
    errors = None
    if predictions is not None:
        with clock.time("errors"):
            errors = summarize_errors(predictions, graphs, settings.max_examples, settings.seed)
    return Analysis(
        settings=settings,
        num_graphs=len(graphs),
        graphs=chosen,
        num_nodes=[graphs[index].num_nodes for index in chosen],
        num_edges=[graphs[index].edge_index.size(1) for index in chosen],
        blocks=blocks,
        influence=influence,
        resistance=resistance,
        smoothness=smoothness,
        example=example,
        errors=errors,
        seconds=clock.seconds,
    )


def write_analysis(analysis: Analysis, path: str | os.PathLike[str]) -> None:
    r"""Writes an analysis as JSON, at once or not at all."""
    write_record(analysis, path)


def read_analysis(path: str | os.PathLike[str]) -> Analysis:
    r"""Reads what :func:`write_analysis` wrote.

    Raises:
        ValueError: If the file is no analysis, or one of another version.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"Expected JSON in {path} (got: {error}); analyse the run again"
        ) from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"Expected an analysis of version {SCHEMA_VERSION} in {path} (got {version}); analyse "
            f"the run again"
        )
    return read_record(Analysis, path)


def choose_graphs(
    graphs: Sequence[ModelInput], max_graphs: int, max_size: int, seed: int
) -> list[int]:
    r"""Numbers of random graphs, as many as the limits allow and at least one."""
    generator = torch.Generator().manual_seed(seed)
    chosen: list[int] = []
    size = 0
    for index in torch.randperm(len(graphs), generator=generator).tolist():
        if graphs[index].num_nodes == 0:
            continue
        size += _size(graphs[index])
        if chosen and (len(chosen) == max_graphs or size > max_size):
            break
        chosen.append(index)
    if not chosen:
        raise ValueError("Expected at least one graph with nodes to analyse (got none)")
    return chosen


def _read_graphs(
    data: GraphLike | ModelInput | Sequence[GraphLike | ModelInput],
) -> list[ModelInput]:
    items = data if isinstance(data, Sequence) else [data]
    return [part for item in items for part in read_input(item).split()]


def _size(graph: ModelInput) -> int:
    return graph.num_nodes + graph.edge_index.size(1)


def _num_samples(inputs: ModelInput, settings: AnalysisSettings) -> int:
    if settings.num_samples is not None:
        return settings.num_samples
    affordable = _NUM_SAMPLES * _SAMPLED_SIZE // max(_size(inputs), 1)
    return min(_NUM_SAMPLES, max(_MIN_SAMPLES, affordable))


def _example(
    model: Module,
    graphs: Sequence[ModelInput],
    chosen: Sequence[int],
    settings: AnalysisSettings,
) -> ExampleGraph:
    # the largest graph that can be drawn as a whole, else the smallest of all
    fitting = [i for i in chosen if graphs[i].num_nodes <= settings.example_nodes]
    by_size = sorted(fitting or chosen, key=lambda i: graphs[i].num_nodes, reverse=bool(fitting))
    graph = graphs[by_size[0]]
    runs = max(1, _DRAWN_WORK // max(_size(graph), 1))
    shown = min(graph.num_nodes, settings.example_nodes)
    large = runs < _DRAWN_CHANNELS * shown
    num_probes = min(8, max(2, runs // 8))
    return draw_example(
        model,
        graph,
        graph=by_size[0],
        max_nodes=settings.example_nodes,
        num_probes=num_probes if large else None,
        max_sources=max(1, runs // num_probes) if large else None,
        seed=settings.seed,
    )


class _Clock:
    r"""Says which part begins, and keeps how long it took."""

    def __init__(self, report: Callable[[str], None] | None) -> None:
        self.seconds: dict[str, float] = {}
        self._report = report
        self._part = ""
        self._start = 0.0

    def time(self, part: str) -> _Clock:
        self._part, self._start = part, time.perf_counter()
        if self._report is not None:
            self._report(part)
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.seconds[self._part] = round(time.perf_counter() - self._start, 3)
