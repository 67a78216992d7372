"""The command ``grama`` as ``python -m torch_grama``."""

import sys

from torch_grama.cli import main

sys.exit(main())
