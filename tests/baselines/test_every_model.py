"""What must hold of every model that has a word."""

import copy
import inspect
import io
import re

import pytest
import torch
from baseline_checks import (
    CHANNELS,
    call,
    check_batch_equals_single_graphs,
    check_borders,
    check_reset,
    draw_graph,
    permutation_error,
    randomize,
)
from dense_graphs import draw_weighted_graph
from torch import Tensor
from torch.nn import Module, TransformerEncoderLayer
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch

from torch_grama import baselines
from torch_grama.experiments.catalogue import MODELS
from torch_grama.nn.engine.adjacency import Adjacency
from torch_grama.training.input_stage import AddsLoss, FitsLabels


def words_of(text):
    return text.split()


# GRAMA has tests of its own for what is not asked of all words here.
ENTRIES = {word: entry for word, entry in MODELS.items() if entry.family != "GRAMA"}
TRANSDUCTIVE = {"resnet-adj"}
EDGE_DIM = 3
ALL_CASES = [
    (word, edge_dim)
    for word, entry in MODELS.items()
    for edge_dim in ((None, EDGE_DIM) if entry.takes_edge_attr else (None,))
]
CASES = [case for case in ALL_CASES if case[0] in ENTRIES]
# Those that refuse edge weights, and those for which they count; the others see a set of edges.
REFUSES = words_of(
    "sage gat gin gine gatedgcn tuned-sage tuned-gat tuned-gatedgcn tuned-neighbor-sum grand "
    "grand-linear graphcon-gat"
)
WEIGHTED = words_of(
    "gcn gcnii arma co-gnn-mean co-gnn-sum tuned-gcn dgc graphcon adgn adgn-gcn swan gps-gcn "
    "gps-gcn-performer nagphormer a3t-gcn t-gcn cpgnn digl digl-heat fagcn fsgnn gbk-gnn glognn "
    "mp-ssm sonar grit gpr-gnn jacobiconv mixhop resnet-adj resnet-sgc sgc sgc-1"
)
COMPILED = words_of("gatedgcn gpr-gnn")
COMPILED_SELDOM = words_of(
    "gcn swan gbk-gnn h2gcn digl co-gnn-mean transformer gt gps-mamba drew-gcn t-gcn"
)
BLIND = {"mlp", "mlp-1", "mlp-2", "resnet", "transformer"}
HOOKED = {"cpgnn": (AddsLoss, FitsLabels), "gbk-gnn": (AddsLoss,)}
SMALL = {
    "goat": {"num_centroids": 16},
    "san": {"gamma": 0.3},
    "gmn": {"state_channels": 4, "walk_length": 2, "num_samples": 1},
    "graph-mamba": {"state_channels": 4},
    "gps-mamba": {"state_channels": 4},
}
SIZES = {"in_channels": CHANNELS, "hidden_channels": 8, "out_channels": 3, "num_layers": 2}
CLASSIC = ("message passing", "tuned", "differential equation")
GLOBAL = ("graph transformer", "graph state-space model")


def untraced(names, values):
    """Cases that run lines which others have run before."""
    mark = pytest.mark.parametrize(names, values)
    return lambda test: pytest.mark.no_cover(mark(test))


each_word = untraced("word", ENTRIES)
each_case = untraced(("word", "edge_dim"), CASES)
every_case = untraced(("word", "edge_dim"), ALL_CASES)
inductive_cases = [case for case in ALL_CASES if case[0] not in TRANSDUCTIVE]
every_inductive_case = untraced(("word", "edge_dim"), inductive_cases)


def one_readout(edge_dim):
    """That of graphs where edges have no attributes: each model has one, and most have both."""
    return "graph" if edge_dim is None else "node"


def other_readout(edge_dim):
    return "node" if edge_dim is None else "graph"


