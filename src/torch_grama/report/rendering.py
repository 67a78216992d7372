"""Fills the templates of pages; every value is escaped."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template


def read_asset(name: str) -> str:
    text = (files(__package__) / "templates" / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def render(template: str, **values: object) -> str:
    return _template(template).render(**values)


@lru_cache(maxsize=8)
def _template(name: str) -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(read_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["asset"] = read_asset
    return environment.get_template(name)
