"""Spaces: what a file may say, which points there are, and what is refused."""

import math
from collections import Counter

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from torch_grama.experiments.config import ConfigError
from torch_grama.reproduce.suite import CONFIGS
from torch_grama.runs.safe_files import to_yaml
from torch_grama.search.space import Domain, Space, read_space

SPACES = CONFIGS / "spaces"

FULL = {
    "about": "All there is.",
    "base": {"data": "cora", "trainer": {"max_epochs": 7}},
    "space": {
        "optimizer.lr": {"log_uniform": ["1e-4", 0.1]},
        "model": {"num_layers": {"int": [2, 9]}, "dropout": {"uniform": [0, 0.5]}},
        "model.backbone": {"choice": ["gcn", "gatedgcn"]},
    },
    "repeat": {"folds": [0, 3], "seeds": [1, 2]},
    "metric": "val/accuracy",
    "searcher": {"name": "random", "num_trials": 5, "seed": 3},
    "scheduler": {"name": "asha", "grace_epochs": 4, "reduction": 2},
    "resources": {"cpus_per_trial": 0.5, "gpus_per_trial": 0, "concurrency": 2},
}


def test_everything_that_a_file_may_say(tmp_path):
    space = Space.from_dict(FULL)
    assert space.base == {"data.name": "cora", "trainer.max_epochs": 7}
    assert space.domains["optimizer.lr"] == Domain("log_uniform", (1e-4, 0.1))
    names = {"optimizer.lr", "model.num_layers", "model.dropout", "model.backbone"}
    assert set(space.domains) == names
    assert space.repeat.runs() == {
        f"fold-{fold}-seed-{seed}": {"data.fold": fold, "seed": seed}
        for fold in (0, 3)
        for seed in (1, 2)
    }
    assert (space.size, space.num_trials, space.searcher_name) == (math.inf, 5, "random")
    path = tmp_path / "space.yaml"
    path.write_text(to_yaml(space.to_dict()))
    assert read_space(path) == space


def test_a_word_stands_for_a_section():
    space = Space.from_dict({"space": {"seed": {"grid": [0, 1]}}, "searcher": "optuna"})
    assert (space.searcher.name, space.searcher.seed) == ("optuna", 0)
    assert space.repeat.runs() == {"run": {}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spaces": {}}, r"no key 'spaces' in a space; expected one of 'space'"),
        ({"space": {"a": 3}}, r"Expected 'a' in the space to be one of \{grid"),
        ({"space": {"a": {"gird": [1]}}}, r"one of 'grid', .* \(got 'gird'\)"),
        ({"space": {"a": {"grid": []}}}, "to be a list of values"),
        ({"space": {"a": {"grid": [1, 2, 1]}}}, "to differ"),
        ({"space": {"a": {"uniform": [2, 1]}}}, "the smaller first"),
        ({"space": {"a": {"uniform": [1, "x"]}}}, "two numbers"),
        ({"space": {"a": {"uniform": [1, 2, 3]}}}, "two numbers"),
        ({"space": {"a": {"log_uniform": [0, 1]}}}, "both above zero"),
        ({"space": {"a": {"int": [1, 2.5]}}}, "both whole"),
        ({"base": {"seed": 1}, "space": {"seed": {"grid": [1]}}}, "not under both"),
        ({"base": 3}, "Expected 'base' to be a section"),
        ({"repeat": {"fold": [1]}}, r"no key 'repeat.fold'.* 'folds'"),
        ({"repeat": {"folds": [0, 0]}}, "different whole numbers"),
        ({"repeat": {"seeds": 3}}, "different whole numbers"),
        ({"searcher": "grit"}, r"Expected 'searcher' to be one of 'grid'"),
        ({"searcher": {"name": "grid", "num_trials": 3}}, "takes every point"),
        ({"scheduler": {"name": "asha", "grace": 3}}, r"no key 'scheduler.grace'.*'grace_epochs'"),
        ({"scheduler": {"reduction": 1}}, "at least 2"),
        ({"resources": {"cpus_per_trial": 0}}, "above 0"),
        ({"resources": {"gpus_per_trial": 1.5}}, "whole above 1"),
        ({"resources": 3}, "Expected 'resources' to have"),
        ({"metric": "test"}, "compares on validation"),
    ],
)
def test_what_cannot_be_is_refused_with_the_nearest(change, message):
    with pytest.raises(ConfigError, match=message):
        Space.from_dict({"space": {"model.num_layers": {"grid": [1]}}} | change)


