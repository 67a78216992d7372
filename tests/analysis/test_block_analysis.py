import dataclasses
import json

import pytest
import torch
from analysis_graphs import KINDS, Encoded, Stage, grama, grama_for_graphs, graph
from coefficient_strategies import companion, dense_loop
from torch import nn
from torch_geometric.nn import GCN2Conv

from torch_grama.analysis import analyze_blocks
from torch_grama.analysis.block_analysis import find_grama, inner_input, trace_blocks
from torch_grama.analysis.inputs import ModelInput, evaluation_mode, read_input
from torch_grama.nn import (
    GRAMA,
    CategoricalEncoder,
    Coefficients,
    GatedGCNConv,
    Running,
    functional,
)
from torch_grama.nn.coefficients import PACE


def retaining(retention, **options):
    """A model whose blocks keep another share of the past than one."""
    model = grama(**options)
    with torch.no_grad():
        for block in model.blocks:
            block.retention.fill_(retention)
    return model


def test_retention_below_one_ends_the_infinite_memory_of_the_sum():
    softmax = Coefficients(constraint="softmax")
    models = (grama(gain=gain, coefficients=softmax) for gain in (None, "auto"))
    paper, auto = (analyze_blocks(model, graph(5), closed_loop=False) for model in models)
    for kept, lost in zip(paper, auto, strict=True):
        assert kept.learned_retention is None
        assert sum(kept.phi[0]) == pytest.approx(1, rel=1e-3)
        assert kept.memory_length == [None]
        assert lost.learned_retention == pytest.approx(2 / 3, rel=1e-4)
        assert sum(lost.phi[0]) == pytest.approx(2 / 3, rel=1e-3)
        assert lost.memory_length[0] is not None
        assert lost.bibo_stable == [True]


def test_an_initial_residual_is_no_part_of_the_loop():
    records = []
    for alpha in (0.0, 0.4):
        model = grama(backbone=GCN2Conv(4, alpha))
        with torch.no_grad():
            for block in model.blocks:
                block.backbone.weight1 /= 1 - alpha
        records.append(analyze_blocks(model, graph(5))[0].closed_loop)
    assert records[1].operator_norm == pytest.approx(records[0].operator_norm)


def test_records_equal_independent_calculations():
    model = retaining(0.9, act="tanh")
    graphs = [graph(5), graph(4, seed=1)]
    inputs = read_input(graphs)
    records = analyze_blocks(model, graphs)
    _, coefficients = model.eval()(
        inputs.x, inputs.edge_index, batch=inputs.batch, return_coefficients=True
    )
    assert [(r.block, r.step, r.backbone) for r in records] == [
        (0, None, "GCNConv"),
        (1, None, "GCNConv"),
    ]
    for record, used in zip(records, coefficients, strict=True):
        assert (record.learned_gain, record.learned_retention) == pytest.approx((0.7, 0.9))
        for b in range(2):
            phi, theta = used.phi[b].detach(), used.theta[b].detach()
            assert record.phi[b] == pytest.approx(phi.tolist(), rel=1e-4)
            assert record.theta[b] == pytest.approx(theta.tolist(), rel=1e-4)
            radius = torch.linalg.eigvals(companion(phi)).abs().max()
            assert record.radius[b] == pytest.approx(float(radius), rel=1e-4)
            assert record.margin[b] == pytest.approx(1 - float(radius), abs=1e-4)
            for real, imaginary in record.poles[b]:
                pole = complex(real, imaginary)
                value = pole**3 - sum(float(phi[i]) * pole ** (2 - i) for i in range(3))
                assert abs(value) < 1e-3
            assert record.sum_abs_phi[b] == pytest.approx(float(phi.abs().sum()), rel=1e-4)
            # a single unit input, then the recurrence by hand
            f, d = [0.0] * 3, [0.0] * 3
            for k in range(32):
                new = float(k == 0)
                f.append(sum(float(phi[i]) * f[-1 - i] for i in range(3)) + new)
                f[-1] += sum(float(theta[j]) * d[-1 - j] for j in range(3))
                d.append(new)
            assert record.impulse_response[b] == pytest.approx(f[3:], rel=1e-3)


