import pytest

from torch_grama.report.held_results import (
    SCALES,
    find_paper_number,
    list_paper_tables,
    read_paper_numbers,
)


def find(table, model, data, metric=None):
    key = (model, data)
    found = [n for n in read_paper_numbers(table) if (n.model, n.data) == key]
    (only,) = [n for n in found if metric in (None, n.metric)]
    return only


@pytest.mark.parametrize(
    ("table", "model", "data", "mean", "deviation"),
    [
        ("property", "gcn", "property-sssp", 0.9499, 9.18e-5),
        ("property", "grama-gps", "property-eccentricity", -1.3012, 0.1258),
        ("lrgb", "grama-gcn", "peptides-func", 70.93, 0.78),
        ("lrgb", "tuned-gcn", "peptides-struct", 0.2460, 0.0007),
        ("lrgb", "mixhop", "peptides-func", 65.92, 0.36),
        ("malnet", "gcn", "malnet-tiny", 81.00, None),
        ("hetero", "grama-gps", "minesweeper", 98.33, 0.55),
        ("hetero-extended", "co-gnn-sum", "roman-empire", 91.57, 0.32),
        ("hetero-extended", "resnet-adj", "tolokers", 78.78, 1.11),
        ("benchmarks", "grama-gps+rwse", "zinc", 0.061, 0.003),
        ("temporal", "grama-gcn", "pedalme", 1.089, 0.049),
        ("ablation-depth", "grama-gcn-l4s8", "roman-empire", 88.61, None),
        ("ablation-width", "grama-gatedgcn-width64", "roman-empire", 91.79, None),
        ("transfer", "swan", "transfer-crossed-ring-50", 1.36e-5, None),
    ],
)
def test_numbers_as_printed(table, model, data, mean, deviation):
    number = find(table, model, data)
    assert number.mean == mean
    assert number.deviation == deviation


def test_what_is_printed_instead_of_a_number():
    assert find("malnet", "gps", "malnet-tiny").note == "out of memory"
    assert find("runtime", "gps-depth32", "training", "training_ms").mean is None


def test_one_number_is_found_by_its_row_and_column():
    assert find_paper_number("temporal", "pedalme", "grama-gcn", "mse").mean == 1.089
    assert find_paper_number("temporal", "pedalme", "grama-gcn", "mae") is None
    assert find_paper_number("no such table", "pedalme", "grama-gcn", "mse") is None


def test_every_table_is_whole():
    sizes = {table: len(read_paper_numbers(table)) for table in list_paper_tables()}
    assert sizes["property"] == 16 * 3
    assert sizes["hetero"] == 18 * 5 - 2  # two models have no number for one set
    assert sizes["benchmarks"] == 8 * 5
    for table in sizes:
        numbers = read_paper_numbers(table)
        keys = [(n.table, n.model, n.data, n.metric) for n in numbers]
        assert len(set(keys)) == len(keys)
        for number in numbers:
            assert number.metric in SCALES
            assert number.mean is not None or number.note


def test_the_short_table_agrees_with_the_extended_one():
    extended = {(n.model, n.data): n.mean for n in read_paper_numbers("hetero-extended")}
    shared = [n for n in read_paper_numbers("hetero") if (n.model, n.data) in extended]
    assert len(shared) > 80
    for number in shared:
        assert extended[number.model, number.data] == number.mean


def test_unknown_table_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"one of ablation-depth, .*got 'heteros'"):
        read_paper_numbers("heteros")
