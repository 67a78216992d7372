import pytest
import torch
from analysis_graphs import Stage, grama, graph
from coefficient_strategies import companion
from torch import nn
from torch_geometric.nn import RGCNConv

from torch_grama.analysis import CoefficientLog, read_input, summarize_coefficients
from torch_grama.nn import ARMACoefficients, Coefficients
from torch_grama.nn.coefficients import PACE


def test_summary_equals_independent_means():
    torch.manual_seed(0)
    phi, theta = torch.randn(5, 3), torch.randn(5, 2)
    (found,) = summarize_coefficients([ARMACoefficients(phi, theta)])
    assert found.block == 0
    assert found.num_graphs == 5
    assert found.phi == pytest.approx([sum(phi[:, i].tolist()) / 5 for i in range(3)], rel=1e-3)
    assert found.theta_spread == pytest.approx(theta.std(0, correction=0).tolist(), rel=1e-3)
    assert found.sum_abs_phi == pytest.approx(float(phi.abs().sum()) / 5, rel=1e-3)
    roots = [
        max(abs(complex(root)) for root in torch.linalg.eigvals(companion(row))) for row in phi
    ]
    assert found.radius == pytest.approx(sum(roots) / 5, rel=1e-3)
    assert found.max_radius == pytest.approx(max(roots), rel=1e-3)
    mean = phi.mean(0).tolist()
    for real, imaginary in found.poles:
        pole = complex(real, imaginary)
        assert abs(pole**3 - sum(c * pole ** (2 - i) for i, c in enumerate(mean))) < 1e-3


def test_poles_of_many_graphs_are_sampled():
    phi = torch.full((5000, 2), 0.1)
    phi[-1] = 3.0
    (found,) = summarize_coefficients([ARMACoefficients(phi, phi)])
    assert found.num_graphs == 5000
    assert found.max_radius > 3  # the first and the last are always among them


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_log_changes_no_output_and_costs_no_pass(wrapped):
    inner = grama(coefficients=Coefficients(update="step"))
    model, inputs = Stage(inner) if wrapped else inner, read_input([graph(4), graph(3)])
    expected = inputs.run(model)
    passes = []
    handle = inner.register_forward_hook(lambda *_: passes.append(1))
    with CoefficientLog(model) as log:
        out = inputs.run(model)
        inputs.run(model)
    handle.remove()
    assert torch.equal(out, expected)
    assert out.requires_grad
    assert len(passes) == 2
    found = log.summary()
    assert [summary.num_graphs for summary in found] == [12, 12]  # 2 passes, 3 steps, 2 graphs
    _, used = inner(
        inputs.x * (2 if wrapped else 1),
        inputs.edge_index,
        batch=inputs.batch,
        return_coefficients=True,
    )
    assert [s.phi for s in summarize_coefficients(used)] == [s.phi for s in found]
    assert not inner._forward_hooks
    assert not inner._forward_pre_hooks


def test_types_of_edges_that_come_last_are_handed_on():
    model, inputs = grama(backbone=RGCNConv(4, 4, num_relations=2)), graph(4)
    given = (inputs.x, inputs.edge_index, None, None, None, None, False)
    kinds = torch.arange(inputs.edge_index.size(1)) % 2
    expected = model(*given, kinds)
    with CoefficientLog(model) as log:
        assert torch.equal(model(*given, kinds), expected)
    assert len(log.summary()) == len(model.blocks)


def test_a_caller_who_asks_still_gets_the_coefficients():
    model, inputs = grama(), graph(4)
    with CoefficientLog(model) as log:
        out, used = model(inputs.x, inputs.edge_index, return_coefficients=True)
        by_place = model(inputs.x, inputs.edge_index, None, None, None, None, True)
        plain = model(inputs.x, inputs.edge_index)
    assert len(used) == len(by_place[1]) == 2
    assert torch.equal(out, plain)
    assert log.summary()[0].num_graphs == 3


def test_only_the_last_passes_are_kept(monkeypatch):
    monkeypatch.setattr("torch_grama.analysis.coefficient_log._MAX_PASSES", 2)
    model = grama(coefficients=Coefficients("naive", constraint="none"))
    log = CoefficientLog(model)
    assert log.summary() == []
    log.open()
    for value in (1.0, 2.0, 3.0):
        with torch.no_grad():
            model.blocks[0].coefficients.weight.fill_(value / PACE)
        model(graph(4).x, graph(4).edge_index)
    log.close()
    model(graph(4).x, graph(4).edge_index)
    assert log.summary()[0].phi == [2.5, 2.5, 2.5]
    log.open()
    assert log.summary() == []
    log.close()


def test_a_failing_pass_leaves_the_log_in_order():
    model = grama()
    with CoefficientLog(model) as log:
        with pytest.raises(ValueError, match="edge_index"):
            model(graph(4).x, torch.full((2, 1), 9), return_coefficients=True)
        out = model(graph(4).x, graph(4).edge_index)
    assert isinstance(out, torch.Tensor)
    assert log.summary()[0].num_graphs == 1


def test_unusable_arguments():
    with pytest.raises(ValueError, match="Expected a GRAMA model"):
        CoefficientLog(nn.Linear(2, 2))
    nothing = torch.zeros(0, 2)
    with pytest.raises(ValueError, match="at least one graph"):
        summarize_coefficients([ARMACoefficients(nothing, nothing)])
