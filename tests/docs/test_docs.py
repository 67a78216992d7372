"""Every Python block and every command of the pages is valid, and the pages build."""

from __future__ import annotations

import io
import math
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from torch_geometric import seed_everything

from grama_process import ForkedProcess
from torch_grama.cli import build_parser, main
from torch_grama.experiments.settings import check_settings, read_arguments
from torch_grama.reproduce.suite import CONFIGS, find_config

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if not any(s.startswith("_") for s in p.parts))

RUN = re.compile(
    r"^```(python|console)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)
BASH = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KEEPS_SETTINGS = {"train", "sweep"}
PACKAGES = ("nn", "analysis", "datasets", "baselines", "training", "experiments", "search")
NOT_DESCRIBED = {"functional", "CATALOGUE", "MODELS"}  # a module and two tables of their own


# What reaches beyond the right edge, and lies in nothing that scrolls.
CLIPPED = """
const scrolls = (e) => e && (/auto|scroll/.test(getComputedStyle(e).overflowX) ||
  scrolls(e.parentElement.closest("article *")));
return [...document.querySelectorAll("article *")]
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e))
  .map((e) => e.outerHTML.slice(0, 200));
"""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def commands_of(page: Path) -> Iterator[list[str]]:
    for block in BASH.findall(text_of(page)):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.partition(" > ")[0], comments=True)  # without its file
            if words and words[0] == "grama":
                yield words[1:]


def compare(shown: str, printed: str, is_trained: bool) -> None:
    """Equal; after training, on another machine, numbers and verdict may move a little."""
    if not is_trained:
        assert printed == shown
        return
    number = re.compile(r"-?\d+\.\d+")
    moves = re.compile(r"(?ms)epoch \d+|^time[^\n]*|^(?:No better|Better) than.*")
    left, right = (moves.sub("", text) for text in (shown, printed))
    assert number.sub("", left).split() == number.sub("", right).split()
    for value, other in zip(number.findall(left), number.findall(right), strict=True):
        assert float(value) == pytest.approx(float(other), rel=0.3, abs=0.15)


WITH_PYTHON = [page for page in PAGES if "```python" in text_of(page)]
COMMANDS = [(name_of(page), words) for page in PAGES for words in commands_of(page)]


