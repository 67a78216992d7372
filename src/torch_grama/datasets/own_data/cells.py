"""What the text of a cell says: nothing, a number or a date."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MISSING = frozenset(
    (
        "",
        "NA",
        "na",
        "N/A",
        "n/a",
        "#N/A",
        "<NA>",
        "NaN",
        "nan",
        "NaT",
        "null",
        "NULL",
        "-",
        "?",
        ".",
    )
)
"""Words that stand for a cell without value."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GROUPS = r"[+-]?\d{1,3}(?:(?P<mark>[%s' \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*(?:%s\d+)?"
_GROUPED = {".": re.compile(_GROUPS % (",", r"\.")), ",": re.compile(_GROUPS % (r"\.", ","))}
_MARKS = {".": re.compile(r"[,' \u00a0\u202f]"), ",": re.compile(r"[.' \u00a0\u202f]")}
_YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})"
)
_YEAR_LAST = re.compile(
    r"(?P<day>\d{1,2})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<year>\d{4})"
)
_TIME = re.compile(r"[T ]+(\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(Z|[+-]\d{2}:?\d{2})?")
_MONTH = re.compile(r"(?=.{8,24}$)[\d. ,-]*[A-Za-z]{3,9}[\d. ,-]*\d{4}")
_NAMED_MONTHS = ("%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d. %B %Y")


def read_number(text: str, decimal: str = ".") -> float | None:
    r"""Reads a number, with a decimal point or comma and with or without marks of thousands.

    Example:
        >>> read_number("1,234.5"), read_number("1.234,5", ","), read_number("4o")
        (1234.5, 1234.5, None)
    """
    if _GROUPED[decimal].fullmatch(text):
        text = _MARKS[decimal].sub("", text)
    elif decimal == "," and "." in text:
        return None
    if decimal == ",":
        text = text.replace(",", ".")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def read_date(text: str, day_first: bool = True) -> float | None:
    r"""Reads a date, with or without a time, as days since 1970-01-01.

    Known are ``2024-03-01``, ``2024/3/1``, ``01.03.2024``, ``01/03/2024``, ``1 Mar 2024`` and
    ``Mar 1, 2024``, each with a time such as ``12:30`` behind it or not.

    Args:
        text (str): The cell.
        day_first (bool, optional): Whether ``01/03/2024`` is in March; with points it always is.
            (default: :obj:`True`)
    """
    found = _YEAR_FIRST.match(text) or _YEAR_LAST.match(text)
    try:
        if found is None:
            return _days(_named_month(text))
        month, day = found["month"], found["day"]
        if found.re is _YEAR_LAST and found["mark"] != "." and not day_first:
            month, day = day, month
        time = _TIME.fullmatch(text, found.end())
        if time is None and found.end() < len(text):
            return None
        clock = "" if time is None else f"T{'0' * (time[1][1] == ':')}{time[1]}{time[2] or ''}"
        return _days(datetime.fromisoformat(f"{found['year']}-{month:0>2}-{day:0>2}{clock}"))
    except ValueError:
        return None


def _named_month(text: str) -> datetime:
    for form in _NAMED_MONTHS if _MONTH.fullmatch(text) else ():
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    raise ValueError(text)


def _days(date: datetime) -> float:
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - _EPOCH).total_seconds() / 86400
