import pytest
import torch
from coefficient_strategies import coefficients, companion, dense_loop, normal, quick, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATv2Conv, GCNConv, GPSConv

from torch_grama.analysis import (
    closed_loop_bound,
    closed_loop_gain,
    closed_loop_radius,
    operator_norm,
    satisfies_sufficient_condition,
    spectral_radius,
)

few = settings(quick, max_examples=15)


def dense_radius(phi, theta, G):
    return torch.linalg.eigvals(dense_loop(phi, theta, G)).abs().max()


def random_graph(seed, num_nodes, kind):
    """A propagation matrix with self-loops: symmetric on a path or any graph, or directed mean."""
    A = torch.diag(torch.ones(num_nodes - 1, dtype=torch.float64), -1)
    if kind != "path":
        A = (normal(seed, num_nodes, num_nodes) > 1).double()
    A = A if kind == "directed" else A + A.T
    A = (A + torch.eye(num_nodes, dtype=torch.float64) > 0).double()
    degree = A.sum(1)
    if kind == "directed":
        return A / degree[:, None]
    return A / (degree[:, None] * degree[None]).sqrt()


@st.composite
def loops(draw):
    """Coefficients, and the matrix of a convolution with random weights on a small graph."""
    seed = draw(seeds)
    phi, theta = normal(seed, draw(st.integers(1, 4))), normal(seed + 1, draw(st.integers(1, 3)))
    if draw(st.booleans()):
        phi, theta = phi.abs() / phi.abs().sum(), theta.abs() / theta.abs().sum()
    kind = draw(st.sampled_from(["path", "undirected", "directed"]))
    channels = draw(st.integers(1, 3))
    # The dense solver that judges the result fails on weights near the end of the number range.
    weight = draw(st.one_of(st.just(0.0), st.floats(1e-3, 1.5)))
    W = weight * normal(seed + 2, channels, channels)
    return phi, theta, random_graph(seed + 3, draw(st.integers(1, 8)), kind), W


def convolution(A, W, bias=0.0):
    return lambda x: A.to(x.dtype) @ x @ W.to(x.dtype).T + bias


def on_graph(conv, edge_index, act=torch.Tensor.clone):
    return lambda x: act(conv(x, edge_index))


@few
@given(loops())
def test_radius_equals_dense_eigenvalues(loop):
    phi, theta, A, W = loop
    point = torch.zeros(len(A), len(W), dtype=torch.float64)
    radius = closed_loop_radius(phi, theta, convolution(A, W), point)
    assert radius.size() == ()
    # A double eigenvalue limits the dense solver to the root of its precision.
    assert torch.allclose(radius, dense_radius(phi, theta, torch.kron(A, W)), rtol=1e-4, atol=1e-4)


@few
@given(loops())
def test_bounds_hold(loop):
    phi, theta, A, W = loop
    point = torch.zeros(len(A), len(W), dtype=torch.float64)
    backbone = convolution(A, W)
    norm = operator_norm(backbone, point)
    assert torch.allclose(norm, torch.linalg.matrix_norm(torch.kron(A, W), 2), atol=1e-9)
    radius = closed_loop_radius(phi, theta, backbone, point)
    sharp = closed_loop_bound(phi, theta, norm, sharp=True)
    assert radius <= sharp * (1 + 1e-6) + 1e-9


def test_complex_dominant_pair():
    """A rotation of the channels turns every state; no single direction ever dominates."""
    W = 0.8 * torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    A = random_graph(0, 6, "undirected")
    phi, theta = torch.tensor([0.3, 0.2]).double(), torch.tensor([0.4]).double()
    eigenvalues = torch.linalg.eigvals(dense_loop(phi, theta, torch.kron(A, W)))
    largest = eigenvalues[eigenvalues.abs().argmax()]
    assert abs(largest.imag) > 0.1
    radius = closed_loop_radius(phi, theta, convolution(A, W), torch.zeros(6, 2).double())
    assert torch.allclose(radius, largest.abs(), rtol=1e-8)


