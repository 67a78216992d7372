"""Tables as they come: gaps, dates, words, decimal commas, names in capitals."""

import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch

from torch_grama.datasets import DatasetError, load_path
from torch_grama.datasets.errors import DatasetFaults
from torch_grama.datasets.own_data import describe
from torch_grama.datasets.own_data.table_files import read_date, read_number, read_table

SPLIT = ["train"] * 6 + ["val"] * 3 + ["test"] * 3


def write(folder, columns, edges="", mark=","):
    """A folder of twelve nodes; a split is stated, so that means are known."""
    folder.mkdir(exist_ok=True)
    table = {"id": [f"n{n}" for n in range(12)], **columns}
    table |= {"label": ["a", "b"] * 6, "split": SPLIT} if "label" not in table else {}
    rows = [
        mark.join(table),
        *(mark.join(map(str, row)) for row in zip(*table.values(), strict=True)),
    ]
    (folder / "nodes.csv").write_text("\n".join(rows))
    (folder / "edges.csv").write_text(edges or "source,target\nn0,n1\nn1,n2\n")
    return folder


def column(data, name):
    return data.graphs[0].x[:, data.feature_names.index(name)].tolist()


def said(data, text):
    return any(text in note for note in data.notes)


@pytest.mark.parametrize("gap", ["", "NA", "n/a", "NaN", "null", "?", "-"])
def test_a_missing_number_gets_the_mean_of_the_training_nodes_and_a_flag(tmp_path, gap):
    ages = [1, 2, 3, gap, 5, 4, gap, 100, 100, 100, 100, gap]
    data = load_path(write(tmp_path, {"age": ages}))
    assert data.feature_names == ("age", "age=(missing)")
    assert column(data, "age") == [1, 2, 3, 3, 5, 4, 3, 100, 100, 100, 100, 3]
    assert column(data, "age=(missing)") == [float(age == gap) for age in ages]
    assert data.form is not None
    assert data.form.nodes[0].fill == 3.0
    assert said(data, "Missing numbers got the mean of the training part")
    assert said(data, "'age' (3 of 12); `-o missing=zero` takes 0")


def test_what_is_done_about_gaps_is_an_option(tmp_path, refuses):
    folder = write(tmp_path / "own", {"age": ["", *range(10), -999]})
    assert column(load_path(folder, missing="zero"), "age")[0] == 0
    refuses(folder, r"line 2: a cell in the column 'age' is missing: .*`-o ignore=\[age\]`",
            missing="refuse")  # fmt: skip
    marked = load_path(folder, missing_words=["-999"])
    assert column(marked, "age=(missing)") == [1, *[0] * 10, 1]
    assert column(marked, "age")[-1] == column(marked, "age")[0] == 2.0


def test_a_missing_word_is_a_category_of_its_own(tmp_path):
    data = load_path(write(tmp_path, {"job": ["x", "y", "", "NA"] * 3}))
    assert data.feature_names == ("job=x", "job=y", "job=(missing)")
    assert data.graphs[0].x[:4].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]


@pytest.mark.parametrize("last", ["2024-01-31", "2024-01-31T00:00:00Z", "2024/1/31", "31.01.2024",
                                  "31/01/2024", "01/31/2024", "31 Jan 2024", "Jan 31, 2024",
                                  "31-Jan-2024"])  # fmt: skip
def test_dates_are_days(tmp_path, last):
    first = last.replace("31", "30")
    data = load_path(write(tmp_path, {"joined": [first, last, ""] * 4}, mark=";"))
    days = (np.datetime64("2024-01-31") - np.datetime64("1970-01-01")).astype(int)
    assert column(data, "joined")[:2] == [days - 1, days]
    assert column(data, "joined=(missing)")[:3] == [0, 0, 1]
    assert said(data, "Dates became days since 1970-01-01: 'joined' (such as '")
    assert said(data, "`-o words=[joined]` takes them as words, `-o ignore=[joined]` leaves")