def test_closed_loop_equals_the_dense_matrix():
    model = retaining(0.8, act="tanh")
    states, residuals = model.embedding(graph(4).x)
    record, second = analyze_blocks(model, graph(4))
    for block, found in zip(model.blocks, (record, second), strict=True):
        given = states[-1].detach()
        states, residuals, used = block(
            states, residuals, graph(4).edge_index, return_coefficients=True
        )
        backbone = block.bind(4, graph(4).edge_index)
        jacobian = torch.autograd.functional.jacobian(backbone, given).reshape(16, 16)
        loop = dense_loop(used.phi[0].detach(), used.theta[0].detach(), jacobian)
        radius = torch.linalg.eigvals(loop).abs().max()
        norm = torch.linalg.matrix_norm(jacobian, 2)
        assert found.closed_loop.operator_norm == [pytest.approx(float(norm), rel=1e-3)]
        assert found.closed_loop.radius == [pytest.approx(float(radius), rel=1e-3)]
        assert found.closed_loop.radius[0] <= found.closed_loop.bound[0] * (1 + 1e-6)
        assert found.closed_loop.bound[0] <= max(1, found.closed_loop.gain[0]) * (1 + 1e-6)


def test_the_loop_of_a_later_block_has_the_edges_that_it_was_given():
    model = grama(backbone=GatedGCNConv(4, edge_state="model", norm=None)).eval()
    _, second = analyze_blocks(model, graph(4))
    _, trace = trace_blocks(model, graph(4))
    edge_index, edges = trace.graph.edge_index, trace.graph.edge_attr
    assert edges is not None
    jacobian = torch.autograd.functional.jacobian(
        lambda x: (
            model.blocks[1].gain * model.blocks[1].backbone(x, edge_index, edge_attr=edges)[0]
        ),
        trace.given[-1].detach(),
    )
    norm = torch.linalg.matrix_norm(jacobian.reshape(16, 16), 2)
    assert second.closed_loop.operator_norm == [pytest.approx(float(norm), rel=1e-3)]


@pytest.mark.parametrize("backbone", ["gatedgcn", "gps"])
def test_a_batch_equals_its_graphs_one_by_one(backbone):
    model = grama(backbone=backbone)
    graphs = [graph(5), graph(1, seed=1), graph(6, seed=2)]
    together = analyze_blocks(model, graphs)
    alone = [analyze_blocks(model, part) for part in graphs]
    for index, record in enumerate(together):
        for b in range(3):
            own = alone[b][index]
            assert record.phi[b] == pytest.approx(own.phi[0], rel=1e-4)
            assert record.radius[b] == pytest.approx(own.radius[0], rel=1e-4)
            assert record.memory_length[b] == own.memory_length[0]
            assert record.closed_loop.radius[b] == pytest.approx(
                own.closed_loop.radius[0], rel=1e-2
            )


def test_the_condition_holds_for_l1_and_is_told_from_stability():
    options = {"coefficients": Coefficients(constraint="l1")}
    stable = analyze_blocks(grama(**options), graph(5), closed_loop=False)
    assert all(record.satisfies_condition == [True] for record in stable)
    assert all(record.closed_loop is None for record in stable)
    # the retention scales what the constraint holds
    (kept, _) = analyze_blocks(retaining(0.9, **options), graph(5), closed_loop=False)
    assert kept.sum_abs_phi == [pytest.approx(0.9, rel=1e-4)]
    assert kept.satisfies_condition == kept.stable == kept.bibo_stable == [True]
    (raised, _) = analyze_blocks(retaining(1.1, **options), graph(5), closed_loop=False)
    assert raised.satisfies_condition == [False]
    model = grama(coefficients=Coefficients("naive", constraint="none"))
    with torch.no_grad():
        for block in model.blocks:
            block.coefficients.weight[:3] = torch.tensor([2.0, -1.0, 0.0]) / PACE
    (first, _) = analyze_blocks(model, graph(5), closed_loop=False)
    assert first.satisfies_condition == first.stable == first.bibo_stable == [False]
    assert first.radius == [pytest.approx(1, abs=1e-4)]
    assert first.memory_length == [None]


def test_one_record_a_recurrence_where_coefficients_are_updated():
    model = grama(coefficients=Coefficients(update="step"))
    records = analyze_blocks(model, [graph(5), graph(3)])
    assert [(r.block, r.step) for r in records] == [(s, r) for s in range(2) for r in range(3)]
    _, coefficients = model.eval()(graph(5).x, graph(5).edge_index, return_coefficients=True)
    for record in records:
        expected = coefficients[record.block].phi[record.step, 0]
        assert record.phi[0] == pytest.approx(expected.tolist(), rel=1e-4)


