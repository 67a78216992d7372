"""Settings from files and command lines: types, precedence, and what is said to a mistake."""

import pytest
import yaml

from torch_grama.datasets.options import parse_options
from torch_grama.experiments.config import ConfigError, RunConfig
from torch_grama.experiments.settings import (
    check_settings,
    flatten,
    known_options,
    option_parser,
    read_arguments,
    read_file,
)

LINE = "on the command line"


def from_words(*words):
    return check_settings((LINE, read_arguments(words)))


def test_words_become_values_of_the_options_types():
    assert from_words(
        "--data", "cora", "--model=grama", "--model.backbone", "gcn", "--model.gain", "null",
        "--optimizer.lr", "1e-2", "--optimizer.betas", "[0.9, 0.99]", "--trainer.max-epochs", "5",
        "--model.recompute", "--data.fold=3", "--task.class_weights", "balanced",
    ) == {
        "data.name": "cora",
        "model.name": "grama",
        "model.backbone": "gcn",
        "model.gain": None,
        "optimizer.lr": 0.01,
        "optimizer.betas": (0.9, 0.99),
        "trainer.max_epochs": 5,
        "model.recompute": True,
        "data.fold": 3,
        "task.class_weights": "balanced",
    }  # fmt: skip


def test_options_of_the_data_are_gathered():
    found = from_words("--data.options.variant", "carry", "--data.options.seed=3")
    assert found == {"data.options": {"variant": "carry", "seed": "3"}}  # the reader knows its type
    nested = flatten({"data": {"name": "x", "options": {"classes": ["a", "b"]}}})
    assert check_settings(("f", nested))["data.options"] == {"classes": ["a", "b"]}


def test_later_layers_win():
    layers = [{"seed": 1, "optimizer.lr": 0.1}, {"optimizer.lr": 0.2}, {"optimizer.lr": "0.3"}]
    found = check_settings(*[("here", layer) for layer in layers])
    assert found == {"seed": 1, "optimizer.lr": 0.3}


def test_the_options_are_those_of_the_chosen_model():
    assert "model.backbone" in known_options("grama")
    assert known_options("grama-gcn")["model.backbone"].default == "gcn"
    assert known_options("grama")["model.backbone"].default == "gatedgcn"
    for hidden in ("model.in_channels", "model.readout", "model.edge_dim", "trainer.seed"):
        assert hidden not in known_options("grama")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model.bacbone", "gcn"], r"no setting 'model.bacbone' of the model 'grama' \(on the "
         r"command line\); did you mean 'model.backbone'"),
        (["--lr", "1"], "did you mean 'optimizer.lr'"),
        (["--learning_rate", "1"], "did you mean 'optimizer.lr'"),
        (["--optimizer.learning-rate", "1"], "did you mean 'optimizer.lr'"),
        (["--epochs", "1"], "did you mean 'trainer.max_epochs'"),
        (["--model.hidden_dim", "1"], "did you mean 'model.hidden_channels'"),
        (["--trainer.max_epoch", "1"], "did you mean 'trainer.max_epochs'"),
        (["--out", "a"], r"no setting 'out' \(on the command line\): `grama train --help-all`"),
        (["--model.backbone", "gnc"], "to be one of 'gcn', 'gin', 'gatedgcn'"),
        (["--model.backbone_options", "5"], r"to be a mapping such as \{name: value\} or null"),
        (["--model.normalization", "l1"], r"of version 0.1; write 'constraint' \(on the command"),
        (["--model.heads", "2"], "'heads', which was of version 0.1; leave it out"),
        (["--model.backbone", "gps-sum-pre"], r"write 'backbone: gps, backbone_options: \{local: "
         r"gin, pre_norm: true\}' \(on the command line\)"),
        (["--trainer.max_epochs", "2.5"], r"to be a whole number \(got '2.5', on the command"),
        (["--model.dropout", "much"], "Expected 'model.dropout' to be a number"),
        (["--data", "a", "b"], r"Expected an option such as `--data b`"),
        (["stray"], "belongs to none"),
        (["--trainer", "5"], "Expected settings in the section 'trainer'"),
        (["--model.class_path", "os.system"], "names no classes and runs no code"),
    ],
)  # fmt: skip
def test_mistakes_name_the_nearest(words, message):
    with pytest.raises(ConfigError, match=message):
        from_words(*words)


