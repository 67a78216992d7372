"""What holds of every model of the heterophily, multi-hop and forecasting families."""

import copy
import io

import pytest
import torch
from baseline_checks import (
    call,
    check_batch_equals_single_graphs,
    check_borders,
    check_reset,
    draw_graph,
    permutation_error,
    randomize,
)
from het_cases import ENTRIES, INDUCTIVE, TRANSDUCTIVE, WEIGHTED, WORDS, build, draw_weighted_graph
from torch_geometric.data import Batch

from torch_grama.training.model_hooks import AddsLoss, FitsLabels

READOUTS = ["node", "graph"]
HOOKED = {"cpgnn": (AddsLoss, FitsLabels), "gbk-gnn": (AddsLoss,)}


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("word", INDUCTIVE)
def test_batch_equals_single_graphs(word, readout):
    check_batch_equals_single_graphs(build(word, readout))


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("word", INDUCTIVE)
def test_borders_of_the_domain(word, readout):
    check_borders(build(word, readout))


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("word", WORDS)
def test_renumbered_nodes(word, readout):
    error = permutation_error(build(word, readout), readout)

    if ENTRIES[word].equivariant:
        assert error < 1e-9
    else:
        assert error > 1e-3


@pytest.mark.parametrize("word", WORDS)
def test_reset_draws_what_the_constructor_draws(word):
    check_reset(lambda: build(word, hidden_channels=16))


@pytest.mark.parametrize("word", WORDS)
def test_reset_leaves_no_parameter_where_training_left_it(word):
    model = randomize(build(word))
    before = {name: value.clone() for name, value in model.named_parameters()}
    model.reset_parameters()
    for name, value in model.named_parameters():
        assert not torch.equal(value, before[name]), name


@pytest.mark.parametrize("word", WORDS)
def test_edge_weights_are_respected_or_have_no_effect(word):
    x, edge_index, weight = draw_weighted_graph()
    model = randomize(build(word, num_nodes=9).double()).eval()
    plain = model(x, edge_index)

    torch.testing.assert_close(model(x, edge_index, torch.ones_like(weight)), plain)
    changed = (model(x, edge_index, weight) - plain).abs().max() > 1e-6
    assert changed == (word in WEIGHTED)


@pytest.mark.parametrize("word", WORDS)
def test_all_parameters_learn(word):
    x, edge_index, _ = draw_weighted_graph()
    # where every state starts from zero, what reads the state has nothing to learn from
    options = {"carry_state": True} if word == "a3t-gcn" else {}
    model = randomize(build(word, num_nodes=9, **options).double())
    model(x, edge_index).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("word", [word for word in WORDS if word != "mlp-1"])
def test_dropout_acts_in_training_alone(word):
    x, edge_index, _ = draw_weighted_graph()
    model = build(word, num_nodes=9, dropout=0.5).double()
    assert not torch.equal(model(x, edge_index), model(x, edge_index))
    model.eval()
    assert torch.equal(model(x, edge_index), model(x, edge_index))


@pytest.mark.parametrize("word", WORDS)
def test_single_precision_and_input_of_other_strides(word):
    x, edge_index, _ = draw_weighted_graph()
    model = build(word, num_nodes=9).eval()
    strided = x.float().t().contiguous().t()
    out = model(strided, edge_index)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, model(x.float(), edge_index))


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("word", WORDS)
def test_autocast_stays_near_single_precision(word, readout):
    batch = Batch.from_data_list([draw_graph(8, 0), draw_graph(12, 1)])
    batch.x = batch.x.float()
    torch.manual_seed(0)
    model = build(word, readout)
    y = torch.arange(20) % 3
    with torch.autocast("cpu", torch.bfloat16):
        loss = call(model, batch).float().square().sum()
        if isinstance(model, AddsLoss):
            loss = loss + model.auxiliary_loss(y, y < 2, batch.x, batch.edge_index)
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())

    model.eval()
    with torch.no_grad():
        expected = call(model, batch)
        with torch.autocast("cpu", torch.bfloat16):
            got = call(model, batch)
    assert (got - expected).abs().max() < 0.1 * expected.abs().max()


