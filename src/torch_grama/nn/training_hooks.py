"""What a model may ask of a training loop beyond being called and differentiated.

A loop honours these without knowing any model: it asks ``isinstance(model, AddsLoss)`` and so on. A
module that wraps a model and changes its inputs, as :class:`~torch_grama.nn.InputStage` does,
offers the same methods and passes the changed inputs on.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor
from torch.nn import Module


@runtime_checkable
class AddsLoss(Protocol):
    r"""A model with a loss term of its own, to be added to the loss of the task.

    The term is computed from the inputs, not from anything that :meth:`forward` left behind, so
    :meth:`forward` stays pure. It costs up to one more forward pass and is meant for training
    steps alone.
    """

    def auxiliary_loss(
        self,
        y: Tensor,
        mask: Tensor,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor | None:
        r"""Returns the weighted term, a scalar; :obj:`None` for none.

        Args:
            y (Tensor): Node classes :math:`(N)`. Only the entries under the mask are read.
            mask (Tensor): The training nodes :math:`(N)`, boolean.
            x (Tensor): Node features, and so on as in :meth:`forward`.
            edge_index (Tensor): Edges.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            edge_attr (Tensor, optional): Edge attributes. (default: :obj:`None`)
            batch (Tensor, optional): The graph of each node. (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. (default: :obj:`None`)
        """
        ...


@runtime_checkable
class FitsLabels(Protocol):
    r"""A model that starts from an estimate made of the training labels.

    Called once, after the model has been built and moved to its device and before the optimiser
    takes its first step; not again when a run is resumed, since what it sets is in the state dict.
    """

    def fit_labels(
        self,
        y: Tensor,
        mask: Tensor,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> None:
        r"""Sets parameters from the labels; arguments as in :meth:`AddsLoss.auxiliary_loss`."""
        ...


def adds_loss(model: Module) -> bool:
    r"""Whether a model has a loss term of its own.

    A wrapper has the method in any case; it says by the attribute ``adds_loss`` whether there is
    something behind it.

    Args:
        model (Module): Any model.
    """
    return isinstance(model, AddsLoss) and getattr(model, "adds_loss", True) is True


def fits_labels(model: Module) -> bool:
    r"""Whether a model starts from an estimate made of labels; a wrapper says so by the attribute
    ``fits_labels``.

    Args:
        model (Module): Any model.
    """
    return isinstance(model, FitsLabels) and getattr(model, "fits_labels", True) is True
