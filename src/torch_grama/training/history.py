"""One row an epoch: kept for the checkpoint, written to metrics.csv and to TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torch_grama.runs.metrics_file import MetricsFile

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class History:
    r"""The numbers of every epoch so far.

    The rows are part of every checkpoint. A resumed run writes the file anew from them, so that it
    has every epoch once, whatever was written after the checkpoint.

    Args:
        columns (sequence of str): Their names; the first is ``epoch``.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self.rows: list[list[float]] = []
        self._table: MetricsFile | None = None
        self._board: SummaryWriter | None = None

    def open(self, csv_path: Path, board_folder: Path | None) -> None:
        r"""Begins to write; rows that are there already are written first.

        Args:
            csv_path (Path): The table.
            board_folder (Path, optional): Folder of the TensorBoard events.
        """
        self._table = MetricsFile(csv_path, self.columns, self.rows)
        if board_folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            # events of epochs that will be run again are hidden
            self._board = SummaryWriter(str(board_folder), purge_step=len(self.rows) or None)

    def add(self, row: Sequence[float]) -> None:
        r"""Adds the numbers of an epoch; NaN where there is none."""
        row = list(row)
        self.rows.append(row)
        if self._table is not None:
            self._table.add(row)
        if self._board is not None:
            for name, value in zip(self.columns[1:], row[1:], strict=True):
                if value == value:
                    self._board.add_scalar(name, value, int(row[0]))

    def flush(self) -> None:
        r"""Brings what was written to the disk."""
        if self._table is not None:
            self._table.flush()
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        r"""Ends writing."""
        if self._table is not None:
            self._table.close()
            self._table = None
        if self._board is not None:
            self._board.close()
            self._board = None

    def state_dict(self) -> dict[str, object]:
        r"""All rows."""
        width = len(self.columns)
        rows = torch.tensor(self.rows, dtype=torch.float64).reshape(-1, width)
        return {"columns": list(self.columns), "rows": rows}

    def load_state_dict(self, state: dict[str, object]) -> None:
        r"""Takes the rows of a checkpoint."""
        rows = state["rows"]
        assert isinstance(rows, Tensor)
        self.rows = rows.tolist()
