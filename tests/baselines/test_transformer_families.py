"""What holds of every graph transformer and graph state-space model that has a word."""

import pytest
import torch
import torch.nn.functional as F
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
from torch_geometric.data import Batch

from torch_grama.experiments.families import state_space, transformer
from torch_grama.nn import GRAMA

ENTRIES = {**transformer.ENTRIES, **state_space.ENTRIES}
SMALL = {
    "goat": {"num_centroids": 16},
    "san": {"gamma": 0.3},
    "gmn": {"state_channels": 4, "walk_length": 2, "num_samples": 1},
    "graph-mamba": {"state_channels": 4},
    "gps-mamba": {"state_channels": 4},
}
READ_EDGE_WEIGHTS = {"gps-gcn", "gps-gcn-performer", "nagphormer"}

each_word = pytest.mark.parametrize("word", ENTRIES)
each_readout = pytest.mark.parametrize("readout", ["node", "graph"])


def build(word, readout="node", edge_dim=None, num_layers=2, **options):
    entry = ENTRIES[word]
    options = {**entry.defaults, **SMALL.get(word, {}), **options}
    if edge_dim is not None:
        options["edge_dim"] = edge_dim
    return entry.build(CHANNELS, 8, 3, num_layers, readout=readout, **options)


def edge_dims(word):
    return (None, 3) if ENTRIES[word].takes_edge_attr else (None,)


def draw_batch(edge_dim=None, sizes=(9, 4, 12)):
    return Batch.from_data_list([draw_graph(size, size, edge_dim) for size in sizes])


@each_word
def test_entry_is_complete(word):
    entry = ENTRIES[word]
    assert word == word.lower()
    assert all([entry.family, entry.equation, entry.reference, entry.cost, entry.source])
    assert all(sentence.endswith(".") for sentence in entry.departures)
    assert entry.equivariant or ".. warning::" in entry.build.__doc__


@each_word
@each_readout
def test_batch_equals_single_graphs(word, readout):
    for edge_dim in edge_dims(word):
        check_batch_equals_single_graphs(build(word, readout, edge_dim), edge_dim)


@each_word
@each_readout
def test_borders(word, readout):
    for edge_dim in edge_dims(word):
        check_borders(build(word, readout, edge_dim), edge_dim)


@each_word
@each_readout
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
def test_numbering_of_the_nodes_matters_where_it_is_said_to(word, readout):
    for edge_dim in edge_dims(word):
        error = permutation_error(build(word, readout, edge_dim), readout, edge_dim)
        if ENTRIES[word].equivariant:
            assert error < 1e-9
        else:
            assert error > 1e-4


@each_readout
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
def test_numbering_of_the_nodes_does_not_matter_to_grama(readout):
    level = {"node": {}, "graph": {"readout": "graph"}}[readout]
    model = GRAMA(CHANNELS, 8, 3, num_blocks=2, seq_len=4, **level)
    assert permutation_error(model, readout) < 1e-9


@each_word
@pytest.mark.filterwarnings("ignore:std()")
def test_reset(word):
    check_reset(lambda: build(word))


@each_word
def test_a_graph_needs_no_batch_vector(word):
    model, graph = randomize(build(word).double()).eval(), draw_graph(9, 0)
    with_batch = call(model, Batch.from_data_list([graph]))
    torch.testing.assert_close(model(graph.x, graph.edge_index), with_batch)


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


@each_word
def test_every_parameter_has_a_part_in_the_result(word):
    edge_dim = edge_dims(word)[-1]
    torch.manual_seed(0)
    model = randomize(build(word, edge_dim=edge_dim).double())
    call(model, draw_batch(edge_dim)).square().sum().backward()
    idle = {
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or parameter.grad.abs().max() == 0
    }
    # the bias of a key cancels in a softmax
    assert [name for name in idle if not name.endswith("key.bias")] == []


@each_word
def test_autocast_and_single_precision(word):
    edge_dim = edge_dims(word)[-1]
    model = build(word, "graph", edge_dim)
    batch = draw_batch(edge_dim).apply(lambda t: t.float() if t.is_floating_point() else t)
    with torch.autocast("cpu", torch.bfloat16):
        out = call(model, batch)
    out.float().square().sum().backward()
    assert out.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@each_word
def test_state_dict_round_trip(word):
    model, other, batch = build(word).double(), build(word).double(), draw_batch()
    call(model, batch)  # moves what a training step moves
    other.load_state_dict(model.state_dict())
    assert torch.equal(call(model.eval(), batch), call(other.eval(), batch))


@each_word
def test_edge_weights_are_read_by_those_that_say_so(word):
    model, batch = randomize(build(word).double()).eval(), draw_batch()
    weight = torch.linspace(0.1, 2.0, batch.edge_index.size(1), dtype=torch.float64)
    out = model(batch.x, batch.edge_index, weight, None, batch.batch, 3)
    assert torch.allclose(out, call(model, batch)) == (word not in READ_EDGE_WEIGHTS)


@each_word
def test_training_lowers_the_loss(word):
    """Which of two features of a node is larger."""
    torch.manual_seed(0)
    model = build(word)
    batch = draw_batch(sizes=(10, 12, 14))
    x, target = batch.x.float(), (batch.x[:, 0] > batch.x[:, 1]).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        out = model(x, batch.edge_index, None, None, batch.batch, 3)
        loss = F.cross_entropy(out, target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


def read_gradients(model):
    r"""Gradients by name, zero where none came: one compiled graph gives every parameter one."""
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
    }


@pytest.mark.slow
@pytest.mark.parametrize("word", ["transformer", "gt", "gps-mamba"])
def test_compiled_equals_eager(word):
    torch.compiler.reset()
    model, batch = randomize(build(word, num_layers=1).double()).eval(), draw_batch()
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(call(compiled, batch), call(model, batch))
    call(compiled, batch).square().sum().backward()
    found = read_gradients(model)
    model.zero_grad()
    call(model, batch).square().sum().backward()
    torch.testing.assert_close(found, read_gradients(model), rtol=1e-7, atol=1e-9)
