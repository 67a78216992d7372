r"""The folder of a run: its files, who works in it, and what was found. Without torch."""

from torch_grama.runs.result import Result
from torch_grama.runs.run_folder import RunError, RunFolder, propose_folder

__all__ = ["Result", "RunError", "RunFolder", "propose_folder"]
