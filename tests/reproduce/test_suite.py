import pytest
import torch

from torch_grama.datasets.catalogue import CATALOGUE
from torch_grama.datasets.task_data import FeatureEncoding
from torch_grama.experiments.config import RunConfig
from torch_grama.experiments.data_facts import DataFacts, load_data
from torch_grama.experiments.models import assemble_model
from torch_grama.experiments.settings import check_settings, make_config
from torch_grama.nn.grama_block import GRAMABlock
from torch_grama.report.held_results import SCALES, list_paper_tables, read_paper_numbers
from torch_grama.reproduce.reproduction import plan_runs, resolve_row
from torch_grama.reproduce.suite import CONFIGS, SuiteError, find_suite, list_suites, read_suite

SUITES = list_suites(CONFIGS)
EXPERIMENTS = {
    *("transfer", "property", "lrgb", "malnet", "hetero", "hetero-extended", "benchmarks"),
    *("temporal", "runtime", "ablation-selective", "ablation-depth", "ablation-width", "summary"),
}
LONG_RANGE = {"barbell", "ranges", "echo", "ising"}


def write(tmp_path, text):
    (tmp_path / "suite.yaml").write_text(text)
    return tmp_path


def test_every_experiment_of_the_paper_is_there():
    assert {suite.name for suite in SUITES} == EXPERIMENTS | LONG_RANGE | {"pairs"}


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_suites_name_what_exists(suite):
    assert suite.title
    assert suite.about
    assert set(suite.tables) <= set(list_paper_tables())
    labels = [entry.label for entry in suite.data]
    assert len(set(labels)) == len(labels)
    for entry in suite.data:
        assert entry.name in CATALOGUE
        assert entry.metric in SCALES
        if entry.suite:
            assert find_suite(entry.suite, CONFIGS).find_data(entry.label).metric == entry.metric
    for budget in suite.budgets.values():
        assert set(budget.data) <= set(labels)
        paired = {row for entry in suite.data for pair in entry.pairs for row in pair}
        assert set(budget.models) <= {*suite.models, *paired}


@pytest.mark.parametrize("name", sorted((EXPERIMENTS | LONG_RANGE) - {"runtime", "summary"}))
def test_columns_are_those_of_the_paper(name):
    suite = find_suite(name, CONFIGS)
    printed = {number.data for table in suite.tables for number in read_paper_numbers(table)}
    assert printed <= {entry.label for entry in suite.data}
    assert set(suite.budgets) == {"smoke", "short", "full"}
    assert suite.budgets["smoke"].runs == 1


@pytest.mark.parametrize("name", ["transfer", "property"])
def test_every_row_on_generated_data_makes_a_configuration(name, tmp_path):
    suite = find_suite(name, CONFIGS)
    runs = plan_runs(suite, "full", tmp_path, repeats=[0])
    assert len(runs) == len(suite.data) * len(suite.models)
    columns = {entry.label: entry for entry in suite.data}
    for run in runs:
        # every model on one column, and one model on every column
        if run.model == suite.models[0] or run.data == suite.data[0].label:
            config = make_config(run.settings)
            assert config.data.name == columns[run.data].name
        if run.model == suite.models[0]:
            assert load_data(config.data).name.startswith(columns[run.data].name)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted(LONG_RANGE))
def test_models_of_long_range_suites_are_of_one_size(name):
    suite = find_suite(name, CONFIGS)
    built = {}  # columns of one kind of data have the same models
    for column in suite.data:
        entry = CATALOGUE[column.name]
        facts = DataFacts(
            *(entry.level, entry.kind, entry.metric, entry.num_outputs),
            FeatureEncoding("float", entry.published.num_features),
            FeatureEncoding("none", 0),
            num_graphs=2,
            pe_channels=suite.defaults.get("data.lap_pe", 0),
            num_eigenvectors=suite.defaults.get("data.lap_pe", 0),
        )
        sizes = []
        for row in suite.models:
            settings = resolve_row(suite, column, row, {})
            config = RunConfig.from_settings(check_settings(("in the suite", settings)))
            with torch.device("meta"):
                key = str((config.model, facts))
                model = built.get(key) or assemble_model(config.model, facts, 1)
            built[key] = model
            asked = suite.rows[row].get("model.num_layers", suite.defaults["model.num_layers"])
            if row.startswith("grama-"):
                blocks = [part for part in model.modules() if isinstance(part, GRAMABlock)]
                assert sum(block.num_recurrences for block in blocks) == asked, row
            sizes.append(sum(parameter.numel() for parameter in model.parameters()))
        middle = (max(sizes) + min(sizes)) / 2
        assert max(sizes) <= 1.05 * middle, dict(zip(suite.models, sizes, strict=True))


def test_nested_and_dotted_settings_are_the_same(tmp_path):
    suite = read_suite(
        write(
            tmp_path,
            "defaults: {model: {hidden_channels: 8}, optimizer.lr: 0.1}\n"
            "budgets: {smoke: {runs: 2, set: {trainer: {max_epochs: 1}}}}\n",
        )
    )
    assert suite.defaults == {"model.hidden_channels": 8, "optimizer.lr": 0.1}
    assert suite.budgets["smoke"].changes == {"trainer.max_epochs": 1}
    assert suite.budgets["smoke"].runs == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("titel: x", r"unknown key 'titel'; expected one of 'title'"),
        ("budgets: {smok: {}}", r"unknown key 'budgets.smok'; expected one of 'smoke'"),
        ("budgets: {smoke: {run: 1}}", "unknown key 'budgets.smoke.run'; expected one of 'runs'"),
        ("budgets: {smoke: {runs: 0}}", "at least 1"),
        ("data: [{name: cora}]", "to have a 'metric'"),
        ("data: cora", "'data' to be a list"),
        ("repeat: folds", "'fold', 'seed'"),
        ("notes: [a (b: c)]", r"'notes' to list texts .*put it in quotes"),
        ("- 1", "to be a mapping"),
        ("a: [", "line 1 is no valid YAML"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    with pytest.raises(SuiteError, match=message) as caught:
        read_suite(write(tmp_path, text))
    assert "suite.yaml" in str(caught.value)


def test_a_missing_file_and_unknown_names(tmp_path):
    with pytest.raises(SuiteError, match="cannot be read"):
        read_suite(tmp_path)
    with pytest.raises(SuiteError, match=r"one of 'hetero', .*got 'hetro'"):
        find_suite("hetro", CONFIGS)
    with pytest.raises(SuiteError, match=r"one of 'minesweeper', .*got 'minesweepr'"):
        find_suite("hetero", CONFIGS).find_data("minesweepr")
