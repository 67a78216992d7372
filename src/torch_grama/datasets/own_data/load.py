"""A user's own files, in whichever of the known forms, as a data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from torch_grama.datasets.catalogue import FORMS, refuse_missing
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.options import Options
from torch_grama.datasets.own_data.array_files import read_npz_file, read_torch_file
from torch_grama.datasets.own_data.column_readers import Decisions
from torch_grama.datasets.own_data.graph_parts import ParsedGraphs
from torch_grama.datasets.own_data.json_lines import LINE_SUFFIXES, read_json_lines
from torch_grama.datasets.own_data.labels import Labels
from torch_grama.datasets.own_data.node_tables import TABLE_SUFFIXES, read_frames, read_table_folder
from torch_grama.datasets.raw_arrays import fingerprint
from torch_grama.datasets.splits import make_split, stored_split
from torch_grama.datasets.task_data import Column, FeatureEncoding, Fold, GraphTaskData, TableForm

if TYPE_CHECKING:
    from pandas import DataFrame

_FILE_READERS: dict[str, Callable[[Path, Options], ParsedGraphs]] = {
    ".npz": read_npz_file,
    **dict.fromkeys((".pt", ".pth"), read_torch_file),
    **dict.fromkeys((*LINE_SUFFIXES, ".json"), read_json_lines),
}


def load_path(
    path: str | Path, *, form: TableForm | None = None, **options: object
) -> GraphTaskData:
    r"""Loads a user's own graphs.

    The form is told by the name: a folder with ``nodes.csv`` and ``edges.csv``, or the same as
    ``.parquet`` (:func:`~torch_grama.datasets.own_data.node_tables.read_table_folder`), a folder
    or file of graphs in JSON lines
    (:func:`~torch_grama.datasets.own_data.json_lines.read_json_lines`), an ``.npz`` file
    (:func:`~torch_grama.datasets.own_data.array_files.read_npz_file`) or a ``.pt`` file
    (:func:`~torch_grama.datasets.own_data.array_files.read_torch_file`).

    Where the files state no split, one is made and kept beside them (``splits.json``, or the name
    of the file followed by ``.splits.json``), so that the next run uses the same. Nodes or graphs
    without label are in no split; their ``y`` is -1, or NaN for flags and quantities.

    Args:
        path (str or Path): The file or folder.
        form (TableForm, optional): Read for predictions, and tables as those that a model was
            trained on: the ``form`` of their data set. No split is made. (default: found out)
        level (str, optional): ``node`` or ``graph``: what carries the target. (default: read off
            the data)
        kind (str, optional): ``classification``, ``multilabel`` or ``regression``. (default: read
            off the labels)
        label (str or sequence of str, optional): The label column or columns. (default: ``label``
            or ``y``)
        classes (sequence of str, optional): All classes, in the order of their numbers; a label
            outside of them is an error. (default: those found)
        ignore (sequence of str, optional): Columns or keys to leave out. (default: none)
        directed (bool, optional): Take the listed edges of a table, JSON or npz file as they are;
            otherwise each gets its reverse unless that is listed too. (default: :obj:`False`)
        categorical (bool, optional): Features are category numbers 0, 1, 2, ... that a model
            embeds. (default: :obj:`False`)
        metric (str, optional): ``accuracy``, ``roc_auc``, ``average_precision``, ``mae``, ``mse``
            or ``log10_mse``. (default: accuracy, average precision or mean absolute error,
            by the kind)
        fractions (tuple, optional): Parts of train, validation and test where a split is made.
            (default: :obj:`(0.6, 0.2, 0.2)`)
        seed (int, optional): Which split is made. (default: :obj:`0`)
        stratify (bool, optional): Whether each class is split in the same proportions. (default:
            :obj:`True`)
        targets (bool, optional): Whether labels and splits are read. If not, the data set has no
            ``y`` and no fold, and is good for predictions alone. (default: :obj:`True`)
        id, source, target (str, optional): Columns of tables: the name of a node, and the two
            ends of an edge. (default: found by their names)
        words (sequence of str, optional): Columns of tables that hold words, whatever they look
            like. (default: found out)
        numbers (sequence of str, optional): Columns of tables that hold numbers; other cells
            count as missing. (default: found out)
        missing (str, optional): What a missing number of a table becomes: the ``mean`` over the
            training part or ``zero``, with a feature that marks it, or ``refuse``. (default:
            :obj:`"mean"`)
        missing_words (sequence of str, optional): Cells of tables that count as missing, beside
            empty ones, ``NA``, ``NaN``, ``null`` and the like. (default: none)
        decimal (str, optional): The decimal mark of numbers in tables, ``.`` or ``,``. (default:
            found out for each column)
        day_first (bool, optional): Whether ``01/03/2024`` is in March. (default: found out for
            each column)
        unseen (str, optional): What becomes of a word that ``form`` does not know: ``zeros`` in
            its features, and a warning, or ``refuse``. (default: :obj:`"zeros"`)

    Returns:
        The data set.

    Raises:
        ValueError: An option has a value it cannot have.
        DatasetMissingError: There is nothing at that path.
        DatasetError: The files cannot be used as they are; nothing has been written.
    """
    checked = Options.read(options)
    path = Path(path)
    refuse_missing(path)
    return _build(_read(path, checked, form), checked, form)


def from_frames(
    nodes: DataFrame, edges: DataFrame, *, form: TableForm | None = None, **options: object
) -> GraphTaskData:
    r"""Makes a data set of two frames of pandas.

    They are read as ``nodes.csv`` and ``edges.csv`` with the same columns would be: a column
    ``id``, a label column and features; ``source`` and ``target`` (see :func:`load_path`). Without
    a column ``id``, the index of the frame names the nodes. Nothing is written: a split is made by
    the seed whenever it is asked for.

    Args:
        nodes (pandas.DataFrame): One row per node.
        edges (pandas.DataFrame): One row per edge.
        form (TableForm, optional): Read the frames as those that a model was trained on.
            (default: found out)
        **options: Those of :func:`load_path`.

    Returns:
        The data set.

    Raises:
        ValueError: An option has a value it cannot have.
        DatasetError: The frames cannot be used as they are.

    Example:
        >>> import pandas
        >>> people = pandas.DataFrame({"id": range(6), "age": [30, None, 50, 20, 40, 60]})
        >>> people["label"] = ["left", "right"] * 3
        >>> task = from_frames(people, pandas.DataFrame({"from": [0, 1, 2], "to": [3, 4, 5]}))
        >>> task.feature_names, task.class_names
        (('age', 'age=(missing)'), ('left', 'right'))
    """
    checked = Options.read(options)
    return _build(read_frames(nodes, edges, checked, form), checked, form)


def _build(parsed: ParsedGraphs, options: Options, form: TableForm | None) -> GraphTaskData:
    """Joins graphs, targets and a split; fills the gaps of tables."""
    graphs, labels = parsed.graphs, parsed.labels
    kind, class_names = options.kind or "classification", options.classes
    num_outputs = max(1, len(class_names))
    single = parsed.level == "node" and len(graphs) == 1
    notes, folds = list(parsed.notes), list(parsed.splits)
    if labels is None:
        notes.append("Labels were not read.")
    else:
        kind, class_names, num_outputs = labels.kind, labels.class_names, labels.num_outputs
        if not folds and form is None:
            fold, note = _make_split(parsed, labels, options, single)
            folds.append(fold)
            notes.append(note)
        by_node = parsed.level == "node"
        counts = [graph.num_nodes or 0 if by_node else 1 for graph in graphs]
        for graph, y in zip(graphs, torch.split(labels.y, counts), strict=True):
            graph.y = y.clone()
    if single:
        nodes = graphs[0].num_nodes
        folds = [Fold(*(index_to_mask(part, nodes) for part in fold.parts)) for fold in folds]
    if parsed.form is not None:
        train = folds[0].train if folds else torch.ones(graphs[0].num_nodes or 0).bool()
        filled, empty = _fill_gaps(
            graphs[0], form or parsed.form, train, options, known=form is not None
        )
        parsed = replace(parsed, form=filled, warnings=(*parsed.warnings, *empty))
    name = "frames" if parsed.path is None else str(parsed.path)
    return GraphTaskData(
        name=name,
        graphs=graphs,
        folds=folds,
        level=parsed.level,
        kind=kind,
        metric=options.metric_for(kind),
        num_outputs=num_outputs,
        node_encoding=_encoding(graphs, "x"),
        edge_encoding=_encoding(graphs, "edge_attr"),
        class_names=class_names,
        source=f"the user's own files: {name}" if parsed.path else "the user's own frames",
        licence="the user's own",
        notes=tuple(notes),
        feature_names=parsed.feature_names,
        node_names=parsed.node_names,
        edge_feature_names=parsed.edge_feature_names,
        form=parsed.form,
        warnings=parsed.warnings,
    )


def _read(path: Path, options: Options, form: TableForm | None) -> ParsedGraphs:
    if path.is_dir():
        files = list(path.iterdir())
        named = [file for file in files if file.stem in ("nodes", "edges")]
        tables = any(file.suffix in TABLE_SUFFIXES for file in named)
        lines = any(file.suffix in LINE_SUFFIXES for file in files)
        if tables and lines:
            raise DatasetError(
                f"'{path}' holds both tables and JSON lines: keep them in folders of their own."
            )
        if tables:
            return read_table_folder(path, options, form)
        if lines:
            return read_json_lines(path, options)
    elif path.suffix in _FILE_READERS:
        return _FILE_READERS[path.suffix](path, options)
    elif path.suffix in TABLE_SUFFIXES:
        raise DatasetError(
            f"'{path}' is one table of a graph: give the folder that has nodes.csv and edges.csv "
            f"in it."
        )
    raise DatasetError(f"'{path}' is in none of the known forms: give {FORMS}.")


def _make_split(
    parsed: ParsedGraphs, labels: Labels, options: Options, single: bool
) -> tuple[Fold, str]:
    """Divides the labelled nodes of a single graph, or whole graphs; kept beside the files."""
    path = parsed.path
    classes: NDArray[np.int64] | None = None
    if parsed.level == "node" and not single:
        items = np.arange(len(parsed.graphs))
    else:
        items = np.flatnonzero(labels.labelled)
        if labels.kind == "classification" and options.stratify:
            classes = labels.y.numpy()[items]
    what = "nodes" if single else "graphs"
    parts = "/".join(str(fraction) for fraction in options.fractions)
    how = "at random" if classes is None else "by class"
    make = partial(
        make_split,
        items,
        classes,
        fractions=options.fractions,
        seed=options.seed,
        class_names=labels.class_names,
        what=what if path is None else f"{what} of '{path}'",
    )
    made = f"The data states no split: one was made {how} (seed {options.seed}"
    if path is None:
        return make(), f"{made})."
    kept = path / "splits.json" if path.is_dir() else path.with_name(f"{path.name}.splits.json")
    fold, trouble = stored_split(
        kept,
        f"{what} by {', '.join(parsed.target)}, seed {options.seed}, {parts}, {how}",
        make,
        num_items=len(labels.y) if single else len(parsed.graphs),
        items=parsed.identity,
        targets=fingerprint([items] if classes is None else [items, _renumbered(classes)]),
    )
    where = trouble or f"it is kept in '{kept}'"
    return fold, f"{made}); {where}."


def _renumbered(classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Classes numbered as they first appear: the same whatever the order of their names."""
    _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _encoding(graphs: Sequence[Data], name: str) -> FeatureEncoding:
    if graphs[0].get(name) is None:
        return FeatureEncoding("none", 0)
    matrices = [graph[name] for graph in graphs]
    width = int(matrices[0].size(1))
    if matrices[0].dtype != torch.long:
        return FeatureEncoding("float", width)
    largest = torch.stack([matrix.amax(dim=0) for matrix in matrices if len(matrix)]).amax(dim=0)
    return FeatureEncoding("categorical", width, tuple(int(code) + 1 for code in largest))


