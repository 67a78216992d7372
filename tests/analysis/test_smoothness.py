import pytest
import torch
from analysis_graphs import MessagePassingStack, Stage, grama, graph, path_edges
from coefficient_strategies import normal, quick, seeds
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from torch_grama.analysis import ModelInput, dirichlet_energy, measure_smoothness, read_input
from torch_grama.nn.readout import ReadoutMLP


def dense_energy(X, edge_index, weight):
    """tr(X^T L X) / tr(X^T X) with the Laplacian as a matrix."""
    n = len(X)
    A = torch.zeros(n, n, dtype=X.dtype)
    A.index_put_(tuple(edge_index), weight, accumulate=True)
    A = (A + A.T) / 2
    A.fill_diagonal_(0)
    degree = A.sum(1)
    scale = torch.where(degree > 0, degree, 1).rsqrt()
    L = torch.diag((degree > 0).to(X.dtype)) - scale[:, None] * A * scale
    return torch.trace(X.T @ L @ X) / torch.trace(X.T @ X)


@quick
@given(seeds, st.integers(1, 8), st.integers(0, 20), st.booleans())
def test_energy_equals_the_laplacian(seed, num_nodes, num_edges, weighted):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    weight = torch.rand(num_edges, generator=generator).double() if weighted else None
    X = normal(seed, num_nodes, 3)
    energy = dirichlet_energy(X, edge_index, weight)
    ones = torch.ones(num_edges, dtype=torch.float64) if weight is None else weight
    assert torch.allclose(energy, dense_energy(X, edge_index, ones), atol=1e-12)
    assert -1e-12 <= energy <= 2 + 1e-12
    assert torch.allclose(dirichlet_energy(-7 * X, edge_index, weight), energy, atol=1e-12)


def test_limits_of_smoothing():
    """Graph convolutions end at the root of the degree; a bipartite sign pattern is roughest."""
    edge_index = path_edges(6)
    degree = torch.bincount(edge_index[0]).double()
    smooth, sign = degree.sqrt(), torch.tensor([1.0, -1.0]).double().repeat(3)
    states = torch.stack([smooth, smooth * sign]).unsqueeze(-1)
    expected = torch.tensor([0.0, 2.0]).double()
    assert torch.allclose(dirichlet_energy(states, edge_index), expected, atol=1e-12)
    assert dirichlet_energy(torch.zeros(6, 2), edge_index) == 0


def test_batches_and_gradients():
    inputs = read_input([graph(4), graph(1), graph(3)])
    states = normal(0, 2, 8, 3).requires_grad_()
    energy = dirichlet_energy(states, inputs.edge_index, None, inputs.batch, 4)
    assert energy.size() == (2, 4)
    for index, part in enumerate([slice(0, 4), slice(4, 5), slice(5, 8)]):
        edges = path_edges(part.stop - part.start)
        assert torch.allclose(energy[:, index], dirichlet_energy(states[:, part], edges))
    assert (energy[:, 3] == 0).all()
    assert torch.autograd.gradcheck(lambda s: dirichlet_energy(s, inputs.edge_index), states)


def test_every_recurrence_has_an_entry():
    model, graphs = grama(), [graph(5), graph(3)]
    found = measure_smoothness(Stage(model), graphs)
    assert found.labels[:2] == ["embedding", "block 1, step 1"]
    assert found.labels[-1] == "block 2, step 3"
    assert len(found.energy) == len(found.size) == 7
    inputs = read_input(graphs)
    states = model.embedding(2 * inputs.x)[0].detach()
    expected = dirichlet_energy(states[-1], inputs.edge_index, None, inputs.batch).mean()
    assert found.energy[0] == pytest.approx(float(expected), rel=1e-4)
    assert found.size[0] == pytest.approx(float(states[-1].square().mean().sqrt()), rel=1e-4)


def test_layers_of_a_plain_stack_are_found():
    class Mean(MessagePassingStack):
        def forward(self, x, edge_index, *_):
            degree = 1 + torch.bincount(edge_index[1], minlength=len(x)).to(x)
            scale = degree.rsqrt().unsqueeze(-1)
            for layer in self.layers:
                message = scale * x
                gathered = torch.zeros_like(x).index_add(0, edge_index[1], message[edge_index[0]])
                x = layer(scale * (message + gathered))
            return x

    model = Mean(40)
    model.heads = nn.ModuleList([nn.Identity()])  # a shorter list that is never called
    found = measure_smoothness(model, graph(6))
    assert found.labels == [f"layer {k}" for k in range(1, 41)]
    assert found.energy[0] > found.energy[10] > found.energy[39] < 0.05
    assert not any(module._forward_hooks for module in model.modules())


def test_the_readout_is_no_layer():
    class Headed(MessagePassingStack):
        def __init__(self):
            super().__init__(1)
            self.readout = ReadoutMLP(3, 3, 4, torch.relu, 0.0).double()

        def forward(self, x, edge_index, *_):
            return self.readout(self.layers[0](x))

    found = measure_smoothness(Headed(), graph(4))
    assert found.labels == ["layer 1"]
    expected = dirichlet_energy(graph(4).x, graph(4).edge_index)
    assert found.energy == [pytest.approx(float(expected), rel=1e-4)]


def test_unusable_arguments():
    class Linear(nn.Linear):
        def forward(self, x, *_):
            return super().forward(x)

    with pytest.raises(ValueError, match=r"got none in Linear\)"):
        measure_smoothness(Linear(3, 3).double(), graph(3))
    with pytest.raises(ValueError, match=r"floating point of shape .*got torch.int64"):
        dirichlet_energy(torch.ones(3, 1, dtype=torch.long), path_edges(3))
    with pytest.raises(ValueError, match=r"not to be negative \(got -1\)"):
        dirichlet_energy(torch.ones(3, 1), path_edges(3), -torch.ones(4))
    # signed weights of a model's input are no obstacle
    weighted = ModelInput(graph(3).x, path_edges(3), edge_weight=-torch.ones(4).double())
    assert len(measure_smoothness(grama(coefficients="naive"), weighted).energy) == 7
