"""The one form in which every data set reaches a training loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

Level = Literal["node", "graph"]
EncodingKind = Literal["none", "float", "categorical", "ogb_atom", "ogb_bond"]
Kind = Literal["classification", "multilabel", "regression", "forecast"]


def is_known(y: Tensor) -> Tensor:
    r"""Which targets are known: where one is not, a class is -1, a flag or a quantity NaN."""
    return ~y.isnan() if y.is_floating_point() else y >= 0


@dataclass(frozen=True)
class Fold:
    r"""One train / validation / test split of a data set."""

    #: boolean node mask ``[N]`` (node tasks on one graph) or int64 indices into the sequence of
    #: graphs (graph tasks, node tasks on many graphs, forecasts)
    train: Tensor
    val: Tensor  #: likewise, for model selection
    test: Tensor  #: likewise, read once, after selection

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""Train, validation and test."""
        return self.train, self.val, self.test

    @property
    def sizes(self) -> tuple[int, ...]:
        r"""How many nodes or graphs each part has."""
        # a mask is known by its type's name: this file does without torch, so that help is fast
        masked = str(self.train.dtype) == "torch.bool"
        return tuple(int(part.sum()) if masked else part.numel() for part in self.parts)

    def __repr__(self) -> str:
        return "Fold(train={}, val={}, test={})".format(*self.sizes)


@dataclass(frozen=True)
class Metric:
    r"""The number a data set is judged by."""

    #: one of ``accuracy``, ``roc_auc``, ``average_precision``, ``mae``, ``mse``, ``log10_mse``
    name: str
    higher_is_better: bool  #: the direction in which it improves


@dataclass(frozen=True)
class FeatureEncoding:
    r"""What must happen to a feature matrix before a linear layer may see it."""

    #: ``float`` (nothing), ``categorical`` (one embedding table a column), ``ogb_atom`` or
    #: ``ogb_bond`` (the same with the tables of the Open Graph Benchmark), ``none`` (there are no
    #: such features)
    kind: EncodingKind
    num_columns: int  #: width of the stored matrix; 0 where there is none
    sizes: tuple[int, ...] = ()  #: number of categories of each column; empty unless categorical


@dataclass(frozen=True)
class Column:
    r"""How a column of a user's table became features."""

    name: str  #: what it is called
    #: a ``number``, a ``date`` (in days since 1970-01-01), or ``words`` (one feature of 0 and 1 for
    #: each)
    kind: Literal["number", "date", "words"] = "number"
    #: what stands in the place of a missing number: the mean over the training part
    fill: float = 0.0
    flag: bool = False  #: whether one more feature is 1 where the number is missing
    values: tuple[str, ...] = ()  #: the words, in the order of their features
    decimal: str = "."  #: the decimal mark of the numbers
    day_first: bool = True  #: whether the day stands before the month where a date leaves it open


@dataclass(frozen=True)
class TableForm:
    r"""How the tables of a user became features; other tables can be read in the same way."""

    nodes: tuple[Column, ...] = ()  #: the columns behind ``x``
    edges: tuple[Column, ...] = ()  #: the columns behind ``edge_attr``
    weight: Column | None = None  #: the column behind ``edge_weight``


@dataclass(frozen=True)
class GraphTaskData:
    r"""A data set together with everything a training loop must know about it."""

    name: str  #: the word it was loaded by, or the path
    #: the graphs. Node tasks on one graph have exactly one. The target ``y`` of a graph is int64
    #: ``[N]`` or ``[1]`` for classes and float ``[N, K]`` or ``[1, K]`` for ``K`` labels or
    #: quantities. A boolean ``label_mask`` ``[N]``, where there is one, marks the nodes that loss
    #: and metric are taken over; otherwise it is all of them.
    graphs: Sequence[Data]
    #: the official splits, in the published order, or the one that was made
    folds: Sequence[Fold]
    level: Level  #: whether nodes or graphs carry the target ``y``
    #: the kind of target. A ``forecast`` has ``x`` of shape ``[N, lags, C]`` and one graph per time
    #: step.
    kind: Kind
    metric: Metric  #: the published metric and its direction
    num_outputs: int  #: number of classes, labels or regression targets
    node_encoding: FeatureEncoding  #: how ``x`` is to be read
    edge_encoding: FeatureEncoding = FeatureEncoding("none", 0)  #: how ``edge_attr`` is to be read
    #: largest number of parameters the benchmark allows, if it sets one
    parameter_budget: int | None = None
    class_names: tuple[str, ...] = ()  #: what the classes or labels are called, where known
    source: str = ""  #: where the data comes from: address, or the generator and its seed
    licence: str = ""  #: terms under which the source publishes it, as far as stated
    citation: str = ""  #: title, authors and year of the work to cite
    #: departures from the published form, one sentence each
    notes: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()  #: what the columns of ``x`` are called, where known
    #: what the nodes of a single graph are called in its source, where known; the names under which
    #: predictions are written
    node_names: Sequence[str] = ()
    #: what the columns of ``edge_attr`` are called, where known
    edge_feature_names: tuple[str, ...] = ()
    form: TableForm | None = None  #: how tables became features, where the source is tables
    #: what a user should look at before trusting the data, one sentence each
    warnings: tuple[str, ...] = ()
