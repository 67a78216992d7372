"""Shapes and types of the features that enter a model."""

from __future__ import annotations

from torch import Tensor


def count_nodes(x: Tensor, in_channels: int, seq_len: int, sequence_first: bool) -> int:
    r"""Checks node features, static or a sequence of them, and returns the number of nodes.

    Args:
        x (Tensor): Node features.
        in_channels (int): Their width, or -1 for any.
        seq_len (int): The length of a sequence.
        sequence_first (bool): Whether a sequence comes as :math:`(L, N, C)` instead of
            :math:`(N, L, C)`.

    Raises:
        TypeError: If the features are not floating point.
        ValueError: If the shape does not fit.
    """
    layout = "[L, num_nodes, channels]" if sequence_first else "[num_nodes, L, channels]"
    if x.dim() not in (2, 3):
        raise ValueError(
            f"Expected 'x' of shape [num_nodes, channels] or {layout} (got {list(x.size())})"
        )
    if not x.is_floating_point():
        raise TypeError(
            f"Expected floating point node features (got {x.dtype}); convert them with "
            f"x.float(), or pass a node_encoder for categories"
        )
    if in_channels != -1 and x.size(-1) != in_channels:
        raise ValueError(
            f"Expected node features of width in_channels={in_channels} (got {x.size(-1)})"
        )
    if x.dim() == 2:
        return x.size(0)
    length, num_nodes = (x.size(0), x.size(1)) if sequence_first else (x.size(1), x.size(0))
    if length != seq_len:
        raise ValueError(
            f"Expected a sequence of length seq_len={seq_len} in the layout {layout} "
            f"(got {list(x.size())})"
        )
    return num_nodes


def check_edge_attr(edge_attr: Tensor | None, edge_dim: int | None, backbone_is_word: bool) -> None:
    r"""Checks edge attributes against what the model was built for.

    Args:
        edge_attr (Tensor, optional): Edge attributes.
        edge_dim (int, optional): Their width, if the model is to use them.
        backbone_is_word (bool): Whether the model encodes them for the backbone; a user's module
            gets them as they are, and may read whatever it likes.

    Raises:
        TypeError: If they are not floating point and would have to be.
        ValueError: If they are missing, not expected, or of another width.
    """
    if edge_dim is None:
        if edge_attr is not None and backbone_is_word:
            raise ValueError(
                "Expected no 'edge_attr' (got one, but the model was built without edge_dim, "
                "the width of the edge attributes)"
            )
        return
    if edge_attr is None:
        raise ValueError(f"Expected 'edge_attr' (the model has edge_dim={edge_dim})")
    if edge_attr.dim() != 2 or edge_attr.size(1) != edge_dim:
        raise ValueError(
            f"Expected 'edge_attr' of shape [num_edges, edge_dim={edge_dim}] "
            f"(got {list(edge_attr.size())})"
        )
    if backbone_is_word and not edge_attr.is_floating_point():
        raise TypeError(
            f"Expected floating point edge attributes (got {edge_attr.dtype}); convert them with "
            f"edge_attr.float(), or pass an edge_encoder for categories"
        )


def check_positions(pe: Tensor | None, num_nodes: int, pe_channels: int) -> None:
    r"""Checks positional encodings against what the model was built for.

    Args:
        pe (Tensor, optional): Positional encodings.
        num_nodes (int): Number of nodes.
        pe_channels (int): Their width; zero if the model takes none.

    Raises:
        ValueError: If they are missing, not expected, or of another shape.
    """
    if pe_channels == 0:
        if pe is not None:
            raise ValueError("Expected no 'pe' (got one; build the model with pe_channels)")
    elif pe is None or tuple(pe.size()) != (num_nodes, pe_channels):
        raise ValueError(
            f"Expected 'pe' of shape [{num_nodes}, {pe_channels}] "
            f"(got {None if pe is None else list(pe.size())})"
        )
