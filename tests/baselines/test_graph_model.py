"""What must hold of every message-passing, tuned and differential-equation model, by word."""

import inspect

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
from torch_geometric.data import Batch

from torch_grama.experiments.families import differential_equation, message_passing, tuned

ENTRIES = message_passing.ENTRIES | tuned.ENTRIES | differential_equation.ENTRIES
EDGE_DIM = 3
WITH_EDGES = [word for word, entry in ENTRIES.items() if entry.takes_edge_attr]
CASES = [(word, None) for word in ENTRIES] + [(word, EDGE_DIM) for word in WITH_EDGES]
# their operators have a place for edge weights
WEIGHTED = [
    "gcn",
    "gcnii",
    "arma",
    "co-gnn-mean",
    "co-gnn-sum",
    "tuned-gcn",
    "dgc",
    "graphcon",
    "adgn",
    "adgn-gcn",
    "swan",
]


def build(word, readout="node", edge_dim=None, out_channels=3, **options):
    torch.manual_seed(0)
    entry = ENTRIES[word]
    if edge_dim is not None:
        options["edge_dim"] = edge_dim
    options = dict(entry.defaults) | options
    return entry.build(CHANNELS, 8, out_channels, 2, readout=readout, **options)


@pytest.mark.parametrize("readout", ["node", "graph"])
@pytest.mark.parametrize(("word", "edge_dim"), CASES)
def test_batch_equals_single_graphs(word, edge_dim, readout):
    check_batch_equals_single_graphs(build(word, readout, edge_dim), edge_dim)


@pytest.mark.parametrize("readout", ["node", "graph"])
@pytest.mark.parametrize(("word", "edge_dim"), CASES)
def test_borders_of_the_domain(word, edge_dim, readout):
    check_borders(build(word, readout, edge_dim), edge_dim)


@pytest.mark.parametrize("readout", ["node", "graph"])
@pytest.mark.parametrize(("word", "edge_dim"), CASES)
def test_renumbered_nodes(word, edge_dim, readout):
    assert ENTRIES[word].equivariant
    assert permutation_error(build(word, readout, edge_dim), readout, edge_dim) < 1e-9


@pytest.mark.parametrize(("word", "edge_dim"), CASES)
def test_reset_draws_as_the_constructor_does(word, edge_dim):
    entry = ENTRIES[word]
    edges = {} if edge_dim is None else {"edge_dim": edge_dim}
    check_reset(lambda: entry.build(CHANNELS, 32, 3, 2, **entry.defaults, **edges))


@pytest.mark.parametrize(("word", "edge_dim"), CASES)
def test_reset_forgets_every_parameter(word, edge_dim):
    model = build(word, edge_dim=edge_dim)
    with torch.no_grad():
        for value in model.parameters():
            value.fill_(7.0)
    model.reset_parameters()
    kept = [name for name, value in model.named_parameters() if bool((value == 7.0).any())]
    assert kept == []


@pytest.mark.parametrize("word", ENTRIES)
def test_node_output_depends_on_the_graph(word):
    model = randomize(build(word).double()).eval()
    data = draw_graph(8, 0)
    without = model(data.x, data.edge_index[:, :2])
    assert not torch.allclose(call(model, data), without, atol=1e-6)


@pytest.mark.parametrize("word", WITH_EDGES)
def test_edge_attributes_change_the_output(word):
    model = randomize(build(word, edge_dim=EDGE_DIM).double()).eval()
    data = draw_graph(8, 0, EDGE_DIM)
    before = call(model, data)
    data.edge_attr = data.edge_attr + torch.randn(EDGE_DIM, dtype=torch.float64) * (
        torch.arange(data.edge_index.size(1)) % 2
    ).unsqueeze(-1)
    assert not torch.allclose(before, call(model, data), atol=1e-6)


@pytest.mark.parametrize("word", ENTRIES)
def test_edge_attributes_are_left_aside_by_a_model_built_without(word):
    model = build(word).double().eval()
    data = draw_graph(8, 0, EDGE_DIM)
    with_attributes = call(model, data)
    data.edge_attr = None
    assert torch.equal(with_attributes, call(model, data))


@pytest.mark.parametrize("word", WEIGHTED)
def test_weights_of_one_change_nothing_and_others_do(word):
    data = draw_weighted_graph()
    changes = []
    # the cooperative models may close all edges, so that one draw proves nothing
    for seed in range(4):
        model = randomize(build(word).double(), seed).eval()
        plain = model(data.x, data.edge_index)
        ones = model(data.x, data.edge_index, torch.ones_like(data.edge_weight))
        torch.testing.assert_close(plain, ones)
        weighted = model(data.x, data.edge_index, data.edge_weight)
        changes.append(float((weighted - plain).detach().abs().max()))
    assert max(changes) > 1e-4