def test_files_that_are_no_space(tmp_path):
    path = tmp_path / "space.yaml"
    for text, message in (
        (None, "cannot be read"),
        ("base: {data: cora}\n", "describes no space"),
        ("space: !!python/object/apply:os.getcwd []\n", "asks for an object to be made"),
        ("space: {a: {grit: [1]}}\n", r"space\.yaml"),
    ):
        if text is not None:
            path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_space(path)


def test_a_grid_is_the_product():
    space = Space.from_dict({"space": {"a": {"grid": [1, 2]}, "b": {"choice": ["x", None]}}})
    product = [(1, "x"), (1, None), (2, "x"), (2, None)]
    assert list(space.grid()) == [{"a": a, "b": b} for a, b in product]
    assert (space.size, space.searcher_name) == (4, "random")
    with pytest.raises(ConfigError, match="a range, 'int'"):
        list(Space.from_dict({"space": {"a": {"int": [1, 2]}}}).grid())


@given(
    ends=st.tuples(st.floats(1e-6, 1e3), st.floats(1.01, 1e3)),
    kind=st.sampled_from(["uniform", "log_uniform"]),
    seed=st.integers(0, 99),
)
def test_draws_lie_in_their_range_and_depend_on_the_seed_alone(ends, kind, seed):
    low, high = ends[0], ends[0] * ends[1]
    space = Space.from_dict({"space": {"a": {kind: [low, high]}, "b": {"int": [3, 5]}}})
    points = list(space.draw(6, seed))
    assert points == list(space.draw(6, seed))
    assert all(low <= point["a"] <= high and point["b"] in (3, 4, 5) for point in points)


def test_log_uniform_draws_fill_every_decade_alike():
    space = Space.from_dict({"space": {"lr": {"log_uniform": [1e-4, 1e-1]}}})
    decades = Counter(math.floor(math.log10(point["lr"])) for point in space.draw(3000))
    assert all(abs(decades[decade] - 1000) < 120 for decade in (-4, -3, -2))


def test_a_finite_space_is_drawn_without_repeating():
    space = Space.from_dict({"space": {"a": {"int": [0, 2]}, "b": {"grid": [True, False]}}})
    points = list(space.draw(100))
    assert len(points) == space.size == 6
    assert len({tuple(point.items()) for point in points}) == 6
    # rounding leaves a single value
    narrow = Space.from_dict({"space": {"a": {"uniform": [1.00000001, 1.00000002]}}})
    assert len(list(narrow.draw(5))) <= 2


def test_fixed_settings_leave_the_space():
    space = Space.from_dict({"base": {"seed": 1}, "space": {"a": {"grid": [1, 2]}}})
    fixed = space.with_settings({"a": "2", "seed": "3"})
    assert fixed.base == {"seed": "3", "a": "2"}
    assert list(fixed.grid()) == [{}]


@pytest.mark.parametrize(
    ("name", "per_backbone", "runs"),
    [("transfer", 10, 4), ("property", 24, 4), ("lrgb", 1296, 3), ("gnn-bench", 1944, 10)],
)
def test_the_grids_of_the_paper_have_their_size(name, per_backbone, runs):
    space = read_space(SPACES / f"{name}.yaml")
    assert set(space.domains["model.backbone"].values) == {"gcn", "gps", "gatedgcn"}
    assert len(list(space.grid())) == 3 * per_backbone
    assert len(space.with_settings({"model.backbone": "gps"}).points()) == per_backbone
    assert len(space.repeat.runs()) == runs


@pytest.mark.parametrize("path", sorted(SPACES.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_spaces_say_what_they_are(path):
    content = yaml.safe_load(path.read_text())
    assert content["about"]
    assert read_space(path).num_trials > 1
