"""Compiled and exported models against eager ones."""

import shutil
import sys

import pytest
import torch
from backbone_cases import BY_NAME, WORDS, BackboneCase, backbones
from model_gradients import assert_same_gradients, loss_gradients

from torch_grama.nn import Coefficients, Running

GCN, GPS = BY_NAME["gcn"], BY_NAME["gps"]
# the compiler is traced too otherwise, and takes twice as long
pytestmark = pytest.mark.no_cover


def seldom(*values):
    """A case that takes seconds of the path that another case takes."""
    return pytest.param(*values, marks=pytest.mark.long)


has_compiler = pytest.mark.skipif(
    (shutil.which("c++") is None and shutil.which("g++") is None) or sys.platform == "win32",
    reason="inductor needs a C++ compiler",
)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "training"),
    [("gps", True), ("gatedgcn", False), seldom("gcn", True), seldom("gatedgcn", True)],
)
def test_compiled_equals_eager_in_value_and_gradient(word, training, path):
    case = BY_NAME[word]
    model = case.model(num_blocks=1, seq_len=1).train(training)
    # batch norm asks about padding as it trains, which cuts the graph
    fullgraph = not (training and case.has_batch_statistics)
    backend = "aot_eager" if training else "eager"
    compiled = torch.compile(model, backend=backend, fullgraph=fullgraph)
    expected = case.run(model, path)
    gradients = loss_gradients(model, expected)
    out = case.run(compiled, path)
    assert torch.allclose(out, expected)
    assert_same_gradients(loss_gradients(model, out), gradients)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"coefficients": "naive"},
        seldom({"coefficients": Coefficients(update="step")}),
        seldom({"norm": "batch_norm"}),
        seldom({"num_recurrences": 5}),
        {"running": Running(recompute=True)},
        {"share_weights": False, "num_recurrences": 2},
    ],
    ids=str,
)
def test_compiled_options_equal_eager(options, batch):
    model, twin = (GCN.model(**{"seq_len": 2, "num_blocks": 1, **options}) for _ in range(2))
    # blocks that are computed twice are a matter of the backward graph too
    compiled = torch.compile(twin, backend="aot_eager" if "running" in options else "eager")
    expected = GCN.run(model, batch, batch_size=3)
    out = GCN.run(compiled, batch, batch_size=3)
    assert torch.allclose(out, expected)
    assert_same_gradients(loss_gradients(twin, out), loss_gradients(model, expected))


@pytest.mark.slow
def test_compiled_model_takes_graphs_of_other_sizes(graphs):
    model = GCN.model(seq_len=2)
    compiled = torch.compile(model, backend="eager", dynamic=True)
    for graph in graphs:
        assert torch.allclose(GCN.run(compiled, graph), GCN.run(model, graph))


@pytest.mark.long
@has_compiler
def test_inductor_equals_eager(path):
    model = GCN.model(seq_len=1, num_blocks=1).eval()
    compiled = torch.compile(model)
    with torch.no_grad():
        assert torch.allclose(GCN.run(compiled, path), GCN.run(model, path))


@pytest.mark.slow
@pytest.mark.parametrize("word", ["gatedgcn", seldom("gin"), seldom("neighbor-sum")])
def test_exported_model_with_edge_attributes_equals_eager(word, path):
    case = BackboneCase(word, lambda: word, 3)
    model = case.model(seq_len=1).eval()
    arguments = {"edge_attr": path.edge_attr}
    program = torch.export.export(model, (path.x, path.edge_index), arguments)
    got = program.module()(path.x, path.edge_index, **arguments)
    assert torch.allclose(got, case.run(model, path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "readout"),
    [seldom("gcn", "node"), ("gcn", "graph"), ("gps", "node"), seldom("gatedgcn", "node")],
)
def test_exported_model_takes_graphs_of_other_sizes(word, readout, path, directed):
    case = BY_NAME[word]
    model = case.model(seq_len=2, num_blocks=1, readout=readout).eval()
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    program = torch.export.export(
        model,
        (path.x, path.edge_index),
        dynamic_shapes={"x": {0: nodes}, "edge_index": {1: edges}},
    )
    for graph in (path, directed):
        got = program.module()(graph.x, graph.edge_index)
        assert torch.allclose(got, case.run(model, graph))


@pytest.mark.slow
def test_exported_batch_equals_eager_also_from_a_file(batch, tmp_path):
    model = GCN.model(readout="graph", seq_len=2, num_blocks=1).eval()
    arguments = {"batch": batch.batch, "batch_size": 3}
    program = torch.export.export(model, (batch.x, batch.edge_index), arguments)
    torch.export.save(program, tmp_path / "model.pt2")
    for exported in (program, torch.export.load(tmp_path / "model.pt2")):
        got = exported.module()(batch.x, batch.edge_index, **arguments)
        assert torch.allclose(got, GCN.run(model, batch))


@pytest.mark.parametrize("case", [GCN, GPS], ids=lambda case: case.name)
def test_function_transforms_see_the_same_gradient(case, path):
    model = case.model()
    parameters = dict(model.named_parameters())

    def loss(parameters):
        out = torch.func.functional_call(model, parameters, (path.x, path.edge_index))
        return out.square().sum()

    got = torch.func.grad(loss)(parameters)
    case.run(model, path).square().sum().backward()
    for name, parameter in parameters.items():
        assert torch.allclose(got[name], parameter.grad), name


@backbones([case for case in WORDS if case.edge_dim is None])
def test_vmap_over_node_features_needs_no_options(case, path):
    model = case.model().eval()
    features = torch.randn(3, *path.x.size(), dtype=torch.float64)
    got = torch.func.vmap(lambda x: model(x, path.edge_index))(features)
    expected = torch.stack([model(x, path.edge_index) for x in features])
    assert torch.allclose(got, expected)
