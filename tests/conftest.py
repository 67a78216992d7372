"""Loads Triton for its interpreter where there is no GPU: it decides that when it is imported."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

if not torch.cuda.is_available() and find_spec("triton") is not None:
    os.environ["TRITON_INTERPRET"] = "1"
    import triton  # noqa: F401

    del os.environ["TRITON_INTERPRET"]
