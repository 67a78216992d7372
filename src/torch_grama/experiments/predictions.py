"""Predictions of a run on its own data or on other data, as a table."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from torch_grama.datasets import DatasetError, GraphTaskData
from torch_grama.datasets.catalogue import is_path
from torch_grama.datasets.storage import Report
from torch_grama.experiments.config import ConfigError
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.finished_run import LoadedRun, load_run
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import RunError
from torch_grama.training import predict, prediction_loader
from torch_grama.training.evaluate import choose_device

SUFFIXES = (".csv", ".json", ".jsonl", ".parquet")
Cell = str | int | float


@dataclass(frozen=True)
class Predictions:
    r"""A table of predictions.

    Attributes:
        columns: Names: where an item stands (``node``, ``graph``), ``prediction``, then a
            probability for each class or label; for quantities one column each.
        rows: One row a node or graph.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]

    def save(self, path: str | Path) -> None:
        r"""Writes the table, whole or not at all.

        Args:
            path (str or Path): A file ending in ``.csv``, ``.json``, ``.jsonl`` or ``.parquet``.

        Raises:
            ConfigError: The ending is another one, or pandas is missing for parquet.
        """
        path = Path(path)
        check_suffix(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self._as_bytes(path.suffix))

    def _as_bytes(self, suffix: str) -> bytes:
        if suffix == ".parquet":
            import pandas

            buffer = io.BytesIO()
            pandas.DataFrame(list(self.rows), columns=list(self.columns)).to_parquet(buffer)
            return buffer.getvalue()
        if suffix == ".csv":
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.rows)
            return text.getvalue().encode()
        records = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        if suffix == ".json":
            return f"{json.dumps(records, indent=1, ensure_ascii=False)}\n".encode()
        return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in records).encode()


def check_suffix(path: str | Path) -> None:
    r"""Refuses a file whose ending names no known form.

    Args:
        path (str or Path): The file.

    Raises:
        ConfigError: The ending is another one, or what writes it is not installed.
    """
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise ConfigError(
            f"Expected a table that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} "
            f"(got '{path}')"
        )
    if suffix == ".parquet":
        try:
            import pandas  # noqa: F401
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                "Writing parquet takes pandas and pyarrow: run `pip install pandas pyarrow`, or "
                "write .csv"
            ) from error


def predict_run(
    folder: str | Path,
    data: str | Path | None = None,
    out: str | Path | None = None,
    report: Report | None = None,
) -> Predictions:
    r"""Predicts with the best weights of a run.

    Args:
        folder (str or Path): The folder of the run.
        data (str or Path, optional): Other data: files as those trained on, or a name. Labels are
            not needed and not read. (default: the run's own data)
        out (str or Path, optional): Where the table is written. (default: nowhere)
        report (callable, optional): Told while data is loaded. (default: :obj:`None`)

    Returns:
        The table: every node of a node task, every graph of a graph task.

    Raises:
        RunError: There is no run, it has no weights, or the data does not fit it.
        ConfigError: The output's ending is unknown.
        DatasetError: The data is not there or cannot be used.
    """
    if out is not None:
        check_suffix(out)
    run = load_run(folder)
    task_data = _load(run, data, report)
    settings = run.config.trainer
    outputs = predict(
        run.task, prediction_loader(task_data, settings), device=choose_device(settings)
    )
    predictions = make_table(outputs, run.facts, task_data)
    if out is not None:
        predictions.save(out)
    return predictions


def make_table(outputs: Tensor, facts: DataFacts, data: GraphTaskData) -> Predictions:
    r"""Turns the outputs of a model into words, probabilities or quantities.

    Args:
        outputs (Tensor): One row a node or graph.
        facts (DataFacts): What the model was trained on.
        data (GraphTaskData): What it predicted on.
    """
    places, where = _places(data, outputs.size(0))
    names = facts.class_names or tuple(str(number) for number in range(facts.num_outputs))
    columns: tuple[str, ...]
    values: list[tuple[Cell, ...]]
    outputs = outputs.double()
    if facts.kind == "classification" and outputs.size(1) > 1:
        shares = outputs.softmax(dim=1)
        best = shares.argmax(dim=1).tolist()
        columns = ("prediction", *(f"probability {name}" for name in names))
        values = [(names[number], *_rounded(row)) for number, row in zip(best, shares, strict=True)]
    elif facts.kind in ("classification", "multilabel"):
        shares = outputs.sigmoid()
        columns = ("prediction", *(f"probability {name}" for name in names))
        values = [
            (
                ";".join(name for name, on in zip(names, row > 0.5, strict=True) if on),
                *_rounded(row),
            )
            for row in shares
        ]
    else:
        single = outputs.size(1) == 1
        columns = ("prediction",) if single else tuple(f"prediction {name}" for name in names)
        values = [tuple(row.tolist()) for row in outputs]
    return Predictions(
        (*where, *columns), [(*place, *row) for place, row in zip(places, values, strict=True)]
    )