def test_the_order_of_day_and_month_is_told_and_can_be_turned(tmp_path):
    folder = write(tmp_path, {"joined": ["01/02/2024", "03/04/2024"] * 6})
    data = load_path(folder)
    assert said(data, "read as day/month: `-o day_first=false` turns them")
    assert column(data, "joined")[0] == read_date("2024-02-01")
    assert column(load_path(folder, day_first=False), "joined")[0] == read_date("2024-01-02")


def test_a_column_that_is_nearly_dates(tmp_path, refuses):
    folder = write(tmp_path / "own", {"joined": ["2024-01-31"] * 5 + ["2024-02-01"] * 6 + ["soon"]})
    refuses(folder, "line 13: the cell 'soon' in the column 'joined' is no date while others are")


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["3,14", "2,5"], [3.14, 2.5]),
        (["1.234,50", "7,25"], [1234.5, 7.25]),
        (["1,234.5", "1,000"], [1234.5, 1000]),
        (["1 234,5", "2"], [1234.5, 2]),
        (["1'234'567", "2"], [1234567, 2]),
        (["-0,5", "1e3"], [-0.5, 1000]),
    ],
)
def test_decimal_commas_and_marks_of_thousands(tmp_path, cells, values):
    data = load_path(write(tmp_path, {"price": cells * 6}, mark=";"))
    assert column(data, "price")[:2] == pytest.approx(values)
    assert said(data, "decimal comma or with marks of thousands were recognised: 'price' ('")


def test_a_comma_that_may_be_either_is_named(tmp_path, refuses):
    folder = write(tmp_path / "own", {"price": ["1,234", "2,345"] * 6}, mark=";")
    refuses(folder, r"line 2: the comma in '1,234', .* `-o decimal=,` or `-o decimal=\.`")
    assert column(load_path(folder, decimal=","), "price")[0] == pytest.approx(1.234)
    assert column(load_path(folder, decimal="."), "price")[0] == 1234
    # another column of the table says what its commas are
    both = {"price": ["1,234", "2,345"] * 6, "tall": ["1,5", "2,25"] * 6, "sum": ["1.234"] * 12}
    data = load_path(write(tmp_path / "own", both, mark=";"))
    assert column(data, "price")[0] == pytest.approx(1.234)
    assert column(data, "sum")[0] == 1234


def test_labels_with_a_decimal_comma(tmp_path):
    cells = [f"{n},5" for n in range(11)]
    data = load_path(write(tmp_path, {"x": list(range(12)), "label": [*cells, "NA"]}, mark=";"))
    assert data.kind == "regression"
    assert data.graphs[0].y[:3].flatten().tolist() == [0.5, 1.5, 2.5]
    assert bool(data.graphs[0].y[11].isnan())


def test_classes_with_a_decimal_comma_keep_their_names(tmp_path):
    cells = ["0,1", "0,2"] * 6
    folder = write(tmp_path, {"x": list(range(12)), "label": cells}, mark=";")
    assert load_path(folder, kind="classification").class_names == ("0.1", "0.2")


def test_labels_and_weights_have_the_decimal_mark_of_their_table(tmp_path, refuses):
    sums = ["950", "1,250", "12,500"] * 4
    folder = write(tmp_path / "own", {"x": list(range(12)), "label": sums}, mark=";")
    refuses(folder, r"line 3: the comma in '1,250', in the column 'label', may be a decimal comma")
    found = {mark: load_path(folder, decimal=mark).graphs[0].y[:3, 0] for mark in ".,"}
    assert found["."].tolist() == [950, 1250, 12500]
    assert found[","].tolist() == [950, 1.25, 12.5]
    points = ["950", "1.250", "12.500"] * 4
    edges = "source;target;tall;weight\nn0;n1;0,5;1.250\nn1;n2;1,5;2.500\n"
    write(folder, {"x": ["0,5", "1"] * 6, "label": points}, edges, mark=";")
    data = load_path(folder, seed=1)
    assert data.graphs[0].y[:3, 0].tolist() == [950, 1250, 12500]
    assert data.graphs[0].edge_weight[:2].tolist() == [1250, 2500]
    # alone, they are read as those of training were
    (folder / "edges.csv").write_text("source;target;tall;weight\nn0;n1;1;1.250\n")
    again = load_path(folder, form=data.form, targets=False)
    assert again.graphs[0].edge_weight.tolist() == [1250, 1250]


