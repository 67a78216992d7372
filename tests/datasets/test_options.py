import pytest

from torch_grama.datasets import load
from torch_grama.datasets.options import read_option


@pytest.mark.parametrize(
    ("value", "kind", "read"),
    [
        ("carry", "word", "carry"),
        (2, "word", "2"),
        ("on", "words", ("on",)),
        (2, "words", ("2",)),
        ([0, 1], "words", ("0", "1")),
        (["a", "b"], "words", ("a", "b")),
        (False, "flag", False),
        ("False", "flag", False),
        ("false", "flag", False),
        ("off", "flag", False),
        ("yes", "flag", True),
        ("7", "whole", 7),
        (7, "whole", 7),
        ("0.5", "number", 0.5),
        (1, "number", 1.0),
        (["0.5", 0.25, "0.25"], "numbers", (0.5, 0.25, 0.25)),
    ],
)
def test_values(value, kind, read):
    found = read_option(value, kind, "'it'")
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (True, "word", r"Expected 'it' to be a word, in quotes if YAML reads it .* \(got True\)"),
        (True, "words", "to be a word or a list of words"),
        ({"a": 1}, "words", "to be a word or a list of words"),
        ("nope", "flag", r"to be true or false \(got 'nope'\)"),
        (2, "flag", "true or false"),
        (1.5, "whole", "a whole number"),
        (True, "whole", "a whole number"),
        ("x", "number", "a number"),
        ("nan", "number", "a number"),
        ("0.5", "numbers", "a list of numbers"),
    ],
)
def test_mistakes(value, kind, message):
    with pytest.raises(ValueError, match=message):
        read_option(value, kind, "'it'")


@pytest.fixture
def folder(tmp_path):
    rows = [f"n{row},{row / 7:.3f},{row % 2},{row % 2}" for row in range(12)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,age,2,on", *rows]))
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\nn1,n2\n")
    return tmp_path


def test_columns_and_classes_named_by_what_yaml_reads_as_something_else(folder):
    assert load(folder, label="on", ignore=2).class_names == ("0", "1")
    assert load(folder, label=2, ignore="on", classes=[0, 1]).class_names == ("0", "1")
    with pytest.raises(ValueError, match=r"'label' to be a word or a list of words, in quotes"):
        load(folder, label=True)


@pytest.mark.parametrize("word", ["false", "no", False])
def test_no_is_no(folder, word):
    task = load(folder, label="2", ignore="on", directed=word, categorical=word)
    assert task.graphs[0].num_edges == 4
    assert task.node_encoding.kind == "float"