def test_records_are_plain_and_the_model_is_left_alone():
    model = Stage(grama(dropout=0.5, gain=None)).train()
    before = torch.get_rng_state()
    first, second = (analyze_blocks(model, graph(5)) for _ in range(2))
    assert first == second
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert model.model.training
    assert first[0].learned_gain is first[0].learned_retention is None
    assert all(parameter.grad is None for parameter in model.parameters())
    json.dumps([dataclasses.asdict(record) for record in first], allow_nan=False)


kinds = KINDS | {
    "one block": {"seq_len": 8, "num_blocks": 1},
    "batch_norm": {"norm": "batch_norm", "dropout": 0.5},
    "recurrences": {"coefficients": "naive", "num_recurrences": 2},
    "reference": {"gain": "auto", "running": Running(engine="reference")},
}


def states_lead_to(model, inputs):
    """The output that the traced states of the last block lead to."""
    with evaluation_mode(model), torch.no_grad():
        traces = trace_blocks(model, inner_input(model, inputs))
        pools = len(inputs.run(model)) != inputs.num_nodes
    inner = find_grama(model)
    last = traces[-1].states[-1]
    if pools:
        last = functional.graph_mean(last.unsqueeze(0), inputs.batch, inputs.batch_size).squeeze(1)
    return inner.head.eval()(last), traces


@pytest.mark.parametrize("make", [grama, grama_for_graphs])
@pytest.mark.parametrize("options", kinds.values(), ids=kinds)
def test_traced_states_lead_to_the_output_of_the_model(options, make):
    model = make(**options)
    inputs = read_input([graph(5), graph(3, seed=1)])
    model(inputs.x, inputs.edge_index, batch=inputs.batch)  # running statistics
    out, traces = states_lead_to(model, inputs)
    expected, coefficients = model.eval()(
        inputs.x, inputs.edge_index, batch=inputs.batch, return_coefficients=True
    )
    assert torch.allclose(out, expected, atol=1e-12)
    for trace, used in zip(traces, coefficients, strict=True):
        assert torch.allclose(trace.coefficients.phi, used.phi)
        assert torch.allclose(trace.coefficients.theta, used.theta)
        assert len(trace.states) == model.num_recurrences


def test_encoders_positions_edges_and_wrappers_are_followed():
    torch.manual_seed(0)
    model = Encoded(
        GRAMA(8, 4, 2, seq_len=3, backbone="gatedgcn", edge_dim=7),
        CategoricalEncoder([4, 3], 6),
        CategoricalEncoder([5], 7),
    )
    inputs = ModelInput(
        torch.randint(3, (5, 2)),
        graph(5).edge_index,
        edge_attr=torch.randint(5, (8, 1)),
        pe=torch.randn(5, 2),
    )
    out, _ = states_lead_to(model, inputs)
    assert torch.allclose(out, inputs.run(model.eval()), atol=1e-6)


def test_a_wrapper_is_run_for_what_it_passes_on():
    model, inputs = Stage(grama()), graph(5)
    assert find_grama(model) is model.model
    with evaluation_mode(model):
        assert torch.equal(inner_input(model, inputs).x, 2 * inputs.x)
    out, _ = states_lead_to(model, inputs)
    assert torch.allclose(out, inputs.run(model), atol=1e-12)
    assert not model.model._forward_pre_hooks


def test_a_wrapper_may_ask_for_the_coefficients():
    class Asking(Stage):
        def forward(self, x, edge_index, *rest):
            by_name, _ = self.model(x, edge_index, *rest, return_coefficients=True)
            by_place, _ = self.model(x, edge_index, *rest, True)
            return by_name + by_place

    heard = inner_input(Asking(grama()), graph(5))
    assert torch.equal(heard.x, graph(5).x)
    assert heard.pe is None


def test_a_sequence_is_followed():
    model = GRAMA(3, 4, 2, seq_len=4).eval()
    inputs = ModelInput(torch.randn(5, 4, 3), graph(5).edge_index)
    out = model.head(trace_blocks(model, inner_input(model, inputs))[-1].states[-1])
    assert torch.allclose(out, inputs.run(model), atol=1e-6)


def test_models_without_grama_are_refused():
    model = nn.Linear(3, 3)
    assert find_grama(model) is None
    with pytest.raises(ValueError, match=r"Expected a GRAMA model .*\(got Linear\)"):
        inner_input(model, graph(3))

    class Silent(Stage):
        def forward(self, *_):
            return None

    with pytest.raises(ValueError, match="call the GRAMA model inside it"):
        inner_input(Silent(grama()), graph(3))