def test_columns_are_found_by_their_meaning(tmp_path):
    plain = load_path(write(tmp_path / "plain", {"x": list(range(12))}))
    folder = write(tmp_path / "own", {"x": list(range(12))}, "SRC,Dst,Weight\nn0,n1,2\nn1,n2,3\n")
    text = (folder / "nodes.csv").read_text()
    (folder / "nodes.csv").write_text(text.replace("id,x,label,split", "ID,x,Label,SPLIT"))
    data = load_path(folder)
    assert torch.equal(data.graphs[0].y, plain.graphs[0].y)
    assert torch.equal(data.graphs[0].edge_index, plain.graphs[0].edge_index)
    assert torch.equal(data.folds[0].train, plain.folds[0].train)
    assert data.graphs[0].edge_weight.tolist() == [2, 3, 2, 3]
    assert data.feature_names == ("x",)
    assert said(data, "'ID' is the id, 'Label' is the label")
    assert said(data, "'SRC' is the source, 'Dst' is the target")


def test_columns_of_any_name_by_options(tmp_path):
    folder = write(tmp_path, {"x": list(range(12))}, "a,b\nn0,n1\n")
    text = (folder / "nodes.csv").read_text()
    (folder / "nodes.csv").write_text(text.replace("id,", "user,").replace("label", "bought"))
    data = load_path(folder, id="User", label="bought", source="a", target="b")
    assert data.node_names[:2] == ("n0", "n1")
    assert data.graphs[0].edge_index.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(DatasetFaults) as caught:
        load_path(folder)
    assert len(caught.value.faults) == 4  # id, label, source and target


def test_words_among_numbers(tmp_path, refuses):
    folder = write(tmp_path / "own", {"age": [*range(10), "4o", "x"]})
    refuses(folder, r"line 12: the cell '4o' .* while others are \(and 1 more in this column\)")
    data = load_path(folder, numbers="Age")
    assert column(data, "age=(missing)")[9:] == [0, 1, 1]
    assert said(data, "Cells that are no numbers were taken as missing: 'age' (2, such as '4o')")
    assert "age=4o" in load_path(folder, words="age").feature_names


def test_numbers_that_are_words(tmp_path):
    data = load_path(write(tmp_path, {"zip": ["01", "1", "2"] * 4}), words=["zip"])
    assert data.feature_names == ("zip=01", "zip=1", "zip=2")


def test_names_and_empty_columns_are_left_out_with_a_note(tmp_path):
    names = [f"Person {n}" for n in range(12)]
    folder = write(tmp_path, {"name": names, "none": [""] * 12, "x": list(range(12))})
    data = load_path(folder)
    assert data.feature_names == ("x",)
    assert said(data, "left out: 'name' (12 words); `-o words=[name]` keeps them")
    assert said(data, "Columns without any value were left out: 'none'")
    assert len(load_path(folder, words="name").feature_names) == 13


def test_edges_have_gaps_and_names_too(tmp_path):
    # n0 to n5 are training nodes: the edge of n6 counts for no mean
    edges = "source,target,since,kind,weight\nn0,n1,1,x,2\nn1,n2,,y,\nn2,n3,3,x,4\nn3,n6,50,x,100\n"
    data = load_path(write(tmp_path, {"x": list(range(12))}, edges), directed=True)
    assert data.edge_feature_names == ("since", "since=(missing)", "kind=x", "kind=y")
    assert data.graphs[0].edge_attr[:2].tolist() == [[1, 0, 1, 0], [2, 1, 0, 1]]
    assert data.graphs[0].edge_weight.tolist() == [2, 3, 4, 100]
    shown = " ".join(describe(data).split())
    assert (
        "edge features 4 columns (float): since, since=(missing), kind=x, kind=y; and a weight"
        in shown
    )


