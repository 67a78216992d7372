"""Predictions of a run on its own data or on other data, as a table."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_grama.datasets import DatasetError, FeatureEncoding, GraphTaskData, TableForm
from torch_grama.datasets.catalogue import is_path
from torch_grama.datasets.splits import PARTS
from torch_grama.datasets.storage import Report
from torch_grama.experiments.config import ConfigError, OptionValue
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.finished_run import LoadedRun, load_run
from torch_grama.runs.atomic_file import write_atomically
from torch_grama.runs.run_folder import RunError
from torch_grama.runs.words import format_count
from torch_grama.training import predict, prediction_loader
from torch_grama.training.evaluate import choose_device

SUFFIXES = (".csv", ".json", ".jsonl", ".parquet")
Cell = str | int | float | None
# Options of the files trained on that say nothing about other files.
_OF_TRAINING = ("kind", "level", "classes", "metric", "fractions", "seed", "stratify", "targets")


@dataclass(frozen=True)
class Predictions:
    r"""A table of predictions.

    Attributes:
        columns: Names: where an item stands (``node``, ``graph``), ``label`` and ``split`` if they
            were asked for, ``prediction``, then a probability for each class or label; for
            quantities one column each.
        rows: One row per node or graph.
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
    r"""Refuses a file whose ending names no known form, or one whose writer is not installed."""
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
                "Writing parquet takes pandas and pyarrow: run `pip install "
                "'torch-grama[tables]'`, or write .csv"
            ) from error


def predict_run(
    folder: str | Path,
    data: str | Path | GraphTaskData | None = None,
    out: str | Path | None = None,
    report: Report | None = None,
    *,
    with_labels: bool = False,
    options: Mapping[str, OptionValue] | None = None,
) -> Predictions:
    r"""Predicts with the best weights of a run.

    Tables are read as training read them: its words, and its means in the place of missing cells.
    What training did not have is a warning.

    Args:
        folder (str or Path): The folder of the run, or of a model exported as safetensors.
        data (str, Path or GraphTaskData, optional): Other data: files as those trained on, or a
            name; labels are not needed. Or a data set, such as that of
            :func:`~torch_grama.datasets.from_frames` with the ``form`` of the run's facts.
            (default: the run's own data)
        out (str or Path, optional): Where the table is written. (default: nowhere)
        report (callable, optional): Told while data is loaded. (default: :obj:`None`)
        with_labels (bool, optional): Add the true label and the split of each item. (default:
            :obj:`False`)
        options (mapping, optional): Options of :func:`~torch_grama.datasets.load_path` for the
            other data, over those of the run. (default: none)

    Returns:
        The table: every node of a node task, every graph of a graph task.

    Raises:
        RunError: There is no run, it has no weights, the data does not fit it, or its outputs
            are no numbers.
        ConfigError: The output's ending is unknown.
        DatasetError: The data is not there or cannot be used.
    """
    if out is not None:
        check_suffix(out)
    run = load_run(folder)
    if not isinstance(data, GraphTaskData):
        data = _load(run, data, options or {}, report, with_labels)
    data = _widen_empty(data, run.facts)
    _check_fit(data, run)
    for sentence in data.warnings:
        warnings.warn(sentence, stacklevel=2)
    settings = run.config.trainer
    outputs = predict(run.task, prediction_loader(data, settings), device=choose_device(settings))
    odd = (~outputs.isfinite()).reshape(len(outputs), -1).any(dim=1).nonzero().flatten()
    if len(odd):
        raise RunError(
            f"The model of '{folder}' gives no numbers for {len(odd):,} of {len(outputs):,} rows "
            f"(the first is {int(odd[0])}), so that nothing is written: look for extreme values in "
            f"the data, or train again with a lower learning rate"
        )
    predictions = make_table(
        outputs, run.facts, data, run.config.data.fold if with_labels else None
    )
    if out is not None:
        predictions.save(out)
    return predictions


def make_table(
    outputs: Tensor, facts: DataFacts, data: GraphTaskData, labels_of: int | None = None
) -> Predictions:
    r"""Turns the outputs of a model into words, probabilities or quantities; with a fold in
    :obj:`labels_of` also says the true label and the split of each item.
    """
    places, where = _places(data, outputs.size(0))
    if labels_of is not None:
        truth, columns = _truth(data, facts, labels_of, len(places))
        places = [(*place, *row) for place, row in zip(places, truth, strict=True)]
        where = (*where, *columns)
    names = facts.class_names or tuple(map(str, range(facts.num_outputs)))
    values: list[tuple[Cell, ...]]
    outputs = outputs.double()
    if facts.kind in ("classification", "multilabel"):
        one_of_many = facts.kind == "classification" and outputs.size(1) > 1
        shares = outputs.softmax(dim=1) if one_of_many else outputs.sigmoid()
        chosen = F.one_hot(shares.argmax(dim=1), len(names)) if one_of_many else shares > 0.5
        columns = ("prediction", *(f"probability {name}" for name in names))
        values = [
            (";".join(compress(names, is_chosen)), *(round(value, 6) for value in row))
            for is_chosen, row in zip(chosen.tolist(), shares.tolist(), strict=True)
        ]
    else:
        single = outputs.size(1) == 1
        columns = ("prediction",) if single else tuple(f"prediction {name}" for name in names)
        values = [tuple(row) for row in outputs.tolist()]
    return Predictions(
        (*where, *columns), [(*place, *row) for place, row in zip(places, values, strict=True)]
    )