def test_radius_is_the_growth_of_the_recurrence():
    """Run the block as GRAMA does and look at how fast its states grow."""
    phi, theta = torch.tensor([0.4, 0.2]).double(), torch.tensor([0.3, -0.2, 0.1]).double()
    A, W = random_graph(4, 9, "undirected"), normal(5, 3, 3) / 2
    backbone = convolution(A, W, bias=0.1)
    f, d = list(normal(6, 3, 9, 3)), list(normal(7, 3, 9, 3))
    for _ in range(600):
        d.append(backbone(f[-1]))
        newest = sum(phi[i] * f[-1 - i] for i in range(2))
        f.append(newest + sum(theta[j] * d[-2 - j] for j in range(3)) + d[-1])
    growth = (f[-1].norm() / f[-301].norm()) ** (1 / 300)
    radius = closed_loop_radius(phi, theta, backbone, torch.zeros(9, 3).double())
    assert radius > 1
    assert torch.allclose(radius, growth, rtol=1e-2)


@pytest.mark.parametrize("channels", [1, 4])
def test_without_feedback_the_open_loop_is_left(channels):
    phi, theta = normal(0, 5), normal(1, 3)
    point = normal(2, 6, channels)
    expected = spectral_radius(phi)
    for backbone in (lambda x: 0 * x, lambda x: torch.ones_like(x)):
        assert torch.allclose(closed_loop_radius(phi, theta, backbone, point), expected)
        assert operator_norm(backbone, point) == 0


def test_stabilising_backbone():
    """The pole at 1 moves to 1/2, although the open loop alone would never decay."""
    phi = torch.tensor([1.0], dtype=torch.float64)
    point = torch.zeros(5, 3, dtype=torch.float64)
    radius = closed_loop_radius(phi, None, lambda x: -0.5 * x, point)
    assert torch.allclose(radius, torch.tensor(0.5, dtype=torch.float64))


def test_vanishing_loop():
    zero = torch.zeros(2, dtype=torch.float64)
    backbone = convolution(companion(torch.zeros(4).double()), torch.eye(2).double())
    assert closed_loop_radius(zero, zero, backbone, torch.zeros(4, 2).double()) == 0


def test_directed_path_needs_iterations_beyond_its_length():
    """Its powers vanish only after as many steps as there are nodes; the radius is the open one."""
    shift = companion(torch.zeros(12, dtype=torch.float64))
    phi, theta = torch.tensor([0.5, 0.3]).double(), torch.tensor([0.2, 0.2]).double()
    point = torch.zeros(12, 1, dtype=torch.float64)
    backbone = convolution(shift, torch.eye(1).double())
    radius = closed_loop_radius(phi, theta, backbone, point, num_iterations=2000)
    assert torch.allclose(radius, spectral_radius(phi), rtol=1e-2)


def backbones():
    torch.manual_seed(0)
    yield "gcn", GCNConv(4, 4)
    yield "gatv2", GATv2Conv(4, 4)
    yield "gps", GPSConv(4, GCNConv(4, 4), heads=2, norm=None, dropout=0.0)


@pytest.mark.parametrize(("name", "conv"), list(backbones()), ids=lambda value: str(value)[:6])
def test_pyg_backbones_are_linearised_at_the_point(name, conv):
    conv = conv.double()
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 3, 4, 0, 2]])
    point, phi, theta = normal(0, 6, 4), normal(1, 3) / 3, normal(2, 2) / 3
    backbone = on_graph(conv, edge_index, torch.tanh)
    jacobian = torch.autograd.functional.jacobian(backbone, point).reshape(24, 24)
    radius = closed_loop_radius(phi, theta, backbone, point)
    assert torch.allclose(radius, dense_radius(phi, theta, jacobian), rtol=1e-5)
    norm = operator_norm(backbone, point)
    assert torch.allclose(norm, torch.linalg.matrix_norm(jacobian, 2), rtol=1e-9)


def graphs_of_many_sizes():
    torch.manual_seed(1)
    sizes = (5, 1, 8, 3)
    return [Data(num_nodes=size, edge_index=torch.randint(size, (2, 2 * size))) for size in sizes]