class AsSequence(Module):
    """Hands features [N, L] to a model of sequences, one channel an element."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def reset_parameters(self) -> None:
        self.model.reset_parameters()

    def forward(self, x: Tensor, *graph: object) -> Tensor:
        return self.model(x.unsqueeze(-1), *graph)


def build(word, readout="node", edge_dim=None, num_nodes=20, **options):
    """A model of two layers and width 8 for graphs of :func:`draw_graph`."""
    torch.manual_seed(0)
    entry = MODELS[word]
    options = {**SIZES, **entry.defaults, **SMALL.get(word, {}), **options}
    if edge_dim is not None:
        options["edge_dim"] = edge_dim
    if word in TRANSDUCTIVE:
        options["num_nodes"] = num_nodes
    if word == "a3t-gcn":
        options["seq_len"] = CHANNELS
    if entry.family == "forecasting":
        return AsSequence(entry.build(**{**options, "in_channels": 1}, readout=readout))
    return entry.build(**options, readout=readout)


def draw_batch(edge_dim=None, sizes=(9, 4, 7)):
    return Batch.from_data_list([draw_graph(size, size, edge_dim) for size in sizes])


@pytest.mark.parametrize(("word", "edge_dim"), inductive_cases)
def test_batch_equals_single_graphs(word, edge_dim):
    check_batch_equals_single_graphs(build(word, one_readout(edge_dim), edge_dim), edge_dim)


@every_inductive_case
def test_borders_of_the_domain(word, edge_dim):
    check_borders(build(word, one_readout(edge_dim), edge_dim), edge_dim)


class SumsInBfloat16(TorchDispatchMode):
    """Notes what adds several numbers up in one place of a result in bfloat16."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        word = function.__name__.split(".")[0].rstrip("_")
        if word in {"index_add", "scatter_add", "index_put"} and args[0].dtype == torch.bfloat16:
            if word == "index_put":
                ones = args[1], torch.ones(()), True
            else:
                ones = *args[1:3], torch.ones(args[3].shape)
            count = getattr(torch.zeros(args[0].shape), word)(*ones)
            if (count > 1).any():
                self.found.append(word)
        return function(*args, **(kwargs or {}))


@every_case
def test_no_sum_over_edges_or_nodes_is_in_bfloat16(word, edge_dim):
    # there a sum of ones ends at 256: on a GPU, where each addition is rounded
    readout = "node" if word in TRANSDUCTIVE else "graph"
    model, data = randomize(build(word, readout, edge_dim)), draw_batch(edge_dim)
    data.apply(lambda part: part.float() if part.is_floating_point() else part)
    with SumsInBfloat16() as sums, torch.autocast("cpu", torch.bfloat16):
        call(model, data).float().square().sum().backward()
    assert not sums.found


@pytest.mark.parametrize("num_nodes", [0, 1])
@pytest.mark.parametrize(("word", "edge_dim"), inductive_cases)
def test_a_batch_of_one_node_or_of_none_is_answered(word, edge_dim, num_nodes):
    model = build(word, edge_dim=edge_dim)
    x, edge_index = torch.ones(num_nodes, CHANNELS), torch.zeros(2, 0, dtype=torch.long)
    edge_attr = None if edge_dim is None else torch.ones(0, edge_dim)
    for batch, size in ((None, None), (torch.zeros(num_nodes, dtype=torch.long), 1)):
        out = model(x, edge_index, None, edge_attr, batch, size)
        assert out.size() == (num_nodes, 3)
        assert out.isfinite().all()
        out.sum().backward()
    assert all(part.isfinite().all() for part in model.state_dict().values())


@every_case
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
def test_numbering_of_the_nodes_matters_where_it_is_said_to(word, edge_dim):
    readout = other_readout(edge_dim)
    error = permutation_error(build(word, readout, edge_dim), readout, edge_dim)
    assert error < 1e-9 if MODELS[word].equivariant else error > 1e-4


