"""A space is brought to the types of its settings, and survives its file after that."""

from pathlib import Path

import pytest
import yaml
from sample_data import write_node_folder
from sweep_cases import small_base

from torch_grama.experiments.config import ConfigError
from torch_grama.runs.safe_files import to_yaml
from torch_grama.search.space import Space
from torch_grama.search.space_check import check_space
from torch_grama.search.trial import name_trial


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_node_folder(tmp_path_factory.mktemp("data") / "communities")


def space(data: Path, axes: dict[str, object], **base: object) -> Space:
    return Space.from_dict({"base": small_base(data) | base, "space": axes})


def test_values_become_those_of_their_settings(data):
    # YAML reads 1e-3 as a word, and 1 where a setting is a real number as a whole one
    checked = check_space(
        space(
            data,
            {
                "optimizer.lr": {"grid": ["1e-3", 1]},
                "trainer.num_neighbors": {"grid": [[5, 5], [3]]},
            },
            **{"optimizer.betas": [0.8, 0.9]},
        )
    )
    points = list(checked.space.grid())
    assert points[0] == {"optimizer.lr": 0.001, "trainer.num_neighbors": [5, 5]}
    assert type(points[2]["optimizer.lr"]) is float
    assert name_trial(points[0]).startswith("lr=0.001,num_neighbors=5x5-")
    assert (checked.metric, checked.higher_is_better, checked.span) == ("accuracy", True, 3)
    # written and read again, it is the same: a sweep is resumed from its file
    stored = Space.from_dict(yaml.safe_load(to_yaml(checked.space.to_dict())))
    assert check_space(stored) == checked


def test_the_longest_run_decides_the_steps_and_a_path_is_a_full_one(data, monkeypatch):
    monkeypatch.chdir(data.parent)
    axes = {"trainer.max_epochs": {"grid": [2, 9, 4]}, "data.rwse": {"grid": [0, 4]}}
    base = small_base(Path("communities")) | {"trainer": {"accelerator": "cpu"}}
    checked = check_space(Space.from_dict({"base": base, "space": axes}))
    assert checked.span == 9
    assert checked.space.base["data.name"] == str(data.resolve())
    assert checked.values == ""  # encodings make other data


def test_options_of_the_data_are_searched_only_if_they_leave_the_targets_alone(data):
    check_space(space(data, {"data.options.directed": {"grid": [False, True]}}))
    for option, values in (("label", ["label", "height"]), ("seed", [0, 1])):
        with pytest.raises(ConfigError, match=f"'data.options.{option}' .* cannot be compared"):
            check_space(space(data, {f"data.options.{option}": {"grid": values}}))


def test_a_value_may_need_others_beside_it(data):
    base = {"data": str(data), "model": {"hidden_channels": 4, "num_blocks": 1}}
    axes = {"model.seq_len": {"grid": [2, 4]}, "model.ar_order": {"grid": [1, 4]}}
    check_space(Space.from_dict({"base": base, "space": axes}))
    axes["model.ar_order"] = {"grid": [1, 5]}
    with pytest.raises(ConfigError, match="ar_order"):
        check_space(Space.from_dict({"base": base, "space": axes}))
