"""Which arguments a module can be called with."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from torch.nn import Module


def read_compiled(module: Module) -> Module:
    r"""Returns the module that :func:`torch.compile` made a module from, or else the module.

    Args:
        module (Module): Any module. A compiled one hides its signature behind
            ``(*args, **kwargs)``.
    """
    original = getattr(module, "_orig_mod", module)
    assert isinstance(original, Module)
    return original


def forward_parameters(module: Module) -> Mapping[str, inspect.Parameter]:
    r"""The parameters of a module's forward method by name, compiled or not.

    Args:
        module (Module): Any module.
    """
    return inspect.signature(read_compiled(module).forward).parameters
