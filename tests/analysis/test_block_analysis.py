import dataclasses
import json

import pytest
import torch
from analysis_graphs import Stage, grama, graph
from coefficient_strategies import companion

from torch_grama.analysis import analyze_blocks
from torch_grama.analysis.model_input import read_input


def dense_loop_radius(model, block, inputs, given, phi, theta):
    """The radius of one block's loop on one graph, from the whole matrix."""
    backbone = block.bind(inputs.num_nodes, inputs.edge_index)
    jacobian = torch.autograd.functional.jacobian(backbone, given)
    size = given.numel()
    G = jacobian.reshape(size, size)
    p, q = len(phi), len(theta)
    matrix = torch.zeros((p + q) * size, (p + q) * size, dtype=G.dtype)
    eye = torch.eye(size, dtype=G.dtype)
    for i in range(p):
        matrix[:size, i * size : (i + 1) * size] = phi[i] * eye
    for j in range(q):
        matrix[:size, (p + j) * size : (p + j + 1) * size] = theta[j] * eye
    matrix[:size, :size] += G
    matrix[p * size : (p + 1) * size, :size] = G
    for i in [*range(1, p), *range(p + 1, p + q)]:
        matrix[i * size : (i + 1) * size, (i - 1) * size : i * size] = eye
    return torch.linalg.eigvals(matrix).abs().max(), torch.linalg.matrix_norm(G, 2)


def test_records_equal_independent_calculations():
    model = grama(act="tanh")
    graphs = [graph(5), graph(4, seed=1)]
    inputs = read_input(graphs)
    records = analyze_blocks(model, graphs, impulse_length=6)
    _, coefficients = model.eval()(
        inputs.x, inputs.edge_index, batch=inputs.batch, return_coefficients=True
    )
    assert [(r.block, r.step, r.backbone) for r in records] == [
        (0, None, "GCNConv"),
        (1, None, "GCNConv"),
    ]
    for record, used in zip(records, coefficients, strict=True):
        assert record.learned_gain == pytest.approx(0.7)
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
            for k in range(6):
                new = float(k == 0)
                f.append(sum(float(phi[i]) * f[-1 - i] for i in range(3)) + new)
                f[-1] += sum(float(theta[j]) * d[-1 - j] for j in range(3))
                d.append(new)
            assert record.impulse_response[b] == pytest.approx(f[3:], rel=1e-3)


def test_closed_loop_equals_the_dense_matrix():
    model = grama(act="tanh")
    states, residuals = model.embedding(graph(4).x)
    record, second = analyze_blocks(model, graph(4))
    for block, found in zip(model.blocks, (record, second), strict=True):
        given = states[-1].detach()
        states, residuals, used = block(
            states, residuals, graph(4).edge_index, return_coefficients=True
        )
        radius, norm = dense_loop_radius(
            model, block, graph(4), given, used.phi[0].detach(), used.theta[0].detach()
        )
        assert found.closed_loop.operator_norm == [pytest.approx(float(norm), rel=1e-3)]
        assert found.closed_loop.radius == [pytest.approx(float(radius), rel=1e-3)]
        assert found.closed_loop.radius[0] <= found.closed_loop.bound[0] * (1 + 1e-6)
        assert found.closed_loop.bound[0] <= max(1, found.closed_loop.gain[0]) * (1 + 1e-6)


@pytest.mark.parametrize("backbone", ["gcn", "gatedgcn", "gps"])
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
    stable = analyze_blocks(grama(normalization="l1"), graph(5), closed_loop=False)
    assert all(record.satisfies_condition == [True] for record in stable)
    assert all(record.closed_loop is None for record in stable)
    model = grama(coefficients="naive", normalization="none")
    with torch.no_grad():
        for block in model.blocks:
            block.ar_coefficients.weight.copy_(torch.tensor([2.0, -1.0, 0.0]))
    (first, _) = analyze_blocks(model, graph(5), closed_loop=False)
    assert first.satisfies_condition == first.stable == first.bibo_stable == [False]
    assert first.radius == [pytest.approx(1, abs=1e-4)]
    assert first.memory_length == [None]


def test_one_record_a_recurrence_where_coefficients_are_updated():
    model = grama(coefficient_update="step")
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
    assert first[0].learned_gain is None
    assert all(parameter.grad is None for parameter in model.parameters())
    json.dumps([dataclasses.asdict(record) for record in first], allow_nan=False)
