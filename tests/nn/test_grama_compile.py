"""Compiled and exported models against eager ones."""

import shutil
import sys

import pytest
import torch
from backbone_cases import BY_NAME, WORDS, BackboneCase, backbones
from model_gradients import assert_same_gradients, loss_gradients
from torch_geometric.data import Batch

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
    [
        ("gps", True),
        *(seldom(word, True) for word in ("gcn", "GCN2Conv", "gatedgcn")),
        seldom("gatedgcn", False),
    ],
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
        {"coefficients": "naive", "share_weights": False, "num_recurrences": 2},
        {"running": Running(recompute=True)},
        seldom({"coefficients": Coefficients(update="step")}),
        seldom({"norm": "batch_norm"}),
        seldom({"num_recurrences": 5}),
        seldom({}),
    ],
    ids=str,
)
def test_compiled_options_equal_eager_on_batches_of_other_sizes(options, graphs):
    model, twin = (GCN.model(**{"seq_len": 2, "num_blocks": 1, **options}) for _ in range(2))
    batches = [Batch.from_data_list(part) for part in (graphs, graphs[::-1] + graphs[1:])]
    backend = "eager"
    if "running" in options:
        # blocks that are computed twice are a matter of the backward graph, which takes seconds
        backend, batches = "aot_eager", batches[:1]
    compiled = torch.compile(twin, backend=backend, dynamic=len(batches) > 1)
    for batch in batches:
        expected = GCN.run(model, batch, batch_size=5)
        out = GCN.run(compiled, batch, batch_size=5)
        assert torch.allclose(out, expected)
        assert_same_gradients(loss_gradients(twin, out), loss_gradients(model, expected))


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
    [("gcn", "graph"), seldom("gcn", "node"), seldom("gps", "node"), seldom("gatedgcn", "node")],
)
def test_exported_model_takes_batches_of_other_sizes_also_from_a_file(
    word, readout, graphs, tmp_path
):
    case = BY_NAME[word]
    model = case.model(seq_len=2, num_blocks=1, readout=readout).eval()
    first, other = Batch.from_data_list(graphs), Batch.from_data_list(graphs[::-1] + graphs[1:])
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = {"x": {0: nodes}, "edge_index": {1: edges}, "batch": {0: nodes}, "batch_size": None}
    program = torch.export.export(
        model,
        (first.x, first.edge_index),
        {"batch": first.batch, "batch_size": 5},
        dynamic_shapes=shapes,
    )
    torch.export.save(program, tmp_path / "model.pt2")
    for exported in (program, torch.export.load(tmp_path / "model.pt2")):
        for batch in (first, other):
            got = exported.module()(batch.x, batch.edge_index, batch=batch.batch, batch_size=5)
            assert torch.allclose(got, case.run(model, batch, batch_size=5))


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