def test_gaps_of_weights_are_told_or_refused(tmp_path, refuses):
    edges = "source,target,weight\nn0,n1,2\nn1,n2,\n"
    folder = write(tmp_path / "own", {"x": list(range(12))}, edges)
    assert said(load_path(folder), "got the mean of the training part: 'weight' (1 of 2)")
    refuses(folder, "line 3: a cell in the column 'weight' is missing", missing="refuse")


def test_a_column_without_values_in_the_training_part_is_a_warning(tmp_path):
    data = load_path(write(tmp_path, {"x": [""] * 6 + [7] * 6, "z": list(range(12))}))
    assert column(data, "x") == [0] * 6 + [7] * 6  # no value of the other parts
    [warning] = data.warnings
    assert "no value in the training part" in warning
    assert "'x'; `-o ignore=[x]` leaves them out." in warning
    assert warning in " ".join(describe(data).split())


def test_all_faults_are_told_at_once(tmp_path):
    folder = write(
        tmp_path,
        {"age": [*range(11), "old"], "size": ["1e99", *range(11)]},
        "source,target,len\nn0,n1,1\nn1,n99,2\nn98,n2,far\n",
    )
    with pytest.raises(
        DatasetFaults, match=r"'old'.* \(4 more faults: `grama data check .*all\)\."
    ) as caught:
        load_path(folder)
    faults = [str(fault) for fault in caught.value.faults]
    for number, part in enumerate(("'old'", "'1e99'", "'n98'", "'n99'", "'far'")):
        assert part in faults[number]
    remedies = [fault.remedy for fault in caught.value.faults]
    assert remedies == ["numbers=[age]", "ignore=[size]", "", "", "numbers=[len]"]


def test_a_table_is_read_as_the_one_trained_on(tmp_path):
    trained = load_path(
        write(tmp_path / "old", {"age": ["", *range(11)], "job": ["x", "y"] * 6, "t": [1.5] * 12})
    )
    columns = {"t": ["", *[1.5] * 11], "job": ["x", "z", ""] * 4, "age": ["", *[7] * 11]}
    folder = write(tmp_path / "new", columns)
    data = load_path(folder, form=trained.form, targets=False)
    assert data.feature_names == trained.feature_names == (
        "age", "age=(missing)", "job=x", "job=y", "t"
    )  # fmt: skip
    # the means of training, words that it did not know as zeros
    assert data.graphs[0].x[:3].tolist() == [
        [2, 1, 1, 0, 1.5],
        [7, 0, 0, 0, 1.5],
        [7, 0, 0, 0, 1.5],
    ]
    assert data.form == trained.form
    unseen, gaps = data.warnings
    assert "8 cells hold words that training never saw: 'job' ('z' 4, '(missing)' 4)" in unseen
    assert "missing in columns that had no gaps in training" in gaps
    assert "'t' (1)" in gaps
    assert sorted(path.name for path in folder.iterdir()) == ["edges.csv", "nodes.csv"]
    with pytest.raises(DatasetError, match=r"never saw: 'job' .* with `-o unseen=zeros`"):
        load_path(folder, form=trained.form, targets=False, unseen="refuse")
    (folder / "nodes.csv").write_text("id,age,job\nn0,1,x\nn1,2,x\nn2,3,x\n")
    with pytest.raises(DatasetError, match=r"no column 't', .*: the model was trained on it"):
        load_path(folder, form=trained.form, targets=False)


def test_text_of_a_cell_cannot_steer_the_terminal(tmp_path, refuses):
    folder = write(tmp_path / "own", {"age": [*range(11), "\x1b[2J" + "x" * 100_000]})
    message = refuses(folder, r"the cell '\\x1b\[2Jxxx")
    assert message.isprintable()
    assert len(message) < 700
    (folder / "nodes.csv").write_text(
        (folder / "nodes.csv").read_text().replace("age", "\x1b[2Jage")
    )
    assert "\x1b" not in describe(load_path(folder, ignore="\x1b[2Jage"))


