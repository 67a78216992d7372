"""Models that learn something for each node of one graph, and serve that graph alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from torch import Tensor
from torch.nn import Module


def takes_num_nodes(build: Callable[..., Module]) -> bool:
    r"""Whether a model can be tied to one graph by the option ``num_nodes``.

    Such a model is transductive: it learns something for each node, and serves that graph alone.
    Whoever builds it for a task on one graph passes the number of its nodes.
    """
    return "num_nodes" in inspect.signature(build).parameters


def check_num_nodes(num_nodes: int, x: Tensor) -> None:
    r"""Checks that a transductive model sees the graph it was built for.

    Raises:
        ValueError: If the number of nodes differs.
    """
    if x.size(0) != num_nodes:
        raise ValueError(
            f"Expected the graph of num_nodes={num_nodes} nodes that the model was built for "
            f"(got {x.size(0)} nodes); it learns a vector for each node and serves one graph alone"
        )