@untraced(
    ("word", "edge_dim", "num_layers"),
    [*((*case, 3) for case in ALL_CASES), *((word, None, 1) for word in MODELS)],
)
def test_a_training_step_reaches_every_parameter(word, edge_dim, num_layers):
    # where every state starts from zero, what reads the state has nothing to learn from
    options = {"carry_state": True} if word == "a3t-gcn" else {}
    model = randomize(build(word, edge_dim=edge_dim, num_layers=num_layers, **options).double())
    out = call(model, draw_batch(edge_dim))
    assert out.size() == (20, 3)
    out.square().sum().backward()
    idle = [
        name
        for name, parameter in model.named_parameters()
        # a single coefficient, divided by itself, has nothing to learn
        if parameter.grad is None or (num_layers > 1 and parameter.grad.abs().max() == 0)
    ]
    # the bias of a key cancels in a softmax
    assert [name for name in idle if not name.endswith(("key.bias", "key_lin.bias"))] == []


@each_case
def test_reset_draws_as_the_constructor_does(word, edge_dim):
    check_reset(lambda: build(word, edge_dim=edge_dim, hidden_channels=32))


@each_word
def test_node_output_depends_on_the_graph(word):
    model = randomize(build(word, num_nodes=8).double()).eval()
    data = draw_graph(8, 0)
    without = model(data.x, data.edge_index[:, :2])
    assert torch.allclose(call(model, data), without, atol=1e-6) == (word in BLIND)


@each_word
def test_other_forms_of_the_same_input_change_nothing(word):
    model = randomize(build(word, num_nodes=8).double()).eval()
    data = draw_graph(8, 0, EDGE_DIM)
    x, edge_index = data.x, data.edge_index
    expected = model(x, edge_index)
    # a model that was built without edge attributes leaves them aside
    assert torch.equal(call(model, data), expected)
    values = torch.ones(edge_index.size(1), dtype=torch.float64)
    matrix = torch.sparse_coo_tensor(edge_index.flip(0), values, (8, 8)).coalesce()
    torch.testing.assert_close(model(x, matrix), expected)
    torch.testing.assert_close(model(x.t().contiguous().t(), edge_index), expected)
    batch = torch.zeros(8, dtype=torch.long)
    torch.testing.assert_close(model(x, edge_index, None, None, batch, 1), expected)
    assert model.float()(x.float(), edge_index).dtype == torch.float32


@each_word
def test_edge_weights_count_have_no_effect_or_are_refused(word):
    x, edge_index, weight = draw_weighted_graph()
    changes = []
    # the cooperative models may close all edges, so that one draw proves nothing
    for seed in range(4 if word.startswith("co-gnn") else 1):
        model = randomize(build(word, num_nodes=9).double(), seed).eval()
        if word in REFUSES:
            with pytest.raises(ValueError, match="Expected no 'edge_weight'"):
                model(x, edge_index, weight)
            return
        plain = model(x, edge_index)
        torch.testing.assert_close(model(x, edge_index, torch.ones_like(weight)), plain)
        changes.append(float((model(x, edge_index, weight) - plain).detach().abs().max()))
    assert (max(changes) > 1e-6) == (word in WEIGHTED)


@each_word
def test_an_empty_place_in_the_batch_changes_nothing_else(word):
    model, batch = build(word, "graph").double(), draw_batch()
    moved = torch.tensor([1, 2, 4])[batch.batch]
    out = model(batch.x, batch.edge_index, None, None, moved, 6)
    assert out.size() == (6, 3)
    out.square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    out = model(batch.x, batch.edge_index, None, None, moved, 6)
    torch.testing.assert_close(out[[1, 2, 4]], call(model, batch))


@pytest.mark.parametrize("word", [word for word, entry in MODELS.items() if entry.takes_edge_attr])
def test_edge_attributes_are_used_by_a_model_built_for_them(word):
    model = randomize(build(word, edge_dim=EDGE_DIM).double()).eval()
    data = draw_graph(8, 0, EDGE_DIM)
    out = call(model, data)
    data.edge_attr = data.edge_attr.flip(0)
    assert not torch.allclose(call(model, data), out)


@pytest.mark.parametrize("word", [word for word in ENTRIES if word != "mlp-1"])
def test_dropout_acts_in_training_alone(word):
    x, edge_index, _ = draw_weighted_graph()
    model = build(word, num_nodes=9, dropout=0.5).double()
    assert not torch.equal(model(x, edge_index), model(x, edge_index))
    model.eval()
    assert torch.equal(model(x, edge_index), model(x, edge_index))


