import pytest
import torch
from baseline_checks import CHANNELS, draw_graph, randomize
from dense_graphs import adjacency, affine, draw_symmetric_graph, gcn_matrix
from torch_geometric.data import Data

from torch_grama.baselines import ADGN, SWAN
from torch_grama.baselines.antisymmetric import antisymmetric_matrix, symmetric_matrix
from torch_grama.baselines.products import apply_linear_map
from torch_grama.nn.graph_input import read_graph_input


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("aggregation", ["sum", "gcn"])
def test_model_equals_its_dense_formula(aggregation, sharing, weighted):
    model = ADGN(
        CHANNELS, 8, 3, 4, aggregation=aggregation, weight_sharing=sharing, epsilon=0.3, gamma=0.2
    )
    model = randomize(model.double())
    assert len(model.convs) == (1 if sharing else 4)
    data = draw_symmetric_graph()
    weight = data.edge_weight if weighted else None
    matrix = adjacency(data, weight)
    matrix = gcn_matrix(matrix) if aggregation == "gcn" else matrix
    x = affine(model.encoder.node_lin, data.x)
    for number in range(4):
        conv = model.convs[0 if sharing else number]
        own = conv.W - conv.W.t() - 0.2 * torch.eye(8, dtype=torch.float64)
        field = x @ own.t() + matrix @ x @ conv.phi.lin.weight.t() + conv.bias
        x = x + 0.3 * torch.tanh(field)
    torch.testing.assert_close(model(data.x, data.edge_index, weight), model.head(x))


def test_deep_model_keeps_its_gradient():
    # 100 steps of which each turns the states, where a plain stack would lose the first
    torch.manual_seed(0)
    model = ADGN(CHANNELS, 8, 3, 100, epsilon=0.05, gamma=0.0).double()
    data = draw_symmetric_graph()
    x = data.x.clone().requires_grad_()
    model(x, data.edge_index).square().sum().backward()
    assert x.grad.norm() > 1e-3


def space_matrix(matrix):
    """``D^-1 A`` minus its transpose."""
    degree = matrix.sum(1, keepdim=True)
    walk = torch.where(degree > 0, matrix / degree, 0.0)
    return walk - walk.t()


def dense_field(field, x, matrix):
    own = field.own_weight - field.own_weight.t()
    space = field.space_weight + field.space_weight.t()
    if field.aggregation == "gcn":
        near = gcn_matrix(matrix) @ x @ field.neighbor_weight.t()
    elif field.aggregation == "sum":
        near = matrix @ x @ field.neighbor_weight.t()
    else:
        skew = field.neighbor_weight - field.neighbor_weight.t()
        near = gcn_matrix(matrix, loops=False) @ x @ skew.t()
    far = field.beta * space_matrix(matrix) @ x @ space.t()
    return x @ own.t() - field.gamma * x + near + far + field.bias


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("aggregation", ["antisymmetric", "gcn", "sum"])
def test_model_equals_its_dense_formula_of_swan(aggregation, sharing, weighted):
    options = {"aggregation": aggregation, "weight_sharing": sharing, "beta": -0.5, "epsilon": 0.3}
    model = randomize(SWAN(CHANNELS, 8, 3, 4, gamma=0.2, **options).double())
    data = draw_symmetric_graph()
    weight = data.edge_weight if weighted else None
    matrix = adjacency(data, weight)
    x = affine(model.encoder.node_lin, data.x)
    for number in range(4):
        field = model.fields[0 if sharing else number]
        x = x + 0.3 * torch.tanh(dense_field(field, x, matrix))
    torch.testing.assert_close(model(data.x, data.edge_index, weight), model.head(x))


def draw_directed_graph():
    data = draw_graph(8, 0)
    loops = torch.tensor([[2, 5], [2, 5]])
    data.edge_index = torch.cat([data.edge_index[:, ::3], loops], dim=1)
    data.edge_weight = 0.5 + torch.rand(data.edge_index.size(1), dtype=torch.float64)
    return data


@pytest.mark.parametrize("weighted", [False, True])
def test_matrices_are_symmetric_and_antisymmetric_on_any_graph(weighted):
    data = draw_directed_graph()
    weight = data.edge_weight if weighted else None
    graph = read_graph_input(8, data.edge_index, weight)
    plain = adjacency(data, weight)
    plain = plain - torch.diag(plain.diagonal())
    wanted = {
        symmetric_matrix: gcn_matrix((plain + plain.t()) / 2, loops=False),
        antisymmetric_matrix: space_matrix(plain),
    }
    for make, expected in wanted.items():
        made = make(graph, torch.float64)
        edge_index = torch.stack([made.source, made.target])
        found = adjacency(Data(edge_index=edge_index, num_nodes=8), made.value)
        torch.testing.assert_close(found, expected)
    assert torch.equal(space_matrix(plain), -space_matrix(plain).t())


@pytest.mark.parametrize("directed", [False, True])
def test_all_nodes_together_neither_grow_nor_decay(directed):
    data = draw_directed_graph() if directed else draw_symmetric_graph(8)
    field = randomize(SWAN(CHANNELS, 4, 3, 1, gamma=0.0).double()).fields[0]
    graph = read_graph_input(8, data.edge_index, data.edge_weight)
    near, space = field.maps(
        symmetric_matrix(graph, torch.float64), antisymmetric_matrix(graph, torch.float64)
    )

    def change(x):
        x = x.view(8, 4)
        return (apply_linear_map(near, x) + apply_linear_map(space, x)).flatten()

    zeros = torch.zeros(32, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(change, zeros)
    torch.testing.assert_close(jacobian, -jacobian.t())
    assert torch.linalg.eigvals(jacobian).real.abs().max() < 1e-12


def test_the_space_term_vanishes_on_a_ring_and_not_on_a_path():
    nodes = torch.arange(8)
    ring = torch.stack([nodes, (nodes + 1) % 8])
    x = torch.randn(8, CHANNELS, dtype=torch.float64)

    def difference(edges):
        edges = torch.cat([edges, edges.flip(0)], dim=1)
        outputs = []
        for beta in (0.0, 1.0):
            torch.manual_seed(0)
            outputs.append(SWAN(CHANNELS, 8, 3, 4, beta=beta).double()(x, edges))
        return float((outputs[0] - outputs[1]).detach().abs().max())

    assert difference(ring) < 1e-12
    assert difference(ring[:, :-1]) > 1e-3


def test_isolated_nodes_have_finite_gradients_for_edge_weights():
    weight = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    model = SWAN(CHANNELS, 8, 3, 2).double()
    x = torch.randn(3, CHANNELS, dtype=torch.float64)
    model(x, torch.tensor([[0, 1], [1, 0]]), weight).sum().backward()
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize("model", [ADGN, SWAN])
def test_degrees_of_hubs_are_right_in_bfloat16(model):
    # where a sum of ones ends at 256, so that the leaves would hear the hub twice as loud
    hub, leaves = torch.zeros(1000, dtype=torch.long), torch.arange(1, 1001)
    edges = torch.stack([torch.cat([hub, leaves]), torch.cat([leaves, hub])])
    net, graph = model(CHANNELS, 4, 3, 1, act=None), read_graph_input(1001, edges)
    x = torch.zeros(1001, 4)
    x[0] = 1.0
    expected = net.propagate(x, graph)[1:]
    with torch.autocast("cpu", torch.bfloat16):
        found = net.propagate(x.bfloat16(), graph)[1:].float()
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()