def test_numbers_and_dates_that_are_none():
    for text in ("", "1_2", "4o", "1,2,3", "12,34", "1.2.3", "0x10"):
        assert read_number(text) is None
    for text in ("1.5", "1,2,3", "1.23,4"):
        assert read_number(text, ",") is None
    for text in ("", "2024", "2024-13-01", "2024-02-30", "1.2.24", "2024-01-01 25:00", "May", "x"):
        assert read_date(text) is None
    assert read_date("2024-03-01 6:00") == read_date("2024-03-01T07:00:00+01:00")


def test_a_wide_table_is_read_in_linear_time(tmp_path):
    def seconds(width):
        folder = tmp_path / str(width)
        folder.mkdir()
        names = ",".join(f"g{n}" for n in range(width))
        values = ",".join(["0.1234"] * width)
        rows = [f"n{n},{n % 2},{values}" for n in range(12)]
        (folder / "nodes.csv").write_text("\n".join([f"id,label,{names}", *rows]))
        (folder / "edges.csv").write_text("source,target\nn0,n1\n")
        start = time.process_time()
        data = load_path(folder)
        assert data.graphs[0].x.size(1) == width
        return time.process_time() - start

    seconds(10)
    assert seconds(20_000) < 15 * seconds(4_000)  # quadratic in the header: 25 times


@pytest.mark.parametrize("order", ["id,label,a,b,c", "a,b,c,id,label", "id,a,b,c,label"])
def test_the_fast_way_reads_what_the_slow_way_reads(tmp_path, monkeypatch, order):
    """With pyarrow and without it, wherever the numbers stand and whatever their words are."""
    generator = np.random.default_rng(0)
    words = ["1e-7", "+3", "-0", ".5", "1e39", "0.1234567891234567891", "1E5", "nan", " 2 ", "(1)"]
    odd = ["", "NA", "nan(1)", "1_2", "word", "inf"]

    def read(text):
        (tmp_path / "t.csv").write_text(text)
        try:
            table = read_table(tmp_path / "t.csv", lambda names: {"id", "label"} & {*names})
        except DatasetError as error:
            return str(error)
        return {name: np.asarray(cells).tolist() for name, cells in table.columns.items()}

    for seed in range(60):
        likely = [*words[: 3 + seed % 8], *odd[: max(0, seed - 30) % 7]]
        rows = [",".join(generator.choice(likely, 5)) for _ in range(1 + seed % 5)]
        rows += [rows[0] + ",7", rows[0][:-4]] * (seed % 10 == 9)  # as many cells in all
        text = "\n".join([order, *rows])
        fast = read(text)
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "pyarrow", None)
            numpy_only = read(text)
        in_quotes = ['"' + row.replace(",", '","') + '"' for row in rows]
        quoted = read("\n".join([order, *in_quotes]))
        assert repr(fast) == repr(numpy_only) == repr(quoted)


@pytest.mark.long
def test_a_table_of_genes(tmp_path):
    """60,000 columns and 1,000 rows in 10 seconds, in four times the file and 1 GiB."""
    generator = np.random.default_rng(0)
    with (tmp_path / "nodes.csv").open("w") as file:
        file.write("id,label," + ",".join(f"g{n}" for n in range(60_000)) + "\n")
        for row in range(1000):
            values = np.char.mod("%.4f", generator.standard_normal(60_000)).tolist()
            file.write(f"n{row},{row % 2}," + ",".join(values) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
    # in a process of its own, whose memory no other test has filled
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        shape, seconds, memory = pool.submit(_load_and_measure, tmp_path).result()
    assert shape == (1000, 60_000)
    assert seconds < 10
    assert memory < 4 * (tmp_path / "nodes.csv").stat().st_size + 2**30


def _load_and_measure(folder):
    start = time.process_time()
    shape = tuple(load_path(folder).graphs[0].x.shape)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return shape, time.process_time() - start, memory
