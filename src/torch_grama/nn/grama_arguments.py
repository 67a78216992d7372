"""Sizes and orders that make a model, checked when it is built."""

from __future__ import annotations


def check_positive(**sizes: int | None) -> None:
    r"""Checks sizes by name; :obj:`None` stands for one that has a default.

    Raises:
        ValueError: If one is below 1.
    """
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"Expected '{name}' to be at least 1 (got {size})")


def check_input_sizes(in_channels: int, pe_channels: int, dropout: float) -> None:
    r"""Checks the sizes that may also be something else than positive.

    Args:
        in_channels (int): Positive, or -1 for a lazy model.
        pe_channels (int): Zero or more.
        dropout (float): At least 0 and below 1.

    Raises:
        ValueError: If one is out of range.
    """
    if in_channels < 1 and in_channels != -1:
        raise ValueError(f"Expected 'in_channels' to be positive or -1 (got {in_channels})")
    if pe_channels < 0:
        raise ValueError(f"Expected 'pe_channels' not to be negative (got {pe_channels})")
    if not 0 <= dropout < 1:
        raise ValueError(f"Expected 'dropout' to be at least 0 and below 1 (got {dropout})")


def check_orders(
    seq_len: int, num_blocks: int, num_recurrences: int, ar_order: int | None, ma_order: int | None
) -> None:
    r"""Checks that the orders fit the sequence of each block.

    Raises:
        ValueError: If an order is out of range, or longer than the sequence that one block hands to
            the next.
    """
    for name, order in (("ar_order", ar_order), ("ma_order", ma_order)):
        if order is None:
            continue
        if not 1 <= order <= seq_len:
            raise ValueError(
                f"Expected '{name}' to be between 1 and 'seq_len' (got {name}={order}, "
                f"seq_len={seq_len})"
            )
        if num_blocks > 1 and order > num_recurrences:
            raise ValueError(
                f"Expected '{name}' to fit the sequence of num_recurrences elements that the "
                f"second block receives (got {name}={order}, num_recurrences={num_recurrences})"
            )
