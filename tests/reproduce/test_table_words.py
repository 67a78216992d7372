"""The words of tables and suites are those of the catalogue."""

from functools import cache

import pytest

from torch_grama.datasets.task_data import FeatureEncoding, Metric
from torch_grama.experiments.assembly import assemble_model, reads_series_alone
from torch_grama.experiments.catalogue import MODELS, canonical_name
from torch_grama.experiments.config import RunConfig
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.settings import check_settings, read_file
from torch_grama.report.paper_numbers import list_paper_tables, read_paper_numbers
from torch_grama.reproduce.config_files import CONFIGS
from torch_grama.reproduce.row_settings import settings_of_row
from torch_grama.reproduce.suite import list_suites

SUITES = list_suites(CONFIGS)
# Rows of the paper that no model here stands for: a variant of attention or of a layer that is
# not provided, degrees as encodings, numbers of another evaluation of a model that is here, and
# later systems.
WITHOUT_MODEL = {
    *("ghr", "grit", "onda", "sonar"),
    "gat-sep",
    "gps-bigbird",
    *(f"{word}+deg" for word in ("gcn", "gat", "gps-gcn", "gps-gat")),
    *(f"{word}+deg" for word in ("gps-gcn-performer", "gps-gat-performer")),
    "gine-reevaluated",
    "gps+lappe-reevaluated",
    "drew-gcn+lappe-reevaluated",
}


@cache
def rows_of_tables():
    return sorted({n.model for table in list_paper_tables() for n in read_paper_numbers(table)})


def build_row(row, **given):
    """The model of a row, on a small data set that has what the row asks for."""
    settings = {"data.name": "small", "model.hidden_channels": 8, **given}
    settings |= settings_of_row(row, MODELS)
    if "model.seq_len" in settings:
        settings.pop("model.num_layers", None)
    return build_settings(settings)


def build_settings(settings):
    config = RunConfig.from_settings(check_settings(("in the test", settings)))
    series = 4 if reads_series_alone(config.model.name) else 0
    facts = DataFacts(
        "graph" if "model.pooling" in settings else "node",  # nodes are pooled for graphs only
        "classification",
        Metric("accuracy", True),
        3,
        FeatureEncoding("float", 5),
        FeatureEncoding("none", 0),
        num_graphs=1,
        mean_nodes=9.0,
        seq_len=series,
        pe_channels=config.data.rwse + config.data.lap_pe,
    )
    return assemble_model(config.model, facts, 3)


def test_rows_without_a_model_are_these_and_no_others():
    missing = set()
    for row in rows_of_tables():
        try:
            settings_of_row(row, MODELS)
        except ValueError:
            missing.add(row)
    assert missing == WITHOUT_MODEL


@pytest.mark.no_cover
@pytest.mark.parametrize("row", sorted(set(rows_of_tables()) - WITHOUT_MODEL))
def test_rows_of_the_paper_build(row):
    depth = {} if "depth" in row else {"model.num_layers": 2}
    assert build_row(row, **depth).model is not None


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_rows_of_suites_build(suite):
    for row in suite.models:
        depth = {} if "depth" in row else {"model.num_layers": 2}
        assert build_row(row, **depth).model is not None
        word = settings_of_row(row, MODELS)["model.name"]
        assert canonical_name(word) == word


FILES = [path for suite in SUITES for path in sorted(suite.folder.glob("*-*.yaml"))]


@pytest.mark.no_cover
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_configurations_of_rows_build(path):
    assert build_settings({"data.name": "small", **read_file(path)}).model is not None
