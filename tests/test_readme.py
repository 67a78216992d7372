"""Every Python block of the README runs by itself and prints what the README says it prints."""

import inspect
import math
import re
from pathlib import Path

import pytest
from torch_geometric import seed_everything

import torch_grama
from torch_grama import GRAMA, analysis
from torch_grama.cli import build_parser

README = Path(__file__).parents[1] / "README.md"

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
BLOCKS = [(match[1], match[2]) for match in BLOCK.finditer(README.read_text(encoding="utf-8"))]


def title(block: tuple[str, str | None]) -> str:
    """The first line of a block that is no import."""
    lines = (line for line in block[0].splitlines() if line and "import" not in line)
    return next(lines)[:40]


def run(code: str) -> dict[str, object]:
    seed_everything(0)
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(code, "README.md", "exec"), names)
    return names


def test_every_block_is_found():
    assert len(BLOCKS) == README.read_text(encoding="utf-8").count("```python")
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=title)
def test_block_runs(block, capsys, monkeypatch, tmp_path, one_thread):
    monkeypatch.setenv("GRAMA_CACHE", str(tmp_path))
    code, output = block
    names = run(code)
    if output is not None:
        assert capsys.readouterr().out == output
    if "loss" in names:
        # below that of a guess, so the loop has trained the model
        assert names["loss"].item() < 0.8 * math.log(names["out"].size(1))


def test_quick_start_is_ten_lines_after_its_imports():
    loops = [code for code, _ in BLOCKS if "optimizer.step()" in code]
    assert len(loops) == 2
    for code in loops:
        lines = [line for line in code.splitlines() if line and not re.match("import|from", line)]
        assert len(lines) <= 10


def test_commands_of_grama_are_understood():
    commands = re.findall(r"^grama (.*?)\s+#", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        assert callable(build_parser().parse_args(command.split()).run)


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"^make (\w+)", README.read_text(encoding="utf-8"), re.MULTILINE))
    assert commands == {"demo", "test"}
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    files = [link for link in links if not link.startswith("http")]
    assert files
    assert [link for link in files if not (README.parent / link).is_file()] == []


def test_options_and_names_of_the_pages_exist():
    pages = README.parent / "docs"
    text = (pages / "backbones.md").read_text(encoding="utf-8")
    table = text.partition("## Options that matter most")[2]
    cells = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    options = re.findall(r"`(\w+)`", cells)
    parts = re.findall(r"`(\w+)\((\w+)=\)`", cells)
    assert len(options) + len(parts) >= 12
    assert set(options) <= set(inspect.signature(GRAMA).parameters)
    for part, option in parts:
        assert option in inspect.signature(getattr(torch_grama, part)).parameters
    theory = (
        (pages / "theory.md").read_text(encoding="utf-8").partition("the paper errs, in short")[2]
    )
    functions = re.findall(r"`([a-z]\w+_\w+)`", theory)
    known = {*dir(analysis), "num_blocks", "num_recurrences"}
    assert {name for name in functions if name not in known} == set()
