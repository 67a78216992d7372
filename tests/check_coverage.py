"""Fails when a room of the package has too few of its lines run by the tests.

python tests/check_coverage.py, after pytest --cov
"""

from __future__ import annotations

import sys

from coverage import Coverage
from coverage.exceptions import CoverageException

FLOORS = {
    "analysis": 95,
    "baselines": 95,
    "cli": 90,
    "datasets": 90,
    "experiments": 90,
    "nn": 95,
    "report": 90,
    "reproduce": 90,
    "runs": 95,
    "search": 90,
    "training": 90,
}
"""Every room, and the share of its lines that must be run, in percent."""

# Triton's device code is compiled, or run by its interpreter, where coverage cannot follow; a CUDA
# graph needs a CUDA device.
LEFT_OUT = ["*/nn/engine/triton_*.py", "*/training/captured_step.py"]


def check(measured: Coverage) -> list[str]:
    """Prints the files of each room that have lines which were not run; names rooms below."""
    low = []
    for room, floor in FLOORS.items():
        print(f"\n{room}, at least {floor} %")
        try:
            share = measured.report(
                include=f"*/torch_grama/{room}/*", omit=LEFT_OUT, skip_covered=True
            )
        except CoverageException as error:  # nothing of it was run
            print(error)
            share = 0.0
        if share < floor:
            low.append(f"{room} has {share:.1f} % of its lines run, and must have {floor} %")
    return low


if __name__ == "__main__":
    measured = Coverage()
    measured.load()
    sys.exit("\n".join(check(measured)) or None)
