"""The page: what it holds, that it is safe whatever files say, and that it needs nothing else."""

import base64
import hashlib
import json
import re
import subprocess
import sys

import pytest
from html_reader import Reader
from run_folders import make_analysis, write_run

from torch_grama.cli import main
from torch_grama.report.page import MAX_BYTES, build_page, embed_json, write_page
from torch_grama.report.page_cards import compare_runs
from torch_grama.runs.run_files import read_run_files
from torch_grama.runs.run_folder import RunError

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}"


@pytest.fixture
def page(tmp_path):
    runs = [read_run_files(write_run(tmp_path / name)) for name in ("first", "second")]
    return Reader(build_page(runs).html)


def test_everything_asked_for_is_there(page):
    sections = {element["id"] for element in page.find("section")}
    assert sections == {
        "summary",
        "learning",
        "comparison",
        "reach",
        "spread",
        "dynamics",
        "smooth",
        "errors",
        "settings",
        "files",
    }
    figures = page.data["figures"]
    for name in ("losses", "metric-0", "influence-total", "poles-0", "poles-1", "coefficients-0"):
        assert name in figures
        assert page.find("div", id=name)
    assert set(page.data["examples"]) == {"example-0", "example-1"}


def test_every_figure_says_in_words_what_it_shows(page):
    images = page.find("div", role="img")
    assert len(images) == len(page.data["figures"]) + len(page.data["examples"])
    assert all(len(image["aria-label"]) > 40 for image in images)
    # and those who see it read in a line what it is
    seen = [image["aria-label"] for image in images if image["id"] in page.data["figures"]]
    assert all(label[:40] in page.text for label in seen)


def test_every_control_has_a_name(page):
    for element in page.find("input"):
        assert element["aria-label"]
    assert "Skip to the content" in page.text


def test_nothing_is_loaded_from_elsewhere(page):
    for tag, attributes in page.elements:
        for name in ("src", "srcset", "action", "data", "poster"):
            assert name not in attributes, (tag, attributes)
        if tag == "link":
            assert attributes["href"].startswith("data:")


def test_the_policy_allows_exactly_the_scripts_of_the_page(page):
    (policy,) = [
        element["content"]
        for element in page.find("meta")
        if element.get("http-equiv") == "Content-Security-Policy"
    ]
    scripts = [text for kind, text in page.scripts if "type" not in kind]
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    }
    assert set(re.search(r"script-src ([^;]*)", policy)[1].split()) == hashes
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy


def test_the_page_is_below_its_limit(tmp_path):
    runs = [read_run_files(write_run(tmp_path / f"run{i}")) for i in range(20)]
    page = build_page(runs).html
    assert len(page.encode()) < MAX_BYTES <= 2_000_000
    assert "The dynamics of 8 runs are left out" in page


def test_detail_gives_way_where_the_page_would_be_too_large(tmp_path, monkeypatch):
    runs = [read_run_files(write_run(tmp_path / f"run{i}")) for i in range(6)]
    size = len(build_page(runs).html.encode())
    monkeypatch.setattr("torch_grama.report.page.MAX_BYTES", size - 1)
    smaller = build_page(runs).html
    assert len(smaller.encode()) < size
    assert "The dynamics of 2 runs are left out" in smaller
    monkeypatch.setattr("torch_grama.report.page.MAX_BYTES", 1000)
    with pytest.raises(RunError, match="name fewer runs"):
        build_page(runs)


def test_no_run_no_page():
    with pytest.raises(RunError, match="at least one run"):
        build_page([])


def test_without_an_analysis_the_page_says_how_to_make_one(tmp_path):
    run = read_run_files(write_run(tmp_path / "run", analysis=False))
    page = Reader(build_page([run]).html)
    sections = {element["id"] for element in page.find("section")}
    assert sections & {"reach", "spread", "errors", "smooth"} == set()
    # the poles while training are known without it
    assert "poles-0" in page.data["figures"]
    assert f"grama analyze {run.folder}" in page.text


def test_an_empty_folder_of_a_run_still_makes_a_page(tmp_path):
    for name in ("config.yaml", "result.json", "metrics.csv", "analysis.json"):
        (tmp_path / name).write_text("")
    text = Reader(build_page([read_run_files(tmp_path)]).html).text
    assert "'result.json' holds no readable JSON" in text
    assert "There are no learning curves yet" in text


def poison(value):
    """The same structure with every string, and every key, made evil."""
    if isinstance(value, dict):
        return {key: poison(item) for key, item in value.items()}
    if isinstance(value, list):
        return [poison(item) for item in value]
    return EVIL if isinstance(value, str) else value


