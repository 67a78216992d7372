import torch
from torch_geometric.nn import GCNConv

from torch_grama.nn.backbone import forward_parameters, read_compiled


def test_a_compiled_module_is_read_as_the_one_it_was_made_from():
    module = GCNConv(4, 4)
    compiled = torch.compile(module, backend="eager")

    assert read_compiled(compiled) is module
    assert list(forward_parameters(compiled)) == ["x", "edge_index", "edge_weight"]


def test_any_other_module_is_read_as_it_is():
    module = GCNConv(4, 4)

    assert read_compiled(module) is module
    assert list(forward_parameters(module)) == ["x", "edge_index", "edge_weight"]
