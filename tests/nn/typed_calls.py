"""What a type checker knows of a call; it runs over this file."""

from typing import assert_type

import torch
from torch import Tensor

from torch_grama import GRAMA, GRAMAConv
from torch_grama.nn import ARMACoefficients

x, edge_index = torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.long)
model = GRAMA(3, 4, 2)
assert_type(model(x, edge_index), Tensor)
assert_type(model(x, edge_index, return_coefficients=True), tuple[Tensor, list[ARMACoefficients]])
assert_type(GRAMAConv("gcn", out_channels=3)(x, edge_index), Tensor)
