import pytest
import torch

from torch_grama.nn.graph_input import check_edge_attr, check_positions, count_nodes


@pytest.mark.parametrize(
    ("size", "sequence_first", "expected"),
    [((7, 5), False, 7), ((7, 5), True, 7), ((7, 4, 5), False, 7), ((4, 7, 5), True, 7)],
)
@pytest.mark.parametrize("in_channels", [5, -1])
def test_number_of_nodes(size, sequence_first, expected, in_channels):
    assert count_nodes(torch.zeros(size), in_channels, 4, sequence_first) == expected


@pytest.mark.parametrize(
    ("size", "sequence_first", "message"),
    [
        ((5,), False, r"\[num_nodes, channels\] or \[num_nodes, L, channels\] \(got \[5\]\)"),
        ((5,), True, r"or \[L, num_nodes, channels\]"),
        ((1, 7, 4, 5), False, r"\(got \[1, 7, 4, 5\]\)"),
        ((7, 6), False, r"width in_channels=5 \(got 6\)"),
        ((7, 4, 6), False, r"width in_channels=5 \(got 6\)"),
        (
            (7, 3, 5),
            False,
            r"length seq_len=4 in the layout \[num_nodes, L, channels\].*\[7, 3, 5\]",
        ),
        ((7, 4, 5), True, r"length seq_len=4 in the layout \[L, num_nodes, channels\]"),
    ],
)
def test_shapes_that_do_not_fit(size, sequence_first, message):
    with pytest.raises(ValueError, match=message):
        count_nodes(torch.zeros(size), 5, 4, sequence_first)


def test_integer_features():
    with pytest.raises(TypeError, match=r"floating point.*got torch.int64.*x.float.*node_encoder"):
        count_nodes(torch.zeros(7, 5, dtype=torch.long), 5, 4, False)


class TestEdgeAttributes:
    good = torch.zeros(6, 3)

    def test_good_ones_pass(self):
        check_edge_attr(self.good, 3, True)

    def test_none_passes_where_none_are_expected(self):
        check_edge_attr(None, None, True)

    def test_a_users_module_may_read_what_it_likes(self):
        check_edge_attr(self.good.long(), None, False)
        check_edge_attr(self.good.long(), 3, False)

    @pytest.mark.parametrize(
        ("edge_attr", "edge_dim", "message"),
        [
            (good, None, "built without edge_dim"),
            (None, 3, r"Expected 'edge_attr' \(the model has edge_dim=3\)"),
            (good, 2, r"\[num_edges, edge_dim=2\] \(got \[6, 3\]\)"),
            (good[:, 0], 1, r"\[num_edges, edge_dim=1\] \(got \[6\]\)"),
        ],
    )
    def test_others_do_not(self, edge_attr, edge_dim, message):
        with pytest.raises(ValueError, match=message):
            check_edge_attr(edge_attr, edge_dim, True)

    def test_integers_need_an_encoder(self):
        with pytest.raises(TypeError, match=r"floating point edge.*torch.int64.*edge_encoder"):
            check_edge_attr(self.good.long(), 3, True)


def test_positions_that_fit():
    check_positions(torch.zeros(7, 2), 7, 2)
    check_positions(None, 7, 0)


@pytest.mark.parametrize(
    ("pe", "pe_channels", "message"),
    [
        (torch.zeros(7, 2), 0, r"no 'pe' \(got one.*pe_channels"),
        (None, 2, r"'pe' of shape \[7, 2\] \(got None\)"),
        (torch.zeros(7, 3), 2, r"'pe' of shape \[7, 2\] \(got \[7, 3\]\)"),
        (torch.zeros(6, 2), 2, r"'pe' of shape \[7, 2\] \(got \[6, 2\]\)"),
    ],
)
def test_positions_that_do_not_fit(pe, pe_channels, message):
    with pytest.raises(ValueError, match=message):
        check_positions(pe, 7, pe_channels)
