import pytest
import torch
from torch_geometric.utils import to_dense_adj

from torch_grama import GRAMA
from torch_grama.nn import RootedGCNConv

CHANNELS = 5


def dense_formula(module, data, edge_weight=None):
    edges = {"edge_attr": edge_weight, "max_num_nodes": data.num_nodes}
    # to_dense_adj has a row for each source
    adjacency = to_dense_adj(data.edge_index, **edges)[0].to(data.x.dtype).t()
    has_loop = adjacency.diagonal() != 0
    adjacency = adjacency + torch.diag((~has_loop).to(data.x.dtype))
    scale = adjacency.sum(dim=1).rsqrt()
    out = (scale[:, None] * adjacency * scale) @ data.x @ module.lin.weight.t()
    out = out + data.x @ module.root.weight.t()
    return out if module.bias is None else out + module.bias


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_equals_the_dense_formula(directed, bias, weighted):
    module = RootedGCNConv(CHANNELS, bias=bias).double()
    weight = torch.rand(directed.num_edges, dtype=torch.float64) if weighted else None

    out = module(directed.x, directed.edge_index, weight)

    assert torch.allclose(out, dense_formula(module, directed, weight))


def test_reset_draws_both_maps_anew():
    module = RootedGCNConv(CHANNELS)
    before = module.lin.weight.clone(), module.root.weight.clone()

    module.reset_parameters()

    assert not torch.equal(module.lin.weight, before[0])
    assert not torch.equal(module.root.weight, before[1])


def test_root_sees_the_node_alone():
    module = RootedGCNConv(CHANNELS).double()
    torch.nn.init.zeros_(module.lin.weight)
    x = torch.randn(4, CHANNELS, dtype=torch.float64)
    edges = torch.tensor([[0, 1, 2], [3, 3, 3]])

    assert torch.allclose(module(x, edges), module.root(x) + module.bias)


def test_edge_attributes_are_refused_with_a_way_out():
    with pytest.raises(
        ValueError, match=r"backbone='gcn-root' with edge_dim set\); use 'gatedgcn'"
    ):
        GRAMA(3, 8, 2, backbone="gcn-root", edge_dim=2)