@pytest.mark.parametrize("shared", [False, True])
def test_batch_equals_singles(shared):
    graphs = graphs_of_many_sizes()
    torch.manual_seed(2)
    conv = GCNConv(3, 3).double()
    data = Batch.from_data_list(graphs)
    phi, theta = normal(0, 4, 3) / 2, normal(1, 4, 2) / 2
    if shared:
        phi, theta = phi[0], theta[0]
    point = torch.zeros(data.num_nodes, 3, dtype=torch.float64)
    backbone = on_graph(conv, data.edge_index)
    radius = closed_loop_radius(phi, theta, backbone, point, data.batch)
    norm = operator_norm(backbone, point, data.batch)
    assert radius.size() == norm.size() == (4,)
    for i, graph in enumerate(graphs):
        alone = on_graph(conv, graph.edge_index)
        start = torch.zeros(graph.num_nodes, 3, dtype=torch.float64)
        own_phi, own_theta = (phi, theta) if shared else (phi[i], theta[i])
        expected = closed_loop_radius(own_phi, own_theta, alone, start)
        assert torch.allclose(radius[i], expected, rtol=1e-6)
        assert torch.allclose(norm[i], operator_norm(alone, start), rtol=1e-6)


def test_order_of_nodes_does_not_matter():
    graphs = graphs_of_many_sizes()
    data = Batch.from_data_list(graphs)
    torch.manual_seed(3)
    conv = GCNConv(3, 3).double()
    phi, theta, point = normal(0, 4, 3), normal(1, 4, 2), normal(2, data.num_nodes, 3)
    order = torch.randperm(data.num_nodes)
    position = order.argsort()

    def run(point, edge_index, batch):
        backbone = on_graph(conv, edge_index, torch.tanh)
        radius = closed_loop_radius(phi, theta, backbone, point, batch)
        return radius, operator_norm(backbone, point, batch)

    radius, norm = run(point, data.edge_index, data.batch)
    other_radius, other_norm = run(point[order], position[data.edge_index], data.batch[order])
    assert torch.allclose(radius, other_radius, rtol=1e-6)
    assert torch.allclose(norm, other_norm, rtol=1e-6)


def test_empty_batches_and_slots():
    phi, theta = torch.ones(3, 2), torch.ones(3, 1)
    batch = torch.tensor([0, 0, 2])
    radius = closed_loop_radius(phi, theta, lambda x: x, torch.zeros(3, 2), batch)
    assert radius[0] == radius[2] > 1
    assert radius[1] == 0
    norm = operator_norm(lambda x: x, torch.zeros(3, 2), batch, batch_size=4)
    assert torch.allclose(norm, torch.tensor([1.0, 0.0, 1.0, 0.0]))

    nothing, nowhere = torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)
    assert operator_norm(lambda x: x, nothing, nowhere).size() == (0,)
    assert closed_loop_radius(phi[:0], theta[:0], lambda x: x, nothing, nowhere).size() == (0,)
    assert closed_loop_radius(phi[0], theta[0], lambda x: x, nothing) == 0


def test_float32_and_strides():
    phi, theta, A, W = normal(0, 3), normal(1, 2), random_graph(2, 7, "path"), normal(3, 2, 2)
    backbone = convolution(A, W)
    expected = closed_loop_radius(phi, theta, backbone, torch.zeros(7, 2).double())
    strided = torch.zeros(2, 7).mT
    radius = closed_loop_radius(phi.float(), theta.float(), backbone, strided)
    assert radius.dtype == torch.float32
    assert torch.allclose(radius.double(), expected, rtol=1e-5)