def _fill_gaps(
    graph: Data, form: TableForm, train: Tensor, options: Options, *, known: bool
) -> tuple[TableForm, tuple[str, ...]]:
    """Puts a number into each NaN of a graph out of tables, in place: the one that the form knows
    from training, or the mean over the training nodes and the edges between them.
    """
    empty = Decisions()
    source, target = graph["edge_index"]
    inside = train[source] & train[target]
    if not bool(inside.any()):
        inside = torch.ones_like(inside)
    weight = () if form.weight is None else (form.weight,)
    filled = {"x": form.nodes, "edge_attr": form.edges, "edge_weight": weight}
    for key, columns in filled.items():
        values = graph.get(key)
        if values is None or not columns or not values.is_floating_point():
            continue
        table = values if values.dim() == 2 else values[:, None]
        widths = [len(c.values) if c.kind == "words" else 1 + c.flag for c in columns]
        first = np.cumsum([0, *widths[:-1]])  # the feature that holds the numbers of a column
        gaps = table.isnan()
        has_gaps = bool(gaps.any())
        if not known and options.missing != "zero":
            mean = torch.nanmean if has_gaps else torch.mean  # which takes a third of the time
            rows = table[train if key == "x" else inside]
            means = mean(rows, dim=0, dtype=torch.double)[first].tolist()
            pairs = list(zip(columns, means, strict=True))
            for column, number in pairs:
                if column.kind != "words" and math.isnan(number):
                    empty.add(
                        "Columns have no value in the training part, and got 0 where one is "
                        "missing",
                        column.name,
                        change="`-o ignore=NAMES` leaves them out",
                    )
            filled[key] = tuple(
                column  # replace() takes ten times as long
                if column.kind == "words"
                else Column(**{**vars(column), "fill": 0.0 if math.isnan(number) else number})
                for column, number in pairs
            )
        if has_gaps:
            fills = torch.zeros(table.size(1), dtype=table.dtype)
            fills[first] = torch.tensor([c.fill for c in filled[key]], dtype=table.dtype)
            table[gaps] = fills.expand_as(table)[gaps]
    nodes, edges, weights = filled.values()
    return TableForm(nodes, edges, weights[0] if weights else None), empty.sentences()
