"""``grama models``: the list, one model in full, JSON, and a word that does not exist."""

import json

from torch_grama.cli import main
from torch_grama.experiments.catalogue import MODELS


def test_the_list_has_every_word(capsys):
    assert main(["models", "--hidden-channels", "16", "--num-layers", "2"]) == 0
    out = capsys.readouterr().out
    listed = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
    assert listed == set(MODELS)
    assert "width 16 and depth 2" in out


def test_json_says_all_of_each(capsys):
    assert main(["models", "grama-gcn", "GCN", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["grama-gcn", "gcn"]
    for row in rows:
        assert row["parameters"] > 0
        assert {
            "family",
            "equation",
            "reference",
            "equivariant",
            "cost",
            "source",
            "departures",
        } <= (set(row))


def test_one_in_full(capsys):
    assert main(["models", "grama"]) == 0
    out = capsys.readouterr().out
    for part in ("grama\n", "reference      Eliasof", "equivariant    yes", "departure"):
        assert part in out


def test_an_unknown_word_is_one_sentence(capsys):
    assert main(["models", "gramma"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "such as 'grama'" in err
