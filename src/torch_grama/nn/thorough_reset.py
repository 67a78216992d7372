"""Draws anew what modules of the libraries leave out of their own reset."""

from __future__ import annotations

from torch.nn import Module, MultiheadAttention
from torch.nn.init import zeros_
from torch_geometric.nn import GINEConv
from torch_geometric.nn.inits import reset


def reset_what_is_left_out(module: Module) -> None:
    r"""Resets what the parts of a module leave out of their own reset: the last map of PyTorch's
    multi-head attention, and the aggregation of PyG's GINE convolution.

    Args:
        module (Module): Is looked through for such parts, itself included.
    """
    for part in module.modules():
        if isinstance(part, MultiheadAttention):
            part.out_proj.reset_parameters()
            if part.out_proj.bias is not None:
                zeros_(part.out_proj.bias)
        elif isinstance(part, GINEConv):
            reset(part.aggr_module)
