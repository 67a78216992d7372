"""The words of tables and suites are those of the catalogue."""

from functools import cache

import pytest
import torch

from torch_grama.datasets.task_data import FeatureEncoding, Metric
from torch_grama.experiments.catalogue import MODELS, canonical_name
from torch_grama.experiments.config import RunConfig
from torch_grama.experiments.data_facts import DataFacts
from torch_grama.experiments.models import assemble_model, reads_series_alone
from torch_grama.experiments.settings import check_settings, read_file
from torch_grama.report.held_results import list_paper_tables, read_paper_numbers
from torch_grama.reproduce.reproduction import settings_of_row
from torch_grama.reproduce.suite import CONFIGS, list_suites

SUITES = list_suites(CONFIGS)
# Systems later than the paper that no model here stands for; of the paper's own rows there is none.
WITHOUT_MODEL = {"ghr", "onda"}


@cache
def rows_of_tables():
    return sorted({n.model for table in list_paper_tables() for n in read_paper_numbers(table)})


def run_small(settings):
    """A model, and what it says of a ring of nine nodes that has what the settings ask for."""
    torch.manual_seed(0)
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
        num_eigenvectors=config.data.lap_pe,
    )
    model = assemble_model(config.model, facts, 3)
    x = torch.randn(9, 4, 5) if series else torch.randn(9, 5)
    ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    given = {"pe": torch.randn(9, facts.pe_channels)} if facts.pe_channels else {}
    return model, model(x, torch.cat([ring, ring.flip(0)], dim=1), **given)


def test_rows_without_a_model_are_these_and_no_others():
    missing = set()
    for row in rows_of_tables():
        try:
            settings_of_row(row, MODELS)
        except ValueError:
            missing.add(row)
    assert missing == WITHOUT_MODEL


ROWS_OF_SUITES = {row for suite in SUITES for row in suite.models}


@pytest.mark.no_cover
@pytest.mark.parametrize("row", sorted({*rows_of_tables(), *ROWS_OF_SUITES} - WITHOUT_MODEL))
def test_rows_build_and_train_a_step(row):
    settings = {"data.name": "small", "model.hidden_channels": 8}
    settings |= {} if "depth" in row else {"model.num_layers": 2}
    settings |= settings_of_row(row, MODELS)
    if "model.seq_len" in settings:
        settings.pop("model.num_layers", None)
    model, out = run_small(settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [parameter.clone() for parameter in model.parameters()]
    assert out.shape == (9, 3)
    torch.nn.functional.cross_entropy(out, torch.arange(9) % 3).backward()
    optimizer.step()
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert any(moved)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_rows_of_suites_have_the_names_of_today():
    for row in ROWS_OF_SUITES:
        word = settings_of_row(row, MODELS)["model.name"]
        assert canonical_name(word) == word


# one file for each row of each suite: what it changes from column to column are numbers
FILES = {
    (suite.name, path.stem.removeprefix(entry.label)): path
    for suite in SUITES
    for entry in suite.data
    for path in sorted(suite.folder.glob(f"{entry.label}-*.yaml"))
}


@pytest.mark.no_cover
@pytest.mark.parametrize("path", FILES.values(), ids=lambda path: path.stem)
def test_configurations_of_rows_build(path):
    _, out = run_small({"data.name": "small", **read_file(path)})
    assert out.size(-1) == 3
    assert out.isfinite().all()
