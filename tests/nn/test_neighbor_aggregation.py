import pytest
import torch

from torch_grama.nn.neighbor_convs import build_aggregation

MESSAGES = torch.tensor([[1.0, -2.0], [3.0, 5.0], [-4.0, 0.5]], dtype=torch.float64)
TARGET = torch.tensor([1, 1, 2])


def test_sum():
    out = build_aggregation("sum", 2)(MESSAGES, TARGET, dim_size=3)

    assert out.tolist() == [[0.0, 0.0], [4.0, 3.0], [-4.0, 0.5]]


def test_multi_maps_four_summaries():
    aggregation = build_aggregation("multi", 2).double()
    nothing = torch.zeros(8, dtype=torch.float64)
    pair = torch.tensor([4.0, 3.0, 2.0, 1.5, 3.0, 5.0, 1.0, -2.0], dtype=torch.float64)
    single = MESSAGES[2].repeat(4)

    out = aggregation(MESSAGES, TARGET, dim_size=3)

    expected = aggregation.lin(torch.stack([nothing, pair, single]))
    torch.testing.assert_close(out, expected)


def test_multi_depends_on_the_largest_neighbour_alone_where_sum_and_mean_are_equal():
    aggregation = build_aggregation("multi", 1).double()
    both = torch.tensor([[1.0], [1.0], [0.0], [2.0]], dtype=torch.float64)

    even, uneven = aggregation(both, torch.tensor([0, 0, 1, 1]), dim_size=2)

    assert not torch.allclose(even, uneven)


def test_unknown_word():
    with pytest.raises(ValueError, match="'aggregation' to be one of 'multi', 'sum'"):
        build_aggregation("median", 2)