def _load(
    run: LoadedRun,
    name: str | Path | None,
    options: Mapping[str, OptionValue],
    report: Report | None,
    with_labels: bool,
) -> GraphTaskData:
    config, facts = run.config.data, run.facts
    if name is None or str(name) == config.name:
        try:
            own = load_data(
                dataclasses.replace(config, options=config.options | dict(options)), report
            )
        except DatasetError as error:
            hint = "" if name is not None else "; name other data with `--data`"
            raise type(error)(f"{str(error).rstrip('.')}{hint}.") from error
        if DataFacts.of(own) == facts or not is_path(config.name):
            return own
        name = config.name  # changed since training: its words, means and classes are others
    if not is_path(name):
        named = {} if is_path(config.name) else config.options
        other = dataclasses.replace(config, name=str(name), fold=0, options=named | dict(options))
        return load_data(other, report)
    if facts.kind == "forecast":
        raise RunError(
            f"Expected the name of a data set of series for the run '{run.folder.path}', which "
            f"forecasts (got '{name}'): no series are read from files"
        )
    if facts.feature_names and facts.form is None:
        raise RunError(
            f"The run '{run.folder.path}' was made by a version that did not keep how its tables "
            f"were read: train it again"
        )
    kept = {key: value for key, value in config.options.items() if key not in _OF_TRAINING}
    kept |= {"targets": with_labels, "kind": facts.kind, "level": facts.level}
    if facts.class_names and facts.kind != "regression":
        kept["classes"] = list(facts.class_names)
    other = dataclasses.replace(config, name=str(name), options=kept | dict(options))
    return load_data(other, report, form=facts.form or TableForm())


def _widen_empty(data: GraphTaskData, facts: DataFacts) -> GraphTaskData:
    """Graphs without any edge cannot show what edges carry: they follow those of training."""
    if any(graph.num_edges for graph in data.graphs):
        return data
    graphs = [graph.clone() for graph in data.graphs]
    encoding = facts.edge_encoding
    for graph in graphs:
        if facts.has_edge_weight:
            graph.edge_weight = torch.zeros(0)
        if encoding.kind != "none":
            dtype = torch.float if encoding.kind == "float" else torch.long
            graph.edge_attr = torch.zeros(0, encoding.num_columns, dtype=dtype)
    return dataclasses.replace(data, graphs=graphs, edge_encoding=encoding)


def _check_fit(data: GraphTaskData, run: LoadedRun) -> None:
    """Refuses data that the model of a run cannot read."""
    wanted, facts = run.facts, DataFacts.of(data)
    for what, ours, theirs in (
        ("a task of the level", wanted.level, facts.level),
        ("node features", _shape(wanted.node_encoding), _shape(facts.node_encoding)),
        ("edge features", _shape(wanted.edge_encoding), _shape(facts.edge_encoding)),
        ("edge weights", wanted.has_edge_weight, facts.has_edge_weight),
        ("a sequence of the length", wanted.seq_len, facts.seq_len),
    ):
        if ours != theirs:
            raise RunError(
                f"Expected data like that of the run, with {what} {ours} (got {theirs} in "
                f"'{data.name}')"
            )


def _shape(encoding: FeatureEncoding) -> str:
    # not its sizes: a new set of categories may lack the largest one
    return f"{encoding.kind} in {format_count(encoding.num_columns, 'column')}"


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


def _truth(
    data: GraphTaskData, facts: DataFacts, fold: int, count: int
) -> tuple[list[tuple[Cell, ...]], tuple[str, ...]]:
    """The label and the split of each item; nothing where there is none."""
    targets = [graph.get("y") for graph in data.graphs]
    if any(y is None for y in targets):
        raise RunError(f"Expected labels in '{data.name}' (it has none)")
    y = torch.cat([y if y.dim() else y.view(1) for y in targets])
    rows: list[tuple[Cell, ...]]
    if facts.kind == "classification" and not y.is_floating_point():
        names = facts.class_names or tuple(map(str, range(facts.num_outputs)))
        rows = [(names[number] if number >= 0 else None,) for number in y.flatten().tolist()]
        columns: tuple[str, ...] = ("label",)
    else:
        y = y.view(count, -1)
        names = facts.class_names or tuple(map(str, range(y.size(1))))
        columns = ("label",) if y.size(1) == 1 else tuple(f"label {name}" for name in names)
        rows = [tuple(None if v != v else v for v in row) for row in y.double().tolist()]
    words: list[str | None] = [None] * len(data.graphs)
    if data.folds and data.folds[0].train.dtype == torch.bool:
        words = [None] * count
    for part, items in zip(PARTS, data.folds[fold].parts if data.folds else (), strict=False):
        for item in (items.nonzero() if items.dtype == torch.bool else items).flatten().tolist():
            words[item] = part
    if len(words) != count:  # nodes of many graphs, which are split as wholes
        sizes = [int(graph.num_nodes or 0) for graph in data.graphs]
        words = [w for word, size in zip(words, sizes, strict=True) for w in [word] * size]
    return [(*row, word) for row, word in zip(rows, words, strict=True)], (*columns, "split")