@each_case
def test_mixed_precision_trains_and_stays_near(word, edge_dim):
    readout = other_readout(edge_dim)
    batch = draw_batch(edge_dim).apply(lambda t: t.float() if t.is_floating_point() else t)
    model = build(word, readout, edge_dim)
    y = torch.arange(20) % 3
    with torch.autocast("cpu", torch.bfloat16):
        loss = call(model, batch).float().square().sum()
        if isinstance(model, AddsLoss):
            loss = loss + model.auxiliary_loss(y, y < 2, batch.x, batch.edge_index)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    if ENTRIES[word].family in (*CLASSIC, *GLOBAL):
        return
    model.eval()
    with torch.no_grad():
        expected = call(model, batch)
        with torch.autocast("cpu", torch.bfloat16):
            got = call(model, batch)
    assert (got - expected).abs().max() < 0.1 * expected.abs().max()


@each_word
def test_state_dict_copy_and_pickle_give_the_same_model(word):
    batch = draw_batch()
    model, other = (build(word).double() for _ in range(2))
    call(randomize(model), batch)  # moves what a training step moves
    expected = call(model.eval(), batch)
    other.load_state_dict(model.state_dict())
    assert torch.equal(call(other.eval(), batch), expected)
    assert torch.equal(call(copy.deepcopy(model), batch), expected)
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    assert torch.equal(call(torch.load(stream, weights_only=False), batch), expected)


@pytest.mark.parametrize("word", [word for word in ENTRIES if word != "goat"])
def test_forward_changes_nothing_but_running_statistics(word):
    model = build(word).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    call(model, draw_graph(20, seed=4))
    for name, value in model.state_dict().items():
        if "running" not in name and "batches_tracked" not in name:
            assert torch.equal(value, before[name]), name


@each_word
def test_matrices_of_a_graph_do_not_grow_with_the_depth(word, monkeypatch):
    made = []

    def count(*entries):
        made.append(entries)
        return Adjacency(*entries)

    options = {"aggregation": "gcn"} if word == "swan" else {}
    options |= {"max_hops": 2} if word.startswith("drew") else {}
    models = [build(word, num_layers=depth, **options).eval() for depth in (2, 5)]
    monkeypatch.setattr("torch_grama.nn.linear_backbone.Adjacency", count)
    graph = draw_graph(20, 0)
    counts = []
    for model in models:
        model(graph.x.float(), graph.edge_index)
        counts.append(len(made))
    assert counts[1] == 2 * counts[0]


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize(
    "word", [*COMPILED, *(pytest.param(word, marks=pytest.mark.long) for word in COMPILED_SELDOM)]
)
def test_compiled_equals_eager(word):
    torch.compiler.reset()
    model = randomize(build(word, "graph").double()).eval()
    backend = "aot_eager" if word in ("gcn", "swan") else "eager"
    compiled = torch.compile(model, backend=backend, dynamic=True)
    gradients = {}
    for sizes in ((7, 5), (8, 5)):
        batch = draw_batch(sizes=sizes)
        torch.testing.assert_close(call(compiled, batch), call(model, batch))
        for name, module in (("compiled", compiled), ("eager", model)):
            model.zero_grad()
            call(module, batch).square().sum().backward()
            # one compiled graph gives every parameter a gradient, zero where none came
            gradients[name] = [
                torch.zeros_like(p) if p.grad is None else p.grad.clone()
                for p in model.parameters()
            ]
        torch.testing.assert_close(gradients["compiled"], gradients["eager"], rtol=1e-7, atol=1e-9)
    torch.compiler.reset()


