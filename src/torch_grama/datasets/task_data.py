"""The one form in which every data set reaches a training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

Level = Literal["node", "graph"]
EncodingKind = Literal["none", "float", "categorical", "ogb_atom", "ogb_bond"]
Kind = Literal["classification", "multilabel", "regression", "forecast"]


@dataclass(frozen=True)
class Fold:
    r"""One train / validation / test division of a data set.

    Attributes:
        train: Boolean node mask ``[N]`` (node tasks on one graph) or int64 indices into the
            sequence of graphs (graph tasks, node tasks on many graphs, forecasts).
        val: Likewise, for model selection.
        test: Likewise, read once, after selection.
    """

    train: Tensor
    val: Tensor
    test: Tensor

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""Train, validation and test."""
        return self.train, self.val, self.test


@dataclass(frozen=True)
class Metric:
    r"""The number a data set is judged by.

    Attributes:
        name: One of ``accuracy``, ``roc_auc``, ``average_precision``, ``mae``, ``mse``,
            ``log10_mse``.
        higher_is_better: The direction in which it improves.
    """

    name: str
    higher_is_better: bool


@dataclass(frozen=True)
class FeatureEncoding:
    r"""What must happen to a feature matrix before a linear layer may see it.

    Attributes:
        kind: ``float`` (nothing), ``categorical`` (one embedding table a column), ``ogb_atom`` or
            ``ogb_bond`` (the same with the tables of the Open Graph Benchmark), ``none`` (there
            are no such features).
        num_columns: Width of the stored matrix; 0 where there is none.
        sizes: Number of categories of each column; empty unless categorical.
    """

    kind: EncodingKind
    num_columns: int
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Column:
    r"""How a column of a user's table became features.

    Attributes:
        name: What it is called.
        kind: A ``number``, a ``date`` (in days since 1970-01-01), or ``words`` (one feature of 0
            and 1 for each).
        fill: What stands in the place of a missing number: the mean over the training part.
        flag: Whether one more feature is 1 where the number is missing.
        values: The words, in the order of their features.
        decimal: The decimal mark of the numbers.
        day_first: Whether the day stands before the month where a date leaves it open.
    """

    name: str
    kind: Literal["number", "date", "words"] = "number"
    fill: float = 0.0
    flag: bool = False
    values: tuple[str, ...] = ()
    decimal: str = "."
    day_first: bool = True


@dataclass(frozen=True)
class TableForm:
    r"""How the tables of a user became features; other tables can be read in the same way.

    Attributes:
        nodes: The columns behind ``x``.
        edges: The columns behind ``edge_attr``.
        weight: The column behind ``edge_weight``.
    """

    nodes: tuple[Column, ...] = ()
    edges: tuple[Column, ...] = ()
    weight: Column | None = None


@dataclass(frozen=True)
class GraphTaskData:
    r"""A data set together with everything a training loop must know about it.

    Attributes:
        name: The word it was loaded by, or the path.
        graphs: The graphs. Node tasks on one graph have exactly one. The target ``y`` of a graph is
            int64 ``[N]`` or ``[1]`` for classes and float ``[N, K]`` or ``[1, K]`` for ``K`` labels
            or quantities. A boolean ``label_mask`` ``[N]``, where there is one, marks the nodes
            that loss and metric are taken over; otherwise it is all of them.
        folds: The official divisions, in the published order, or the one that was made.
        level: Whether nodes or graphs carry the target ``y``.
        kind: The kind of target. A ``forecast`` has ``x`` of shape ``[N, lags, C]`` and one graph
            per time step.
        metric: The published metric and its direction.
        num_outputs: Number of classes, labels or regression targets.
        node_encoding: How ``x`` is to be read.
        edge_encoding: How ``edge_attr`` is to be read.
        parameter_budget: Largest number of parameters the benchmark allows, if it sets one.
        class_names: What the classes or labels are called, where known.
        source: Where the data comes from: address, or the generator and its seed.
        licence: Terms under which the source publishes it, as far as stated.
        citation: Title, authors and year of the work to cite.
        notes: Departures from the published form, one sentence each.
        feature_names: What the columns of ``x`` are called, where known.
        node_names: What the nodes of a single graph are called in its source, where known; the
            names under which predictions are written.
        edge_feature_names: What the columns of ``edge_attr`` are called, where known.
        form: How tables became features, where the source is tables.
        warnings: What a user should look at before trusting the data, one sentence each.
    """

    name: str
    graphs: Sequence[Data]
    folds: Sequence[Fold]
    level: Level
    kind: Kind
    metric: Metric
    num_outputs: int
    node_encoding: FeatureEncoding
    edge_encoding: FeatureEncoding = FeatureEncoding("none", 0)
    parameter_budget: int | None = None
    class_names: tuple[str, ...] = ()
    source: str = ""
    licence: str = ""
    citation: str = ""
    notes: tuple[str, ...] = field(default=())
    feature_names: tuple[str, ...] = ()
    node_names: Sequence[str] = ()
    edge_feature_names: tuple[str, ...] = ()
    form: TableForm | None = None
    warnings: tuple[str, ...] = ()