def test_a_file_is_read_and_its_environment_left_out(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "data: {name: cora}\nmodel:\n  name: grama\n  dropout: 0.5\nseed: 3\n"
        "environment: {versions: {torch: '2'}}\n"
    )
    assert check_settings((str(path), read_file(path))) == {
        "data.name": "cora",
        "model.name": "grama",
        "model.dropout": 0.5,
        "seed": 3,
    }
    path.write_text("")
    assert read_file(path) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: !!python/object/apply:os.system ['true']", "a configuration holds data only"),
        ("a: [1", "line 1.* is no valid YAML"),
        ("- 1\n- 2", "holds no settings"),
        ("model: {name: {class_path: os.system}}", "names no classes and runs no code"),
        ("model: {checkpoint_blocks: true}", r"write 'recompute' \(in '.*config.yaml'\)"),
        ("model: {backbone: gcn-root}", r"backbone_options: \{root: true\}' \(in '.*config.yaml"),
        ("trainer: 3", "Expected settings in the section 'trainer'"),
        ("model: {name: [1]}", "Expected 'model.name' to be a word|Expected 'model' to be one"),
        ("trainer: {max_epochs: many}", r"got 'many', .*config.yaml"),
        ("trainer: {max_epochs: null}", r"to be a whole number \(got None, in .*config.yaml"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, message):
    path = tmp_path / "config.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        check_settings((f"in '{path}'", read_file(path)))


def test_a_missing_or_binary_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing.yaml' cannot be read \(No such file"):
        read_file(tmp_path / "nothing.yaml")
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_file(tmp_path / "x")


@pytest.mark.parametrize(
    "words",
    [
        ["--model.gain=0.5", "--optimizer.betas=[0.8, 0.9]"],
        ["--model.backbone_options={pre_norm: true, norm: null, heads: 2}"],
    ],
)
def test_a_configuration_survives_yaml(words):
    config = RunConfig.from_settings(from_words("--data", "cora", *words))
    again = yaml.safe_load(yaml.safe_dump(config.to_dict(), sort_keys=False))
    assert RunConfig.from_settings(check_settings(("there", flatten(again)))) == config


def test_options_of_the_backbone_are_one_mapping_or_its_entries():
    whole = from_words("--model.backbone_options", "{pre_norm: true, norm: null, heads: 2}")
    options = {"pre_norm": True, "norm": None, "heads": 2}
    assert whole == {"model.backbone_options": options}
    words = {"pre_norm": "true", "norm": "null", "heads": "2"}
    entries = [f"--model.backbone_options.{name}={word}" for name, word in words.items()]
    assert whole == from_words(*entries)
    nested = flatten({"model": {"name": "grama", "backbone_options": options}})
    assert nested["model.backbone_options"] == options


def test_an_entry_joins_those_of_the_word():
    found = from_words("--model=grama-gps-performer", "--model.backbone_options.pre_norm=true")
    assert found["model.backbone_options"] == {"attention": "performer", "pre_norm": True}


@pytest.mark.parametrize("name", ["seed", "model.dropout", "model.dropuot", "optimiser"])
def test_an_empty_mapping_is_no_value(name):
    section, _, last = name.rpartition(".")
    content = {section: {last: {}}} if section else {last: {}}
    with pytest.raises(ConfigError, match=f"'{name}'"):
        check_settings(("the file", flatten(content)))
    assert flatten({"model": {}, "schedule": {}}) == {}  # a section may say nothing


def test_data_and_model_may_be_given_by_name_alone():
    assert check_settings(("there", flatten({"data": "cora", "model": "grama-gcn"}))) == {
        "data.name": "cora",
        "model.name": "grama-gcn",
    }


def test_values_that_cannot_be_are_named_with_their_section():
    for word, message in (
        ("--data=", "Expected a data set: give `--data`"),
        ("--data.fold=-1", "Expected 'data.fold' to be at least 0"),
        ("--optimizer.lr=-1", r"'optimizer.lr' to be greater than 0 .*section 'optimizer'"),
    ):
        with pytest.raises(ConfigError, match=message):
            RunConfig.from_settings(from_words("--data", "cora", word))


def test_the_help_lists_every_option():
    text = option_parser("grama").format_help()
    for name in known_options("grama"):
        assert f"--{name}" in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("income", "income"),
        ("on", "on"),
        ("'on'", "on"),
        ("[age, joined]", ["age", "joined"]),
        ("[yes,'last, first']", ["yes", "last, first"]),
        ("true", "true"),
    ],
)
def test_data_options_have_one_syntax(text, value):
    [(key, short)] = parse_options([f"label={text}"]).items()
    assert (key, short) == ("label", value)
    assert from_words("--data.options.label", text) == {"data.options": {"label": value}}