@pytest.mark.parametrize("word", WORDS)
def test_state_dict_copy_and_pickle_give_the_same_model(word):
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(build(word, num_nodes=9).double()).eval()
    expected = model(x, edge_index)

    other = build(word, num_nodes=9).double().eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x, edge_index), expected)
    assert torch.equal(copy.deepcopy(model)(x, edge_index), expected)
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    assert torch.equal(torch.load(stream, weights_only=False)(x, edge_index), expected)


@pytest.mark.parametrize("word", WORDS)
def test_forward_changes_nothing_but_running_statistics(word):
    graph = draw_graph(20, seed=4)
    model = build(word).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    call(model, graph)
    for name, value in model.state_dict().items():
        if "running" not in name and "batches_tracked" not in name:
            assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("size", ["hidden_channels", "num_layers"])
@pytest.mark.parametrize("word", WORDS)
def test_sizes_must_be_positive(word, size):
    if "depth" in ENTRIES[word].defaults and size == "num_layers":
        with pytest.raises(ValueError, match=r"'depth' to be at least 1 \(got 0\)"):
            build(word, depth=0)
        return
    with pytest.raises(ValueError, match=rf"'{size}' to be at least 1 \(got 0\)"):
        build(word, **{size: 0})


@pytest.mark.parametrize("word", WORDS)
def test_unknown_readout_and_impossible_dropout(word):
    with pytest.raises(ValueError, match="'readout' to be one of 'graph', 'node'"):
        build(word, "grahp")
    with pytest.raises(ValueError, match=r"'dropout' .* \(got 1.0\)"):
        build(word, dropout=1.0)


@pytest.mark.parametrize("word", WORDS)
def test_entry_says_what_it_must(word):
    entry = ENTRIES[word]
    assert entry.family in ("heterophily", "multi-hop", "forecasting")
    assert "\n" not in entry.equation
    assert "20" in entry.reference
    assert entry.cost
    assert entry.source == "torch_grama" or entry.source.startswith("torch_geometric.")
    assert all(sentence.endswith(".") for sentence in entry.departures)
    model = build(word)
    assert isinstance(model, AddsLoss) == (AddsLoss in HOOKED.get(word, ()))
    assert isinstance(model, FitsLabels) == (FitsLabels in HOOKED.get(word, ()))


@pytest.mark.parametrize("word", WORDS)
def test_training_lowers_the_loss(word):
    """Four groups of nodes, told apart by their own features and their neighbours'."""
    torch.manual_seed(0)
    graphs = [draw_graph(10, seed) for seed in range(2)]
    batch = Batch.from_data_list(graphs)
    x = batch.x.float()
    edge_index = batch.edge_index
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    mask = torch.ones(20, dtype=torch.bool)
    options = {"pretrain_steps": 5} if word == "cpgnn" else {}
    model = build(word, out_channels=4, hidden_channels=16, num_layers=2, **options)
    if isinstance(model, FitsLabels):
        model.fit_labels(y, mask, x, edge_index)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edge_index), y)
        losses.append(loss.item())
        if isinstance(model, AddsLoss):
            loss = loss + model.auxiliary_loss(y, mask, x, edge_index)
        loss.backward()
        optimizer.step()
    assert min(losses[-5:]) < 0.9 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["gpr-gnn", "gbk-gnn", "h2gcn", "drew-gcn", "digl", "t-gcn"])
def test_compiled_equals_eager(word):
    torch.compiler.reset()
    x, edge_index, _ = draw_weighted_graph()
    model = randomize(build(word, num_layers=2).double()).eval()
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(compiled(x, edge_index), model(x, edge_index))


def test_transductive_words_are_those_that_say_so():
    assert {word for word in WORDS if not ENTRIES[word].equivariant} == TRANSDUCTIVE