def test_no_string_of_a_file_becomes_markup(tmp_path):
    folder = write_run(tmp_path / EVIL.replace("/", "|"), data=EVIL, model=EVIL)
    analysis = poison(make_analysis())
    analysis["influence"][EVIL] = analysis["influence"]["gcn"]
    (folder / "analysis.json").write_text(json.dumps(analysis))
    (folder / "data.json").write_text(json.dumps({"class_names": [EVIL, EVIL]}))
    (folder / "config.yaml").write_text(json.dumps({EVIL: EVIL, "model": {"backbone": EVIL}}))
    (folder / "metrics.csv").write_text('epoch,"val/' + EVIL.replace('"', '""') + '"\n0,1\n1,2\n')
    text = build_page([read_run_files(folder)], title=EVIL).html
    page = Reader(text)
    assert not page.find("img")
    assert len([kind for kind, _ in page.scripts if "type" not in kind]) == 3
    assert not [name for _, found in page.elements for name in found if name.startswith("on")]
    assert "49" not in page.text.replace("{{7*7}}", "")
    assert EVIL in page.text


@pytest.mark.parametrize("text", ["</script>", "<!--", "a & b", "\u2028", 'quote"', "é"])
def test_embedded_json_cannot_end_its_element(text):
    embedded = embed_json({"key": text})
    assert json.loads(embedded) == {"key": text}
    assert not set("<>&\u2028") & set(embedded)


WRONG = [None, 1, "text", [], {}, [[]], [None], [{}], {"model": 1}, [[1], [2, 3]], [[["x"]]]]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_an_analysis_of_any_form_makes_a_page(tmp_path, wrong):
    folder = write_run(tmp_path / "run")
    for part in make_analysis():
        broken = make_analysis() | {part: wrong}
        (folder / "analysis.json").write_text(json.dumps(broken))
        build_page([read_run_files(folder)])


@pytest.mark.parametrize("part", ["blocks", "example", "errors", "influence"])
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_part_of_any_form_makes_a_page(tmp_path, part, wrong):
    folder = write_run(tmp_path / "run")
    whole = make_analysis()
    inner = whole[part][0] if isinstance(whole[part], list) else whole[part]
    for key in list(inner):
        kept, inner[key] = inner[key], wrong
        (folder / "analysis.json").write_text(json.dumps(whole))
        build_page([read_run_files(folder)])
        inner[key] = kept


def test_links_lead_from_the_page_to_the_files(tmp_path):
    run = read_run_files(write_run(tmp_path / "runs" / "a run & more"))
    path = write_page([run], tmp_path / "out" / "report.html")
    page = Reader(path.read_text(encoding="utf-8"))
    links = [element["href"] for element in page.find("a") if "config.yaml" in element["href"]]
    assert links == ["../runs/a%20run%20%26%20more/config.yaml"]


def test_the_page_is_made_without_torch(tmp_path):
    folder = write_run(tmp_path / "run")
    out = tmp_path / "report.html"
    program = f"""
import sys
for name in ("torch", "torch_geometric", "numpy", "pytorch_lightning"):
    sys.modules[name] = None
from torch_grama.cli import main
sys.exit(main(["report", {str(folder)!r}, "--out", {str(out)!r}]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size < MAX_BYTES
    assert str(out) in done.stdout


def test_the_command_says_what_was_not_read(tmp_path, capsys):
    folder = write_run(tmp_path / "run")
    (folder / "analysis.json").write_text("{")
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 0
    assert "run: 'analysis.json' holds no readable JSON" in capsys.readouterr().err


def test_the_command_refuses_in_one_sentence(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none"), "--out", str(tmp_path / "report.html")]) == 2
    assert capsys.readouterr().err.startswith("grama: There is no folder")
    assert not (tmp_path / "report.html").exists()


def test_a_folder_of_runs_stands_for_its_runs(tmp_path, capsys):
    for name in ("a", "b"):
        write_run(tmp_path / "runs" / name, analysis=False)
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert "2 runs: a, b" in Reader(out.read_text(encoding="utf-8")).text


def test_a_run_of_an_older_version_says_so(tmp_path):
    folder = write_run(tmp_path / "run")
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("versions:", "versions:\n    torch_grama: 0.1.0"))
    (table,) = compare_runs([read_run_files(folder)])
    (note,) = [row.note for row in table.rows if row.is_ours]
    assert note == "seed 3, fold 0, made by version 0.1.0, and the model has changed since"