def test_no_side_effects():
    phi = normal(0, 2).requires_grad_()
    layer = nn.Linear(2, 2).double()
    point = torch.zeros(3, 2, dtype=torch.float64)
    state = torch.get_rng_state()
    first = closed_loop_radius(phi, phi, layer, point)
    assert torch.equal(torch.get_rng_state(), state)
    assert layer.weight.grad is None
    assert not first.requires_grad
    assert torch.equal(first, closed_loop_radius(phi, phi, layer, point))
    other_start = closed_loop_radius(phi, phi, layer, point, seed=1)
    assert torch.allclose(first, other_start, rtol=1e-9)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_works_where_gradients_are_switched_off(mode):
    phi, layer = normal(0, 2), nn.Linear(2, 2).double()
    expected = closed_loop_radius(phi, phi, layer, torch.zeros(3, 2).double())
    with mode():
        radius = closed_loop_radius(phi, phi, layer, torch.zeros(3, 2).double())
        norm = operator_norm(layer, torch.zeros(3, 2).double())
    assert torch.allclose(radius, expected)
    assert torch.allclose(norm, torch.linalg.matrix_norm(layer.weight.detach(), 2))


def test_gain_bounds_every_step():
    phi, theta, A, W = normal(0, 3), normal(1, 2), random_graph(2, 7, "directed"), normal(3, 2, 2)
    norm = torch.linalg.matrix_norm(torch.kron(A, W), 2)
    gain = closed_loop_gain(phi, theta, norm)
    assert torch.allclose(gain, phi.abs().sum() + (1 + theta.abs().sum()) * norm)
    f = list(normal(4, 3, 7, 2))
    d = [convolution(A, W)(state) for state in f]
    for _ in range(20):
        newest = sum(phi[i] * f[-1 - i] for i in range(3))
        newest = newest + sum(theta[j] * d[-2 - j] for j in range(2)) + d[-1]
        assert newest.norm() <= gain * max(state.norm() for state in f[-3:]) * (1 + 1e-12)
        f.append(newest)
        d.append(convolution(A, W)(newest))


def test_unusable_arguments():
    phi, point = torch.ones(2), torch.zeros(3, 2)
    identity = nn.Identity()
    with pytest.raises(ValueError, match=r"\[num_graphs, p\] with 1 graph"):
        closed_loop_radius(torch.ones(3, 2), phi, identity, point)
    with pytest.raises(ValueError, match=r"\[num_graphs, p\]"):
        closed_loop_radius(torch.ones(1, 1, 2), phi, identity, point)
    with pytest.raises(ValueError, match="'num_iterations' to be at least 0"):
        closed_loop_radius(phi, phi, identity, point, num_iterations=-1)
    with pytest.raises(ValueError, match="'krylov_dim' to be at least 1"):
        closed_loop_radius(phi, phi, identity, point, krylov_dim=0)
    with pytest.raises(ValueError, match="Jacobian of 'backbone' to be finite"):
        closed_loop_radius(phi, phi, torch.sqrt, point)


norms = st.floats(0.0, 3.0).map(lambda value: torch.tensor(value, dtype=torch.float64))


@quick
@given(coefficients(), coefficients(), norms)
def test_bound_follows_from_the_gain(phi, theta, norm):
    gain = closed_loop_gain(phi, theta, norm)
    bound = closed_loop_bound(phi, theta, norm)
    order = max(len(phi), len(theta) + 1)
    assert torch.allclose(bound, torch.maximum(gain, gain ** (1 / order)), atol=1e-12)
    assert (bound <= 1) == (gain <= 1)


@quick
@given(coefficients(), coefficients(), norms)
def test_sharp_bound_solves_its_equation(phi, theta, norm):
    sharp = closed_loop_bound(phi, theta, norm, sharp=True)
    assert sharp <= closed_loop_bound(phi, theta, norm) * (1 + 1e-9) + 1e-9
    if sharp > 1e-2:
        ar, ma = torch.arange(1, len(phi) + 1), torch.arange(2, len(theta) + 2)
        right = (phi.abs() * sharp**-ar).sum()
        right = right + norm * (1 / sharp + (theta.abs() * sharp**-ma).sum())
        assert torch.allclose(right, torch.ones_like(right), atol=1e-6)


@quick
@given(coefficients(), coefficients())
def test_without_a_backbone_the_gain_is_the_sufficient_condition(phi, theta):
    gain = closed_loop_gain(phi, theta, torch.tensor(0.0))
    assert torch.allclose(gain, phi.abs().sum())
    assert satisfies_sufficient_condition(phi) == (gain <= 1 + 1e-15)


