"""Everything there is to see of one model on its data, in one record and one file."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import Module

from torch_grama.analysis.block_analysis import BlockAnalysis, analyze_blocks, find_grama
from torch_grama.analysis.influence import Influence, influence_by_distance, influence_of_task
from torch_grama.analysis.inputs import Graphs, ModelInput, check_count, read_input
from torch_grama.analysis.prediction_errors import ErrorSummary, Predictions, summarize_errors
from torch_grama.analysis.records import read_record
from torch_grama.analysis.smoothness import Smoothness, smoothness_if_any
from torch_grama.analysis.spread import ExampleGraph, draw_example
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.safe_files import read_plain

SCHEMA_VERSION = 3

# The name under which the analysed model stands beside those it is compared with.
MODEL = "model"
TASK = "the task"

# Nodes and edges of all analysed graphs together; at least one graph is taken.
_MAX_SIZE = 200_000

# Nodes and edges up to which as many nodes are differentiated; fewer, in proportion, beyond.
_SAMPLED_SIZE = 30_000
_NUM_SAMPLES = 32
_MIN_SAMPLES = 8


@dataclass(frozen=True)
class AnalysisSettings:
    r"""How much to analyse. With the defaults the file has a few hundred kB, and a graph of 10,000
    nodes takes about a minute."""

    max_graphs: int = 32  #: graphs whose blocks and smoothness are analysed, drawn at random
    max_influence_graphs: int = 8  #: graphs of which influence is measured; the first of the former
    #: nodes of each graph that are differentiated where not all are; None for 32, and fewer for
    #: large graphs
    num_samples: int | None = None
    closed_loop: bool = True  #: whether to measure the loop with the backbone
    example_nodes: int = 60  #: nodes of the graph that is drawn; 0 for none
    seed: int = 0  #: seed of everything random

    def __post_init__(self) -> None:
        check_count("max_graphs", self.max_graphs, minimum=1)
        check_count("max_influence_graphs", self.max_influence_graphs, minimum=1)
        check_count("example_nodes", self.example_nodes, minimum=0)


@dataclass(frozen=True)
class Analysis:
    r"""What :func:`analyze` found; the entries of the file ``analysis.json`` are its attributes,
    and the entries below those of the records named here."""

    settings: AnalysisSettings  #: how much was looked at, the seed included
    num_graphs: int  #: number of graphs in the data
    graphs: list[int]  #: numbers of those that were analysed, in the order of all lists over graphs
    num_nodes: list[int]  #: number of nodes of each of them
    num_edges: list[int]  #: number of edges of each of them
    blocks: list[BlockAnalysis]  #: dynamics of every block; empty for a model that is not GRAMA
    #: influence by distance of the model, under ``"model"``, and of those it is compared with,
    #: under their names; the range that the task needs, where it is known, under ``"the task"``
    influence: dict[str, Influence]
    #: Dirichlet energy along the recurrence or the layers likewise; a model without layers that
    #: could be told has no entry
    smoothness: dict[str, Smoothness]
    example: ExampleGraph | None  #: a graph to draw; None for a model that is not GRAMA
    errors: ErrorSummary | None  #: where the predictions are wrong; None where none were given
    seconds: dict[str, float] = field(compare=False)  #: how long each part took
    schema_version: int = SCHEMA_VERSION  #: version of this form, 3


def analyze(
    model: Module,
    data: Graphs,
    *,
    predictions: Predictions | None = None,
    compare: Mapping[str, Module] | None = None,
    task: Callable[[Tensor, Tensor], Tensor] | None = None,
    settings: AnalysisSettings | None = None,
    report: Callable[[str], None] | None = None,
) -> Analysis:
    r"""Analyses a trained model: its dynamics, how far information travels, whether states become
    alike, and where it is wrong.

    Args:
        model (Module): A GRAMA model, a module that contains one, or any other model with the
            common call, for which only influence, smoothness and errors are computed.
        data (ModelInput, Data, Batch or sequence): The graphs, ready for the model; on its device.
        predictions (Predictions, optional): What the model said. (default: :obj:`None`)
        compare (mapping, optional): Other models for the same graphs, by name; their influence and
            smoothness are computed too. (default: :obj:`None`)
        task (callable, optional): Function from inputs and edges of a graph to the sizes :math:`(N,
            N)` of the derivatives of its targets, where they are known: the range that the task
            needs. (default: :obj:`None`)
        settings (AnalysisSettings, optional): How much to analyse. (default: :obj:`None`)
        report (callable, optional): Called with the name of each part when it begins. (default:
            :obj:`None`)

    Raises:
        ValueError: If there is no graph, or a compared model is called ``"model"``.

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
    items = data if isinstance(data, Sequence) else [data]
    graphs = [part for item in items for part in read_input(item).split()]
    chosen = choose_graphs(graphs, settings.max_graphs, _MAX_SIZE, settings.seed)
    batch = read_input([graphs[index] for index in chosen])
    few = read_input([graphs[index] for index in chosen[: settings.max_influence_graphs]])
    seconds: dict[str, float] = {}

    @contextmanager
    def part(name: str) -> Iterator[None]:
        if report is not None:
            report(name)
        start = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - start, 3)

    is_grama, seed = find_grama(model) is not None, settings.seed
    blocks: list[BlockAnalysis] = []
    if is_grama:
        with part("dynamics of the blocks"):
            blocks = analyze_blocks(model, batch, closed_loop=settings.closed_loop, seed=seed)
    smoothness, influence = {}, {}
    with part("smoothness"):
        for name, other in models.items():
            found = smoothness_if_any(other, batch)
            smoothness.update({} if found is None else {name: found})
    num_samples = _num_samples(few, settings)
    for name, other in models.items():
        with part(f"influence of {name}"):
            influence[name] = influence_by_distance(other, few, num_samples=num_samples, seed=seed)
    if task is not None:
        with part("influence of the task"):
            matrices = [task(graph.x, graph.edge_index) for graph in few.split()]
            influence[TASK] = influence_of_task(matrices, few)
    example = None
    if is_grama and settings.example_nodes > 0:
        with part("influence of single nodes, for the drawing"):
            example = _example(model, graphs, chosen, settings)
    errors = None
    if predictions is not None:
        with part("errors"):
            errors = summarize_errors(predictions, graphs, seed)
    return Analysis(
        settings=settings,
        num_graphs=len(graphs),
        graphs=chosen,
        num_nodes=[graphs[index].num_nodes for index in chosen],
        num_edges=[graphs[index].edge_index.size(1) for index in chosen],
        blocks=blocks,
        influence=influence,
        smoothness=smoothness,
        example=example,
        errors=errors,
        seconds=seconds,
    )


