"""The edges of the domain: graphs with next to nothing in them, and numbers of other kinds."""

import pytest
import torch
from backbone_cases import BY_NAME, CASES, BackboneCase, backbones
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from torch_grama.nn import Running

# every backbone: other tests run the same lines
pytestmark = pytest.mark.no_cover

GCN = BY_NAME["gcn"]
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def graph(num_nodes, edge_index=NO_EDGES):
    return Data(
        x=torch.randn(num_nodes, 5, dtype=torch.float64),
        edge_index=edge_index,
        edge_attr=torch.randn(edge_index.size(1), 3, dtype=torch.float64),
    )


def assert_finite(case, model, data, size, **options):
    """Output and gradients are finite, and the output has the given size."""
    out = case.run(model, data, **options)
    out.square().sum().backward()
    assert out.size() == size
    assert torch.isfinite(out).all()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name


SPARSE = {
    "one node": (1, NO_EDGES, None),
    "no edges": (3, NO_EDGES, None),
    "isolated nodes": (5, torch.tensor([[1, 3], [3, 1]]), None),
    "self-loops alone": (3, torch.tensor([[0, 1, 2], [0, 1, 2]]), None),
    "empty slots": (4, torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([1, 1, 3, 3])),
}


@backbones()
def test_graphs_with_next_to_nothing_in_them(case):
    models = {readout: case.model(readout=readout) for readout in ("node", "graph")}
    for name, (num_nodes, edge_index, batch) in SPARSE.items():
        readout = "node" if name == "isolated nodes" else "graph"
        data = graph(num_nodes, edge_index)
        data.batch = batch
        num_graphs = 1 if batch is None else 6
        model = models[readout].train(num_nodes > 1 and edge_index.size(1) > 0)
        size = (num_nodes if readout == "node" else num_graphs, 2)
        assert_finite(case, model, data, size, batch_size=num_graphs)


@backbones([case for case in CASES if "gps" not in case.name.lower()])
def test_directed_graphs_keep_their_direction(case):
    # 0 -> 1 -> 2 -> 3: what happens at the end cannot reach the start
    data = graph(4, torch.tensor([[0, 1, 2], [1, 2, 3]]))
    model = case.model(coefficients="naive").eval()
    x = data.x.requires_grad_()
    out = case.run(model, data)
    (forth,) = torch.autograd.grad(out[2].sum(), x, retain_graph=True)
    (back,) = torch.autograd.grad(out[0].sum(), x)
    assert forth[0].abs().sum() > 0
    assert back[2].abs().sum() == 0


def test_no_nodes_at_all():
    assert GCN.run(GCN.model(), graph(0)).size() == (0, 2)


@pytest.mark.parametrize("norm", [None, "batch_norm", "layer_norm"])
@pytest.mark.parametrize("word", ["gcn", "gatedgcn", "gin", "gps", "neighbor-sum"])
def test_one_node_in_training_leaves_finite_running_statistics(word, norm):
    case = BackboneCase(word, lambda: word)
    model = case.model(norm=norm, readout="graph").train()
    assert_finite(case, model, graph(1, torch.tensor([[0], [0]])), (1, 2))
    assert all(torch.isfinite(buffer).all() for buffer in model.buffers())


def test_an_expanded_feature_row(path):
    model = GCN.model()
    row = torch.randn(1, 5, dtype=torch.float64)
    got = model(row.expand(4, 5), path.edge_index)
    assert torch.allclose(got, model(row.repeat(4, 1), path.edge_index))


@backbones()
def test_autocast_is_finite_and_near_float32(case, batch):
    model = case.model(readout="graph").float().eval()
    batch.x, batch.edge_attr = batch.x.float(), batch.edge_attr.float()
    expected = case.run(model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = case.run(model, batch)
    out.float().square().sum().backward()
    assert (out - expected).abs().max() < 0.05 * expected.abs().max()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("case", [c for c in CASES if c.name != "GPSConv"], ids=lambda c: c.name)
def test_convolutions_of_pyg_add_up_in_float32(case, batch):
    model = case.model(readout="graph").float()
    batch.x, batch.edge_attr = batch.x.float(), batch.edge_attr.float()
    seen = set()
    for part in model.modules():
        if isinstance(part, MessagePassing):
            part.register_message_forward_hook(lambda _, given, out: seen.add(out.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        case.run(model, batch)
    assert seen <= {torch.float32}


@pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
@pytest.mark.parametrize("sizes", [{}, {"seq_len": 2, "num_recurrences": 9}], ids=str)
def test_autocast_gradients_are_near_float32(engine, sizes, batch):
    # smooth: a rectifier's gradient jumps where rounding changes a sign
    model = GCN.model(running=Running(engine), act="tanh", readout="graph", **sizes).float()
    x = batch.x.float()

    def loss():
        return model(x, batch.edge_index, batch=batch.batch).float().square().sum()

    def flat_gradient(loss):
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        return torch.cat([gradient.flatten() for gradient in gradients])

    expected = flat_gradient(loss())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside, rounded = flat_gradient(loss()), loss()
    outside = flat_gradient(rounded)
    assert (outside - expected).norm() < 0.03 * expected.norm()
    assert (inside - outside).norm() < 0.02 * outside.norm()


def test_a_model_in_bfloat16_is_near_float64(batch):
    model = GCN.model()
    expected = GCN.run(model, batch)
    out = model.bfloat16()(batch.x.bfloat16(), batch.edge_index, batch=batch.batch)
    assert out.dtype == torch.bfloat16
    assert (out - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize("scale", [0.0, 1e-8, 1e8])
def test_features_of_any_scale(scale, batch):
    model = GCN.model()
    out = model(scale * batch.x, batch.edge_index, batch=batch.batch)
    assert torch.isfinite(out).all()
