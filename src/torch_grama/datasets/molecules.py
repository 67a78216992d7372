"""Molecules as the Open Graph Benchmark sees them: nine atom and three bond features."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from torch_grama.datasets.compact import Array, CompactGraphs, column
from torch_grama.datasets.errors import DatasetError
from torch_grama.datasets.task_data import FeatureEncoding

if TYPE_CHECKING:
    from torch_grama.datasets.storage import Report

ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
BOND_SIZES = (5, 6, 2)
ATOMS = FeatureEncoding("ogb_atom", len(ATOM_SIZES), ATOM_SIZES)
BONDS = FeatureEncoding("ogb_bond", len(BOND_SIZES), BOND_SIZES)


def pack_bonds(
    x: Array,
    num_nodes: Array,
    bonds: Array,
    bond_attr: Array,
    num_bonds: Array,
    y: Array,
    where: str,
) -> CompactGraphs:
    r"""Packs molecules whose bonds are listed once.

    A bond expands to :math:`u \to v, v \to u`, both with its features, as the Open Graph Benchmark
    lists them.

    Args:
        x (array): Atom features ``[N, 9]``.
        num_nodes (array): Atoms of each molecule.
        bonds (array): Local atom numbers ``[2, M]``.
        bond_attr (array): Bond features ``[M, 3]``.
        num_bonds (array): Bonds of each molecule.
        y (array): Targets, one row a molecule, in their final type.
        where (str): The file they come from, for the message.

    Raises:
        DatasetError: If the arrays do not fit together or a feature is out of its range.
    """
    for name, table, sizes in (("atom", x, ATOM_SIZES), ("bond", bond_attr, BOND_SIZES)):
        if table.ndim != 2 or table.shape[1] != len(sizes):
            raise DatasetError(
                f"Expected {len(sizes)} {name} features in '{where}' (got shape {table.shape}); "
                "fetch the file again"
            )
        if len(table) and bool((table.max(axis=0) >= sizes).any() or (table.min() < 0)):
            raise DatasetError(
                f"Expected the {name} features in '{where}' to be below {sizes} (got "
                f"{table.max(axis=0).tolist()}); fetch the file again"
            )
    try:
        return CompactGraphs(
            num_nodes,
            num_bonds,
            bonds,
            {
                "x": column("node", x, "int64"),
                "edge_attr": column("edge", bond_attr, "int64"),
                "y": column("graph", y),
            },
            "interleaved",
        )
    except DatasetError as error:
        raise DatasetError(f"'{where}' does not fit together: {error}") from error


def featurise(
    smiles: Sequence[str], y: Array, where: str, report: Report | None = None
) -> CompactGraphs:
    r"""Turns SMILES strings into graphs with the features of the Open Graph Benchmark.

    Takes rdkit and ogb.

    Args:
        smiles (sequence of str): The molecules.
        y (array): Targets, one row a molecule.
        where (str): The file they come from, for the message.
        report (callable, optional): Told about the progress. (default: :obj:`None`)

    Raises:
        DatasetError: If a string cannot be read as a molecule.
    """
    smiles2graph = _import_smiles2graph()
    atoms, bonds, bond_attr, num_nodes, num_bonds = [], [], [], [], []
    for number, text in enumerate(smiles):
        try:
            graph = smiles2graph(text)
        except (AttributeError, ValueError, RuntimeError) as error:
            raise DatasetError(
                f"Expected row {number} of '{where}' to hold a molecule (got '{text[:60]}'): "
                "check the file, or use the compact arrays"
            ) from error
        atoms.append(graph["node_feat"].astype(np.uint8))
        # Both directions are interleaved; one of them is kept.
        bonds.append(graph["edge_index"][:, ::2])
        bond_attr.append(graph["edge_feat"][::2].astype(np.uint8))
        num_nodes.append(len(atoms[-1]))
        num_bonds.append(bonds[-1].shape[1])
        if report is not None and (number % 50 == 49 or number + 1 == len(smiles)):
            report("reading molecules", number + 1, len(smiles))
    return pack_bonds(
        np.concatenate(atoms),
        np.array(num_nodes),
        np.concatenate(bonds, axis=1),
        np.concatenate(bond_attr),
        np.array(num_bonds),
        y,
        where,
    )


def _import_smiles2graph() -> Callable[[str], dict[str, NDArray[np.int64]]]:
    """Imports ogb's reader without letting ogb ask the network for its own latest version."""
    hidden = sys.modules.get("outdated")
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        from ogb.utils.mol import smiles2graph
    except ImportError as error:
        raise DatasetError(
            f"Reading SMILES takes rdkit and ogb ({error}): run `pip install "
            "'torch-grama[molecules]'`"
        ) from error
    finally:
        if hidden is None:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = hidden
    return cast("Callable[[str], dict[str, NDArray[np.int64]]]", smiles2graph)
