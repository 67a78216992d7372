import pytest

from torch_grama.nn.arguments import check_input_sizes, check_orders, check_positive


def test_good_sizes_pass():
    check_input_sizes(-1, 0, 0.0)
    check_positive(hidden_channels=1, edge_dim=None)


@pytest.mark.parametrize("size", [0, -3])
def test_sizes_below_one(size):
    with pytest.raises(ValueError, match=rf"'num_blocks' to be at least 1 \(got {size}\)"):
        check_positive(seq_len=1, num_blocks=size)


@pytest.mark.parametrize(
    ("in_channels", "pe_channels", "dropout", "message"),
    [
        (0, 0, 0.0, r"'in_channels' to be positive or -1 \(got 0\)"),
        (-2, 0, 0.0, r"'in_channels' to be positive or -1 \(got -2\)"),
        (1, -1, 0.0, r"'pe_channels' not to be negative \(got -1\)"),
        (1, 0, 1.0, r"'dropout' to be at least 0 and below 1 \(got 1.0\)"),
        (1, 0, -0.1, r"'dropout' to be at least 0 and below 1 \(got -0.1\)"),
        (1, 0, float("nan"), r"'dropout'.*\(got nan\)"),
    ],
)
def test_input_sizes_out_of_range(in_channels, pe_channels, dropout, message):
    with pytest.raises(ValueError, match=message):
        check_input_sizes(in_channels, pe_channels, dropout)


@pytest.mark.parametrize(
    ("seq_len", "num_blocks", "num_recurrences", "ar_order", "ma_order"),
    [
        (4, 2, 4, None, None),
        (4, 2, 4, 1, 4),
        (4, 2, 2, 2, 1),
        (4, 2, 2, None, None),
        (4, 1, 2, 4, 4),
        (4, 3, 9, 4, 4),
    ],
)
def test_orders_that_fit(seq_len, num_blocks, num_recurrences, ar_order, ma_order):
    check_orders(seq_len, num_blocks, num_recurrences, ar_order, ma_order)


@pytest.mark.parametrize("name", ["ar_order", "ma_order"])
class TestOrdersThatDoNotFit:
    @pytest.mark.parametrize("order", [0, -1, 5])
    def test_out_of_range(self, name, order):
        orders = {"ar_order": None, "ma_order": None, name: order}
        message = rf"'{name}' to be between 1 and 'seq_len' \(got {name}={order}, seq_len=4\)"

        with pytest.raises(ValueError, match=message):
            check_orders(4, 2, 4, **orders)

    def test_next_block_receives_too_short_a_sequence(self, name):
        orders = {"ar_order": None, "ma_order": None, name: 3}
        message = rf"second block receives \(got {name}=3, num_recurrences=2\)"

        with pytest.raises(ValueError, match=message):
            check_orders(4, 2, 2, **orders)