def test_sharp_bound_is_attained_by_positive_loops():
    """Non-negative coefficients and a multiple of the identity leave no room below the bound."""
    phi, theta = normal(0, 3).abs(), normal(1, 2).abs()
    radius = closed_loop_radius(phi, theta, lambda x: 0.3 * x, torch.zeros(2, 2).double())
    bound = closed_loop_bound(phi, theta, torch.tensor(0.3).double(), sharp=True)
    assert torch.allclose(radius, bound, rtol=1e-6)


def test_batches_broadcast():
    phi, theta, norm = normal(0, 4, 1, 3), normal(1, 5, 2), normal(2, 5).abs()
    for function in (closed_loop_gain, closed_loop_bound):
        out = function(phi, theta, norm)
        assert out.size() == (4, 5)
        assert torch.allclose(out[2, 3], function(phi[2, 0], theta[3], norm[3]))
    assert closed_loop_gain(phi[:0], theta, norm).size() == (0, 5)
    assert closed_loop_gain(torch.ones(2), None, torch.tensor(1.0)).dtype == torch.float32


@pytest.mark.parametrize("scale", [0.1, 1.0], ids=["decaying", "growing"])
def test_gradients(scale):
    phi = (scale * normal(0, 3)).requires_grad_()
    theta = normal(1, 2).requires_grad_()
    norm = torch.tensor(0.2 * scale, dtype=torch.float64, requires_grad=True)
    assert gradcheck(closed_loop_gain, (phi, theta, norm))
    assert gradcheck(closed_loop_bound, (phi, theta, norm))
    assert gradcheck(
        lambda phi, theta, norm: closed_loop_bound(phi, theta, norm, sharp=True), (phi, theta, norm)
    )


def test_norm_approaches_from_below():
    diagonal = torch.linspace(0.0, 1.0, 400, dtype=torch.float64).unsqueeze(-1)
    point = torch.zeros(400, 1, dtype=torch.float64)
    estimates = [
        float(operator_norm(lambda x: diagonal * x, point, num_iterations=count))
        for count in (1, 4, 16, 64)
    ]
    assert sorted(estimates) == estimates
    assert estimates[-1] <= 1 + 1e-12
    assert estimates[-1] == pytest.approx(1, abs=1e-3)


def test_unusable_arguments_of_bounds():
    phi, point = torch.ones(2), torch.zeros(3, 2)
    with pytest.raises(ValueError, match="'operator_norm' not to be negative"):
        closed_loop_gain(phi, phi, torch.tensor(-1.0))
    with pytest.raises(ValueError, match=r"broadcast.*operator_norm: \(4,\)"):
        closed_loop_bound(torch.ones(3, 2), phi, torch.ones(4))
    with pytest.raises(ValueError, match="'num_iterations' to be at least 1"):
        operator_norm(lambda x: x, point, num_iterations=0)
    with pytest.raises(ValueError, match="'batch' to be given with batch_size=2"):
        operator_norm(lambda x: x, point, batch_size=2)
    with pytest.raises(ValueError, match=r"'batch' to be int64 of shape \(3,\)"):
        operator_norm(lambda x: x, point, torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"'batch' to be int64.*got torch.float32"):
        operator_norm(lambda x: x, point, torch.zeros(3))
    with pytest.raises(ValueError, match=r"\[0, batch_size\) \(got 0 to 2, batch_size=2\)"):
        operator_norm(lambda x: x, point, torch.tensor([0, 1, 2]), batch_size=2)
    with pytest.raises(ValueError, match=r"\[0, batch_size\) \(got 0 to 0, batch_size=0\)"):
        operator_norm(lambda x: x, point, torch.tensor([0, 0, 0]), batch_size=0)
    with pytest.raises(ValueError, match=r"\[0, batch_size\) \(got -1"):
        operator_norm(lambda x: x, point, torch.tensor([0, 1, -1]))
