"""What pytest collects, and how Triton is loaded for the tests."""

import os
from importlib.util import find_spec

import torch

# Triton decides when it is imported whether its kernels are interpreted. Where there is no GPU they
# are, so that tests can run them; this must come before anything else imports it.
if not torch.cuda.is_available() and find_spec("triton") is not None:
    os.environ["TRITON_INTERPRET"] = "1"
    import triton  # noqa: F401

    del os.environ["TRITON_INTERPRET"]


# Triton exists for Linux alone; without it the device code cannot be imported for its doctests.
collect_ignore_glob = [] if find_spec("triton") else ["src/torch_grama/nn/engine/triton_*.py"]
