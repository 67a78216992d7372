"""Lets these tests write run folders as those of the report do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "report"))