@each_word
def test_card_and_docstring_say_what_the_model_is(word):
    entry, text = ENTRIES[word], ENTRIES[word].build.__doc__
    assert re.search(r", (19|20)\d\d \((arXiv:|https://)", entry.reference)
    assert "https://" in text
    assert entry.source.startswith(("torch_grama", "torch_geometric.", "torch.nn."))
    assert entry.equivariant or ".. warning::" in text or word in TRANSDUCTIVE
    for name in inspect.signature(entry.build).parameters:
        assert f"    {name} (" in text
    assert "Shapes:" in text
    model = build(word)
    assert isinstance(model, AddsLoss) == (AddsLoss in HOOKED.get(word, ()))
    assert isinstance(model, FitsLabels) == (FitsLabels in HOOKED.get(word, ()))


def test_words_of_one_class_differ():
    built = {}
    for word, entry in ENTRIES.items():
        if entry.family in CLASSIC:
            built.setdefault(str(build(word)), []).append(word)
    assert [words for words in built.values() if len(words) > 1] == []


WRONG_SIZES = {
    "in_channels": (-1, "'in_channels' to be at least 1"),
    "hidden_channels": (0, r"'hidden_channels' to be at least 1 \(got 0\)"),
    "num_layers": (0, r"'num_layers' to be at least 1 \(got 0\)"),
    "depth": (0, r"'depth' to be at least 1 \(got 0\)"),
    "dropout": (1.0, r"'dropout' to be at least 0 and below 1 \(got 1.0\)"),
    "readout": ("grahp", "'readout' to be one of 'graph', 'node'"),
}


@each_word
def test_wrong_sizes_say_what_is_expected(word):
    entry = ENTRIES[word]
    options = {"num_nodes": 9} if word in TRANSDUCTIVE else {}
    unread = "num_layers" if "depth" in entry.defaults else "depth"
    for name, (value, message) in WRONG_SIZES.items():
        if name != unread:
            with pytest.raises(ValueError, match=message):
                entry.build(**{**entry.defaults, **SIZES, **options, name: value})


def test_wrong_features_say_what_is_expected():
    model = build("gcn")
    edges = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"'x' of shape \[num_nodes, in_channels=5\]"):
        model(torch.randn(2, 4), edges)
    with pytest.raises(ValueError, match=r"'edge_attr' of shape \[num_edges, edge_dim=3\]"):
        build("gine", edge_dim=3)(torch.randn(2, 5), edges)
    with pytest.raises(TypeError, match="int64 node numbers"):
        model(torch.randn(2, 5), edges.int())


def test_repr_names_sizes_and_variant():
    assert str(build("gcn")) == "GCN(5, 8, 3, num_layers=2)"
    assert str(build("co-gnn-sum")) == "CoGNN(5, 8, 3, num_layers=2, aggregation='sum')"
    assert str(build("graphcon-gat")) == "GraphCON(5, 8, 3, num_layers=2, coupling='gat')"
    assert str(build("dgc")) == "DGC(5, 8, 3, num_layers=2, step_size=0.5)"
    assert str(build("fagcn")) == "FAGCN(5, 8, 3, num_layers=2, readout='node')"


def test_transductive_words_are_those_that_say_so():
    heterophily = [word for word, entry in ENTRIES.items() if entry.family == "heterophily"]
    assert {word for word in heterophily if not ENTRIES[word].equivariant} == TRANSDUCTIVE


