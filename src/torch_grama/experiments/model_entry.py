"""What the catalogue of models says about each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch.nn import Module


def _nothing_old(option: str, value: object) -> str | None:
    return None


@dataclass(frozen=True)
class ModelEntry:
    r"""One model that can be built by word.

    Attributes:
        build: The class, or a function, that makes it. Called as ``build(in_channels,
            hidden_channels, out_channels, num_layers, readout=..., **options)``; the module is
            called as ``model(x, edge_index, edge_weight, edge_attr, batch, batch_size)``.
        family: The heading under which it is listed.
        equation: Its update in one line of plain text.
        reference: Authors, title, year.
        cost: What one layer costs, in N nodes, E edges, F channels, such as ``N F^2 + E F``.
        source: The PyG class that does the work, or ``torch_grama``.
        equivariant: Whether renumbering the nodes renumbers the output and changes nothing else.
        takes_edge_attr: Whether it uses edge attributes (it then takes ``edge_dim``).
        takes_sequence: Whether it reads a sequence of features ``[N, L, C]``; the others get the
            elements side by side, ``[N, L * C]``.
        departures: What differs from its paper, and which reading was taken where the paper leaves
            something open; one sentence each. Empty: none known.
        defaults: Options that this word sets, such as the variant it stands for.
        changed_in: The version in which its weights or settings changed last, if they did.
        explain_old: Says in a sentence what to write in place of an option, or of its value, that
            was valid in an earlier version; :obj:`None` for any other.
    """

    build: Callable[..., Module]
    family: str
    equation: str
    reference: str
    cost: str
    source: str
    equivariant: bool = True
    takes_edge_attr: bool = False
    takes_sequence: bool = False
    departures: tuple[str, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    changed_in: str = ""
    explain_old: Callable[[str, object], str | None] = _nothing_old
