"""Which columns of a table are names, labels, ends of edges: found by what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch_grama.datasets.errors import DatasetError, shown
from torch_grama.datasets.options import Options
from torch_grama.datasets.own_data.table_files import ChooseText, Table
from torch_grama.datasets.task_data import Column

# What columns may be called, in upper or lower case, the best name first.
_NAMES = {
    "id": ("id", "node_id", "nodeid", "node"),
    "label": ("label", "y", "labels", "class", "target"),
    "split": ("split",),
    "source": ("source", "src", "from"),
    "target": ("target", "dst", "to"),
    "weight": ("weight",),
}
NODE_ROLES, EDGE_ROLES = ("id", "label", "split"), ("source", "target", "weight")


def text_columns(roles: Sequence[str], options: Options, columns: Sequence[Column]) -> ChooseText:
    r"""Says which columns are names or words, whatever their cells look like."""
    given = (options.id, options.source, options.target, *options.label, *options.words)
    wanted = {name for role in roles if role != "weight" for name in _NAMES[role]}
    wanted |= {name.casefold() for name in given if name}
    wanted |= {column.name.casefold() for column in columns if column.kind == "words"}
    return lambda names: {name for name in names if name.casefold() in wanted}


def has_role(names: Iterable[str], role: str) -> bool:
    r"""Whether a column is called as those of a role are."""
    return any(name.casefold() in _NAMES[role] for name in names)


class Roles:
    r"""Finds columns by what they are for, and keeps what is to be said about it.

    Args:
        options (Options): What the user says.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._taken: dict[str, str] = {}

    def find(self, table: Table, role: str) -> str | None:
        r"""Returns the column of a role, by the option of that name or by what it is called."""
        given = getattr(self._options, role, None) if role not in ("label", "split") else None
        if given is not None:
            return table.find(given)
        best = _NAMES[role][0]
        found = [name for word in _NAMES[role] for name in table.alike(word)]
        if len(found) > 1 and found[0] != best:
            raise DatasetError(
                f"{table.header} names both {shown(found[0])} and {shown(found[1])}: say "
                f"which is the {role} with `-o {role}={found[0]}`.",
                remedy=f"{role}={found[0]}",
            )
        if found and found[0] not in (best, "y"):
            self._taken[role] = found[0]
        return found[0] if found else None

    def need(self, table: Table, role: str) -> str:
        r"""Returns the column of a role that must be there."""
        why = f"add or rename it, or say which column it is with `-o {role}=NAME`"
        return self.find(table, role) or table.find(role, why)

    def labels(self, table: Table) -> tuple[str, ...]:
        r"""Returns the columns of the target; none is a feature, whether it is read or not."""
        usual = _NAMES["label"][:2]
        wanted = self._options.label or usual
        found = [name for word in wanted for name in table.alike(word)]
        if not self._options.targets:
            return tuple(found)
        if self._options.label:
            return tuple(map(table.find, self._options.label))
        if len(found) > 1:
            raise DatasetError(
                f"{table.header} names both {shown(found[0])} and {shown(found[1])}: say "
                f"which holds the target with `-o label={found[0]} -o ignore={found[1]}`.",
                remedy=f"label={found[0]} -o ignore=[{found[1]}]",
            )
        return (self.need(table, "label"),)

    @property
    def notes(self) -> list[str]:
        r"""What was found under another name than the best one."""
        if not self._taken:
            return []
        found = ", ".join(f"{shown(name)} is the {role}" for role, name in self._taken.items())
        ways = ", ".join(f"`-o {role}=NAME`" for role in self._taken if role in _CHANGED)
        return [f"Columns were found by what they are called: {found} ({ways} names another)."]


_CHANGED = ("id", "label", "source", "target")