@pytest.mark.no_cover
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_blocks_run(page, monkeypatch, tmp_path, one_thread):
    """In order, one after another as a reader would; each prints what the page says it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAMA_CACHE", str(tmp_path / "cache"))
    blocks = RUN.findall(text_of(page))
    assert len(blocks) == len(re.findall("^```(?:python|console)", text_of(page), re.MULTILINE))
    seed_everything(0)
    names: dict[str, object] = {"__name__": "__main__"}
    for kind, code, shown in blocks:
        printed = io.StringIO()
        with redirect_stdout(printed):
            if kind == "python":
                exec(compile(code, name_of(page), "exec"), names)
            else:
                command, _, shown = code.partition("\n")
                assert main(shlex.split(command.removeprefix("$ grama "))) == 0
        if shown:
            compare(shown, printed.getvalue(), is_trained="tutorials" in page.parts)
    if "loss" in names:
        assert names["loss"].item() < 0.8 * math.log(names["out"].size(1))
    if "stretch" in names:
        # what the page says of gated sums against means
        assert names["stretch"]["gated sums", 90] > 10 * names["stretch"]["gated sums", 4]
        assert names["stretch"]["gated means", 90] < 2 * names["stretch"]["gated means", 4]


def test_equations_of_models_are_typeset(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    typeset = import_module("equation_text").typeset
    shown = "x_i' = act(W1 x_i + sum_(k<=2) D^-1/2 x_j / sqrt(d)),  W learned from the labels"
    assert typeset(shown) == (
        r"$x_{i}' = \,\mathrm{act}(W_1  x_{i} + \sum _{k\le 2} D^{-1/2} x_{j} / \sqrt{d})$<br>"
        r"$W \text{ learned from the labels }$"
    )
    assert typeset("x += eps W^T A_hat h") == r"$x {+}{=}  \epsilon  W^{\top} \hat{A}  h$"


def test_there_are_commands():
    assert len(COMMANDS) >= 30


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=[" ".join(words)[:60] for _, words in COMMANDS]
)
def test_command_is_understood(page, words):
    arguments = build_parser().parse_args(words)
    assert callable(arguments.run)
    if words[0] in KEEPS_SETTINGS:
        given = read_arguments(arguments.settings)
        model = given.get("model.name", "grama")
        if words[0] == "train" and arguments.resume is None:
            check_settings(("on the page", {"data.name": "any", "model.name": model, **given}))
    if words[0] == "reproduce":
        assert words[1] == "list" or (CONFIGS / words[1] / "suite.yaml").is_file()
    for path in getattr(arguments, "config", None) or []:
        assert find_config(path).is_file() or "/" not in path


@pytest.mark.parametrize("page", [p for p in PAGES if "```yaml" in text_of(p)], ids=name_of)
def test_yaml_is_understood(page, tmp_path):
    from torch_grama.experiments.settings import read_file
    from torch_grama.search.space import read_space

    for number, block in enumerate(YAML.findall(text_of(page))):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block, encoding="utf-8")
        if "space" in yaml.safe_load(block):
            assert read_space(path)
        else:
            check_settings(("on the page", {"data.name": "any", **read_file(path)}))


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", text_of(page)):
            assert (page.parent / target).is_file(), f"{name_of(page)} links to {target}"


def test_every_page_is_in_the_table_of_contents():
    listed = set()
    for page in PAGES:
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", text_of(page), re.DOTALL):
            entries = [line for line in tree.split() if not line.startswith(":")]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert {page for page in PAGES if page not in listed} == {DOCS / "index.md"}


def test_the_letters_are_explained():
    first = text_of(DOCS / "how-it-works.md")
    for letter, option in {
        "L": "seq_len",
        "R": "num_recurrences",
        "S": "num_blocks",
        "p": "ar_order",
        "q": "ma_order",
    }.items():
        assert re.search(rf"^{letter}, `{option}`\n: \w", first, re.MULTILINE)


def test_figures_have_alternative_texts():
    figures = re.findall(r"^:::\{drawing\} (\w+)\n(.*?)^:::$", _all(), re.MULTILINE | re.DOTALL)
    modules = {p.stem for p in (DOCS / "figures").glob("*.py")}
    assert len(figures) >= 8
    for name, body in figures:
        assert name in modules
        assert len(re.match(r":alt: (.*)\n", body)[1]) > 60


def test_measured_numbers_in_the_text_are_those_of_the_file():
    import json

    files = sorted((ROOT / "src" / "torch_grama" / "results" / "runtime").glob("nvidia-h200*.json"))
    rows = [row for path in files for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]

    def find(scene: str, model: str, **sizes: int) -> dict[str, float]:
        wanted = {"scene": scene, "model": model, **sizes}
        return next(row for row in rows if wanted.items() <= row.items())

    million = find("nodes", "GRAMA(GCN)", num_nodes=1_000_000)
    shallow, gcn = (find("depth", name, depth=4) for name in ("GRAMA(GCN)", "PyG GCN, cached"))
    deep, saving, half = (
        find("depth", f"GRAMA(GCN){kind}", depth=32) for kind in ("", ", recomputed", ", bf16")
    )
    gated = find("depth", "GRAMA(GatedGCN)", depth=32)
    scale, engine = text_of(DOCS / "scale.md"), text_of(DOCS / "engine.md")
    kilobytes = f"{million['memory_gib'] * 2**30 / 1e9:.1f} kB"
    assert f"about {kilobytes} each" in scale
    assert re.findall(r"\d\.\d kB", scale) == [kilobytes] * 3
    assert f"({half['memory_gib']:.2f} / {deep['memory_gib']:.2f} at depth 32)" in scale
    assert f"from {million['train_ms']:.0f} ms for" in scale
    assert f"({half['memory_gib']:.2f} instead of {deep['memory_gib']:.2f} GiB" in scale
    assert f"({gated['memory_gib']:.1f} GiB at depth 32" in scale
    assert f"{saving['train_ms']:.0f} instead of {deep['train_ms']:.0f} ms" in scale
    times = f"takes {shallow['train_ms']:.1f} ms against {gcn['train_ms']:.1f} ms"
    assert times in " ".join(engine.split())


def test_results_in_the_text_are_those_of_the_files():
    from torch_grama.report.held_results import gather, scale_of
    from torch_grama.report.pair_table import SUITE, kept_pairs
    from torch_grama.reproduce.suite import CONFIGS, find_suite

    held, _ = gather([ROOT / "src" / "torch_grama" / "results"])
    numbers = {
        (n.model, n.data): scale_of(n.metric).text(n.mean)
        for n in held
        if n.budget == "full" and n.suite != SUITE and n.mean is not None
    }
    text = " ".join(text_of(DOCS / "findings.md").split())
    quoted = re.findall(r"`([\w+-]+)` (-?[\d.]+(?:e-\d+)?) on `([\w-]+)`", text)
    assert len(quoted) > 5
    for model, number, data in quoted:
        assert number == numbers[model, data], (model, data)
    lines = kept_pairs(find_suite(SUITE, CONFIGS).pairs(), held)
    gains = {line.cells()[4].lstrip("+") for line in lines if line.runs}
    quoted_gains = re.findall(r"gain (-?\d+\.\d+ ± \d+\.\d+)", text)
    assert len(quoted_gains) > 1
    assert set(quoted_gains) <= gains


@pytest.mark.slow
@pytest.mark.no_cover
def test_pages_are_built_say_what_they_should_and_fit_on_a_phone(tmp_path, monkeypatch):
    pytest.importorskip("furo", reason="the pages need Sphinx and furo: pip install '.[docs]'")
    pytest.importorskip("myst_parser", reason="the pages need myst-parser: pip install '.[docs]'")
    from sphinx.cmd.build import build_main

    built = tmp_path / "html"
    options = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    process = ForkedProcess(build_main, [*options, str(DOCS), str(built)])
    _, said = process.communicate()
    assert process.returncode == 0, said
    pages = {page: (built / page.relative_to(DOCS)).with_suffix(".html") for page in PAGES}
    for html in pages.values():
        text = html.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', text)
        assert len(re.findall("<img [^>]*alt=", text)) == text.count("<img ")
        assert not re.search(r"[\u2013\u2014](?:data|model|run|out|config|trainer)\b", text)
        assert "\\math" not in re.sub(r"<annotation.*?</annotation>", "", text, flags=re.DOTALL)
    for package in PACKAGES:
        text = (built / "api" / f"{package}.html").read_text(encoding="utf-8")
        # a sign that sets columns apart is no letter of a formula
        assert "<mi>&</mi>" not in text
        names = set(import_module(f"torch_grama.{package}").__all__) - NOT_DESCRIBED
        missing = {name for name in names if f'id="torch_grama.{package}.{name}"' not in text}
        assert missing == set(), f"docs/api/{package}.md lacks them"

    monkeypatch.syspath_prepend(str(ROOT / "tests" / "browser"))
    with import_module("chromium").open_browser() as chrome:
        phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        for page, html in pages.items():
            chrome.get(html.as_uri())
            assert chrome.execute_script(CLIPPED) == [], name_of(page)
        if find_spec("ziamath"):
            chrome.get((built / "theory.html").as_uri())
            ready = "await document.fonts.ready; return document.fonts.check('16px Formulas')"
            assert chrome.execute_script(ready), "the font of formulas is not there"


def _all() -> str:
    return "\n".join(map(text_of, PAGES))