@pytest.mark.parametrize("word", sorted(set(ENTRIES) - set(WEIGHTED)))
def test_weights_without_a_place_are_refused(word):
    data = draw_weighted_graph()
    with pytest.raises(ValueError, match="Expected no 'edge_weight'"):
        build(word).double()(data.x, data.edge_index, data.edge_weight)


@pytest.mark.parametrize("word", ENTRIES)
def test_sparse_adjacency_equals_the_edges(word):
    model = build(word).double().eval()
    data = draw_graph(8, 0)
    values = torch.ones(data.edge_index.size(1), dtype=torch.float64)
    matrix = torch.sparse_coo_tensor(data.edge_index.flip(0), values, (8, 8)).coalesce()
    torch.testing.assert_close(model(data.x, matrix), call(model, data))


@pytest.mark.parametrize("word", ENTRIES)
def test_training_lowers_the_loss_on_a_tiny_task(word):
    model = build(word, out_channels=1)
    torch.manual_seed(1)
    batch = Batch.from_data_list([draw_graph(8, seed) for seed in range(4)])
    x = batch.x.float()
    # the mean of a feature over the neighbours
    source, target = batch.edge_index
    total = torch.zeros(len(x)).index_add(0, target, x[source, 0])
    wanted = total / torch.bincount(target, minlength=len(x)).clamp(min=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        out = model(x, batch.edge_index, batch=batch.batch, batch_size=4).squeeze(-1)
        loss = torch.nn.functional.mse_loss(out, wanted)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


@pytest.mark.parametrize(("word", "edge_dim"), CASES)
def test_mixed_precision_trains(word, edge_dim):
    model = build(word, "graph", edge_dim)
    batch = Batch.from_data_list([draw_graph(8, seed, edge_dim) for seed in range(2)])
    batch.x = batch.x.float()
    batch.edge_attr = None if edge_dim is None else batch.edge_attr.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = call(model, batch)
        loss = out.float().square().mean()
    loss.backward()
    assert loss.isfinite()
    assert all(value.grad is None or value.grad.isfinite().all() for value in model.parameters())


@pytest.mark.parametrize("word", ENTRIES)
def test_state_dict_round_trip(word):
    first, second = build(word), build(word)
    randomize(first)
    second.load_state_dict(first.state_dict())
    data = draw_graph(6, 1)
    data.x = data.x.float()
    assert torch.equal(call(first.eval(), data), call(second.eval(), data))


@pytest.mark.slow
@pytest.mark.parametrize("word", ["gcn", "gatedgcn", "co-gnn-mean", "swan"])
def test_compiled_equals_eager(word):
    model = randomize(build(word, "graph").double()).eval()
    compiled = torch.compile(model, backend="aot_eager", dynamic=True)
    for seed in range(2):
        batch = Batch.from_data_list([draw_graph(7 + seed, seed), draw_graph(5, seed)])
        torch.testing.assert_close(call(compiled, batch), call(model, batch))
    torch._dynamo.reset()


@pytest.mark.parametrize("word", ENTRIES)
def test_entry_says_what_the_model_is(word):
    entry = ENTRIES[word]
    parameters = inspect.signature(entry.build).parameters
    assert entry.takes_edge_attr == ("edge_dim" in parameters)
    assert set(entry.defaults) <= set(parameters)
    assert entry.equation
    assert entry.cost
    assert entry.reference.rstrip("., ")[-4:].isdigit()
    assert all(sentence.endswith(".") for sentence in entry.departures)
    assert entry.build.__doc__ is not None
    assert "arxiv.org" in entry.build.__doc__


def test_words_of_one_class_differ():
    built = {}
    for word in ENTRIES:
        model = randomize(build(word).double()).eval()
        built.setdefault(str(model), []).append(word)
    assert [words for words in built.values() if len(words) > 1] == []


@pytest.mark.parametrize("word", ENTRIES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"in_channels": -1}, "'in_channels' to be at least 1"),
        ({"hidden_channels": 0}, "'hidden_channels' to be at least 1"),
        ({"num_layers": 0}, "'num_layers' to be at least 1"),
        ({"dropout": 1.5}, "'dropout' to be at least 0 and below 1"),
        ({"readout": "nodes"}, "'readout' to be one of 'node'"),
    ],
)
def test_wrong_sizes_say_what_is_expected(word, change, message):
    entry = ENTRIES[word]
    sizes = {"in_channels": 5, "hidden_channels": 8, "out_channels": 3, "num_layers": 2}
    with pytest.raises(ValueError, match=message):
        entry.build(**(dict(entry.defaults) | sizes | change))


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
