import pytest
import torch
import torch.nn.functional as F

from torch_grama.nn import GRAMA, Readout
from torch_grama.nn.readout import POOLINGS, ReadoutMLP, pool_graphs, pooled_channels

BATCH = torch.tensor([0, 0, 0, 2, 2])
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_cuda])]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_against_a_loop_over_graphs(pooling):
    x = torch.randn(5, 4, dtype=torch.float64) - 3  # a maximum below zero is not lost
    one = {"mean": lambda g: g.mean(0), "sum": lambda g: g.sum(0), "max": lambda g: g.amax(0)}
    rows = []
    for graph in (x[:3], None, x[3:]):
        parts = [torch.zeros(4) if graph is None else one[p](graph) for p in POOLINGS[pooling]]
        rows.append(torch.cat([part.double() for part in parts]))
    found = pool_graphs(x, BATCH, 3, pooling)
    torch.testing.assert_close(found, torch.stack(rows))
    assert found.size(1) == pooled_channels(4, pooling)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_one_graph_needs_no_batch_vector(pooling):
    x = torch.randn(5, 4)
    alone = pool_graphs(x, pooling=pooling)
    torch.testing.assert_close(alone, pool_graphs(x, torch.zeros(5, dtype=torch.long), 1, pooling))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients(pooling):
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: pool_graphs(x, BATCH, 3, pooling), (x,))


def test_no_nodes_at_all():
    assert pool_graphs(torch.zeros(0, 4), pooling="max").tolist() == [[0.0] * 4]


class TestSettings:
    def test_a_word_is_a_level(self):
        assert Readout.of("graph") == Readout(level="graph")
        given = Readout(num_layers=3)
        assert Readout.of(given) is given

    def test_reach_the_model(self):
        model = GRAMA(3, 8, 2, readout=Readout("graph", "sum-max-mean", 3))
        assert [layer.in_features for layer in model.head.layers] == [24, 24, 24]
        assert model.readout.level == "graph"


class TestMLP:
    # before the last layer alone, so that one layer has no dropout
    @pytest.mark.parametrize(("num_layers", "dropout"), [(1, 0.5), (3, 0.0)])
    def test_layers_by_hand(self, num_layers, dropout):
        module, x = ReadoutMLP(4, 2, num_layers, F.relu, dropout), torch.randn(5, 4)
        out = module(x)
        for layer in module.layers[:-1]:
            x = layer(x).relu()
        assert len(module.layers) == num_layers
        assert torch.equal(out, module.layers[-1](x))

    @pytest.mark.parametrize("act", [None, "identity"])
    def test_without_an_activation_only_the_readout_bends(self, act):
        readout = Readout("node", num_layers=2)
        model = GRAMA(3, 8, 8, coefficients="naive", act=act, readout=readout).double()
        x, y = torch.randn(2, 4, 3).double()
        edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])

        def bends():
            one, other, both, none = (model(z, edge_index) for z in (x, y, x + y, 0 * x))
            return not torch.allclose(one + other, both + none)

        assert bends()
        model.head = torch.nn.Identity()
        assert not bends()

    def test_dropout_only_while_training(self):
        module = ReadoutMLP(16, 2, 2, F.relu, 0.5)
        x = torch.randn(5, 16)
        assert not torch.equal(module(x), module(x))
        module.eval()
        assert torch.equal(module(x), module(x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("pooling", "expected"), [("sum", 1000.0), ("mean", 1.0), ("max", 1.0)])
def test_a_thousand_nodes_are_pooled_whatever_the_precision(pooling, expected, dtype, device):
    x = torch.ones(1000, 4, device=device, dtype=dtype, requires_grad=True)
    pooled = pool_graphs(x, torch.zeros(1000, dtype=torch.long, device=device), 1, pooling)
    assert pooled.dtype == dtype
    assert torch.equal(pooled, torch.full((1, 4), expected, device=device, dtype=dtype))
    pooled.sum().backward()
    assert x.grad.double().sum().item() == pytest.approx(4 * expected, rel=0.01)