WRONG = [
    ("A3TGCN", {"seq_len": 0}, "'seq_len' to be at least 1"),
    ("ADGN", {"aggregation": "summ"}, "'aggregation' to be one of 'sum', 'gcn'"),
    ("ARMA", {"num_stacks": 0}, "'num_stacks' to be at least 1"),
    ("CPGNN", {"out_channels": 1}, r"two classes.* \(got out_channels=1\)"),
    ("CoGNN", {"action_layers": 0}, "'action_layers' to be at least 1"),
    ("CoGNN", {"aggregation": "max"}, "'aggregation' to be one of"),
    ("CoGNN", {"min_sharpness": 0.0}, "'min_sharpness' to be greater than 0"),
    ("DGC", {"method": "rk"}, "'method' to be one of 'rk4', 'euler'"),
    ("DRewGCN", {"max_hops": 0}, "'max_hops' to be at least 1"),
    ("DRewGCN", {"nu": 0}, "'nu' to be at least 1"),
    ("Exphormer", {"expander_degree": -1}, "expander_degree"),
    ("Exphormer", {"num_virtual_nodes": -1}, "num_virtual_nodes"),
    ("GAT", {"heads": 3}, "'heads' to divide hidden_channels"),
    ("GCN", {"dropout": 1.0}, "'dropout' to be at least 0 and below 1"),
    ("GCN", {"norm": "batchnorm"}, "'norm' to be one of 'batch_norm'"),
    ("GCN", {"residual": "identity", "pre_linear": False}, "use pre_linear=True"),
    ("GCN", {"residual": "identiy"}, "'residual' to be one of 'identity', 'linear'"),
    ("GIN", {"mlp_layers": 0}, "'mlp_layers' to be at least 1"),
    ("GINE", {"edge_dim": 3, "pre_linear": False, "in_channels": 8}, "of the hidden width"),
    ("GINE", {"pre_linear": False}, "layers of GINE keep their width"),
    *(("GMN", {name: 0}, name) for name in ("walk_length", "num_samples", "num_walks")),
    ("GPRGNN", {"alpha": 1.5}, "'alpha'"),
    ("GPRGNN", {"start": "pprr"}, "'ppr', 'random'"),
    *(
        (name, {"local": "gcn", "edge_dim": 3}, "'gatedgcn', 'gine' or 'gat'")
        for name in ("Exphormer", "GMN", "GPS", "GPSMamba", "GraphMamba")
    ),
    ("GPS", {"attention": "perform"}, "'performer'"),
    ("GPS", {"heads": 3}, "heads=3"),
    ("GPS", {"local": "gin"}, "'gine'"),
    ("GRAND", {"heads": 3}, "'heads' to divide hidden_channels"),
    ("GatedGCN", {"norm": "layer_norm"}, "'batch_norm' or None"),
    ("GloGNN", {"alpha": 0.0, "beta": 0.0}, "'alpha' and 'beta'"),
    ("GloGNN", {"gamma": 1.0}, "'gamma'"),
    ("GloGNN", {"num_hops": 0}, "'num_hops'"),
    ("GraphMamba", {"num_orders": 0}, "'num_orders'"),
    ("GraphMamba", {"order": "degrees"}, "'degree'"),
    ("GraphCON", {"coupling": "sage"}, "'coupling' to be one of"),
    ("GraphCON", {"heads": 2}, "heads=1 for coupling='gcn'"),
    *(("JacobiConv", {n: v}, f"'{n}'") for n, v in (("a", -1.0), ("b", -2.0), ("factor", 0.0))),
    *(("MixHop", {"powers": powers}, "'powers'") for powers in ((), (-1, 0))),
    ("NAGphormer", {"hops": 0}, "'hops'"),
    ("ResNet", {"graph_features": "adjacency"}, "Expected 'num_nodes'"),
    ("ResNet", {"graph_features": "adjacent"}, "'adjacency', "),
    ("SAN", {"gamma": -1.0}, "'gamma'"),
    ("SWAN", {"aggregation": "antisym"}, "'aggregation' to be one of 'antisymmetric'"),
]


