"""Parts of pages that are read off the package, so that they cannot differ from it."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from command_text import describe_commands, describe_settings
from example_text import describe_examples
from model_text import describe_models
from results_text import describe_results
from runtime_text import describe_depth, describe_molecules, describe_sizes
from suite_text import describe_suites

PARTS = {
    "commands.md": describe_commands,
    "settings.md": describe_settings,
    "models.md": describe_models,
    "examples.md": describe_examples,
    "suites.md": describe_suites,
    "depth32.md": describe_depth,
    "molecules.md": describe_molecules,
    "sizes.md": describe_sizes,
    "results.md": describe_results,
}


def write_parts(app: Sphinx) -> None:
    """Writes each part, and leaves alone what is already as it should be."""
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(parents=True, exist_ok=True)
    for name, describe in PARTS.items():
        path, text = folder / name, describe()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_parts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
