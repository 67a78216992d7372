"""The gallery: every file of the folder examples, with what it says of itself."""

from __future__ import annotations

import ast
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def describe_examples() -> str:
    """Returns a section for each example: its words, how to run it, and its code to fold out."""
    parts = []
    for path in sorted(EXAMPLES.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        title, _, words = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
        # indented lines are commands, which the section gives below
        said = "\n\n".join(part for part in words.split("\n\n") if not part.startswith("    "))
        parts.append(
            f"## {title.rstrip('.')}\n\n{said}\n\n"
            f"```bash\npython examples/{path.name}\n```\n\n"
            f"<details>\n<summary>{path.name}</summary>\n\n```python\n{source}```\n\n</details>\n"
        )
    return "\n".join(parts)