@pytest.mark.parametrize(("name", "options", "message"), WRONG)
def test_wrong_options_say_what_is_expected(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(baselines, name)(**(SIZES | options))


GATES = 3 * (2 * 32 * 32 + 32)
# What lies before the layers on Peptides-func: tables for 174 values of 9 atom features and 13 of 3
# bond features; an encoding of the Laplacian, an MLP of 2, 32 and 16; one of 32 steps of a random
# walk, batch norm and a map to 28 channels.
LAPLACE, WALK = 96 + 528, 2 * 32 + 32 * 28 + 28
PLAIN = {"readout": "graph", "readout_layers": 1}
READS = {**PLAIN, "edge_dim": 3}
ENCODED = {**PLAIN, "pre_linear": False}
TUNED = {**ENCODED, "residual": None, "readout_layers": 4}
GATED = {**TUNED, "readout_layers": 3, "edge_dim": 135}
# The encoding of the Laplacian in SAN: a map and two layers of a transformer, of width 16.
SPECTRAL = 48 + 2 * sum(p.numel() for p in TransformerEncoderLayer(16, 4, 2048).parameters())
PEPTIDES = [
    # the logs of the Long Range Graph Benchmark; biases beside its batch norms differ
    ("GCN", 5, 300, {"norm": "batch_norm", **ENCODED}, 507_910 - 174 * 300),
    ("GINE", 5, 208, {"residual": "identity", "edge_dim": 208, **ENCODED}, 475_498 - 187 * 208),
    ("GatedGCN", 5, 138, {"edge_dim": 138, **ENCODED}, 509_368 - 187 * 138),
    ("GCNII", 5, 300, {"theta": None, **ENCODED}, 500_000 - 174 * 300),
    ("Transformer", 4, 120, PLAIN, 488_426 + 121 * 120 - 174 * 104 - 13 * 120 - LAPLACE),
    ("SAN", 4, 84, READS, 492_718 + 85 * 84 + 4 * 84 - 174 * 68 - 13 * 84 - SPECTRAL),
    # Rampasek et al., table of hyperparameters
    ("GPS", 4, 96, READS, 504_362 + 97 * 96 + 4 * 96 - 174 * 80 - 13 * 96 - LAPLACE),
    # Luo et al., 2025
    ("TunedGCN", 3, 275, {**TUNED, "edge_dim": 275}, 507_351 - 174 * 247 - 13 * 275 - WALK),
    ("TunedGatedGCN", 5, 135, GATED, 521_141 - 174 * 107 - 13 * 135 - WALK),
    # the depths and widths of the ablation of DRew all keep to 500 thousand
    *(
        ("DRewGCN", depth, width, {"readout": "graph", "head_layers": 1}, 500_000 - 174 * width)
        for depth, width in [(5, 175), (7, 130), (9, 105), (13, 72), (17, 55), (23, 42)]
    ),
]


@pytest.mark.parametrize(("name", "depth", "width", "options", "published"), PEPTIDES)
def test_parameters_of_the_published_setting_on_peptides(name, depth, width, options, published):
    model = getattr(baselines, name)(width, width, 10, depth, **options)
    near = {"DRewGCN": 0.1, "GCNII": 0.02}.get(name, 0.005)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(published, rel=near)


RESIDUAL_MODULES = 5 * (2 * 512 + 2 * 513 * 512)
PUBLISHED = [
    # roman-empire has 300 features and 18 classes
    ("ResNet", (300, 512, 18, 5), 301 * 512 + RESIDUAL_MODULES + 2 * 512 + 513 * 18),
    # one layer in, one out of seven times the width
    ("H2GCN", (300, 64, 18, 2), 300 * 64 + 7 * 64 * 18 + 18),
    # three hops, both kinds of matrices
    ("FSGNN", (300, 64, 18, 3), 7 * 301 * 64 + 7 + (7 * 64 + 1) * 18),
    ("GPRGNN", (300, 64, 18, 10), 301 * 64 + 65 * 18 + 11),
    # one filter for each class
    ("JacobiConv", (300, 64, 18, 10), 301 * 18 + 10 + 11 * 18),
    # each layer has one vector for each end of an edge
    ("FAGCN", (300, 32, 18, 2), 301 * 32 + 2 * 2 * 32 + 33 * 18),
    # three convolutions, three gates on twice the width, and the output; four elements
    ("TGCN", (4, 32, 1, 1), 3 * (4 + 1) * 32 + GATES + 33),
    ("A3TGCN", (1, 32, 1, 1), 3 * (1 + 1) * 32 + GATES + 33 + 4),
]


@pytest.mark.parametrize(("name", "sizes", "parameters"), PUBLISHED)
def test_parameters_of_the_published_setting(name, sizes, parameters):
    model = getattr(baselines, name)(*sizes)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
