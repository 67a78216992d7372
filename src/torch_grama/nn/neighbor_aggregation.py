"""How the messages of a node's neighbours become one vector."""

from __future__ import annotations

from collections.abc import Callable

from torch_geometric.nn.aggr import Aggregation, MultiAggregation, SumAggregation

from torch_grama.nn.choices import choose


def _sum(channels: int) -> Aggregation:
    del channels
    return SumAggregation()


def _multi(channels: int) -> Aggregation:
    # One summary cannot tell all neighbourhoods apart: sums count, means do not depend on the
    # degree, extremes carry distances.
    sizes = {"in_channels": channels, "out_channels": channels}
    return MultiAggregation(["sum", "mean", "max", "min"], mode="proj", mode_kwargs=sizes)


AGGREGATIONS: dict[str, Callable[[int], Aggregation]] = {"sum": _sum, "multi": _multi}


def build_aggregation(word: str, channels: int) -> Aggregation:
    r"""Makes an aggregation of messages.

    Args:
        word (str): ``"sum"``, or ``"multi"`` for a linear map of sum, mean, maximum and minimum
            side by side, as in `"Principal Neighbourhood Aggregation for Graph Nets"
            <https://arxiv.org/abs/2004.05718>`_ without its scaling by the degree.
        channels (int): Width of the messages and of the result.

    Raises:
        ValueError: If there is no such word.
    """
    return choose("aggregation", word, AGGREGATIONS)(channels)