def write_analysis(analysis: Analysis, path: str | os.PathLike[str]) -> None:
    r"""Writes an analysis as JSON, at once or not at all.

    Args:
        analysis (Analysis): What :func:`analyze` found.
        path (str or Path): The file.

    Raises:
        ValueError: If a number is infinite or undefined, which JSON cannot say.
    """
    path = Path(path)
    text = json.dumps(dataclasses.asdict(analysis), allow_nan=False, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"{text}\n".encode())


def read_analysis(path: str | os.PathLike[str]) -> Analysis:
    r"""Reads what :func:`write_analysis` wrote.

    Args:
        path (str or Path): The file.

    Raises:
        ValueError: If the file is no analysis, or one of another version.
    """
    try:
        content = json.loads(read_plain(Path(path)))
        version = content.get("schema_version") if isinstance(content, dict) else None
        if version != SCHEMA_VERSION:
            raise ValueError(f"version {version}")
        analysis: Analysis = read_record(Analysis, content, "Analysis")
    except ValueError as error:
        raise ValueError(
            f"Expected an analysis of version {SCHEMA_VERSION} in {path} (got: {error}); analyse "
            f"the run again"
        ) from error
    return analysis


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


def _size(graph: ModelInput) -> int:
    return graph.num_nodes + graph.edge_index.size(1)


def _num_samples(inputs: ModelInput, settings: AnalysisSettings) -> int:
    if settings.num_samples is not None:
        return settings.num_samples
    affordable = _NUM_SAMPLES * _SAMPLED_SIZE // _size(inputs)
    return min(_NUM_SAMPLES, max(_MIN_SAMPLES, affordable))


def _example(
    model: Module, graphs: Sequence[ModelInput], chosen: list[int], settings: AnalysisSettings
) -> ExampleGraph:
    # the largest graph that can be drawn as a whole, else the smallest of all
    fitting = [i for i in chosen if graphs[i].num_nodes <= settings.example_nodes]
    by_size = sorted(fitting or chosen, key=lambda i: graphs[i].num_nodes, reverse=bool(fitting))
    number, nodes, seed = by_size[0], settings.example_nodes, settings.seed
    return draw_example(model, graphs[number], graph=number, max_nodes=nodes, seed=seed)