def _load(run: LoadedRun, name: str | Path | None, report: Report | None) -> GraphTaskData:
    config = run.config.data
    if name is None or str(name) == config.name:
        try:
            data = load_data(config, report)
        except DatasetError as error:
            hint = "" if name is not None else "; name other data with `--data`"
            raise type(error)(f"{str(error).rstrip('.')}{hint}.") from error
    elif is_path(name):
        kept = {
            key: value
            for key, value in config.options.items()
            if key in ("label", "ignore", "directed", "categorical")
        }
        options = kept | {"targets": False, "kind": run.facts.kind, "level": run.facts.level}
        if run.facts.class_names:
            options["classes"] = list(run.facts.class_names)
        other = dataclasses.replace(config, name=str(name), options=options)
        data = load_data(other, report, needs_fold=False)
    else:
        named = {} if is_path(config.name) else config.options
        other = dataclasses.replace(config, name=str(name), fold=0, options=named)
        data = load_data(other, report)
    return _align(data, run)


def _align(data: GraphTaskData, run: LoadedRun) -> GraphTaskData:
    """Data whose features are those that the model was trained on, in the same order."""
    wanted, facts = run.facts, DataFacts.of(data)
    names = wanted.feature_names
    if names and facts.feature_names and names != facts.feature_names:
        data = _reorder(data, names, run)
        facts = DataFacts.of(data)
    for what, ours, theirs in (
        ("a task of the level", wanted.level, facts.level),
        ("node features", _shape(wanted, "node"), _shape(facts, "node")),
        ("edge features", _shape(wanted, "edge"), _shape(facts, "edge")),
        ("edge weights", wanted.has_edge_weight, facts.has_edge_weight),
        ("a sequence of the length", wanted.seq_len, facts.seq_len),
    ):
        if ours != theirs:
            raise RunError(
                f"Expected data like that of the run, with {what} {ours} (got {theirs} in "
                f"'{data.name}')"
            )
    return data


def _shape(facts: DataFacts, what: str) -> str:
    encoding = facts.node_encoding if what == "node" else facts.edge_encoding
    # a new set of categories may lack the largest one
    kind = encoding.kind
    return f"{kind} in {encoding.num_columns} columns"


def _reorder(data: GraphTaskData, names: Sequence[str], run: LoadedRun) -> GraphTaskData:
    have = {name: column for column, name in enumerate(data.feature_names)}
    # a word that does not occur here has no column: it is 0 for all
    words = {name.partition("=")[0] for name in data.feature_names if "=" in name}
    missing = [name for name in names if name not in have and name.partition("=")[0] not in words]
    extra = [name for name in have if name not in names]
    if missing or extra:
        wrong = f"without '{missing[0]}'" if missing else f"with '{extra[0]}' besides"
        raise RunError(
            f"Expected the features that the run '{run.folder.path}' was trained on: "
            f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''} (got '{data.name}' "
            f"{wrong})"
        )
    graphs = []
    for graph in data.graphs:
        moved, x = graph.clone(), graph["x"]
        columns = [x[:, have[name]] if name in have else torch.zeros(len(x)) for name in names]
        moved.x = torch.stack(columns, dim=1)
        graphs.append(moved)
    encoding = dataclasses.replace(data.node_encoding, num_columns=len(names))
    return dataclasses.replace(
        data, graphs=graphs, feature_names=tuple(names), node_encoding=encoding
    )


def _places(data: GraphTaskData, count: int) -> tuple[list[tuple[Cell, ...]], tuple[str, ...]]:
    if data.level == "graph":
        return [(number,) for number in range(count)], ("graph",)
    if len(data.graphs) == 1:
        names: Sequence[Cell] = data.node_names or range(count)
        return [(name,) for name in names], ("node",)
    places: list[tuple[Cell, ...]] = []
    for number, graph in enumerate(data.graphs):
        places += [(number, node) for node in range(int(graph.num_nodes or 0))]
    return places, ("graph", "node")


def _rounded(row: Tensor) -> list[float]:
    return [round(value, 6) for value in row.tolist()]
