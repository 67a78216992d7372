"""Sums of messages: the kernels equal their torch twins; on a CPU they run in Triton's interpreter.

Twins are judged themselves by the tests of the layers, which write the equations out.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch

import torch_grama.nn.backbone
from torch_grama.nn import GRAMA, GatedGCNConv, NeighborSumConv, Running
from torch_grama.nn.engine import kernels
from torch_grama.nn.engine.edge_messages import (
    edge_kernels,
    gated_sum,
    neighbor_sum,
    order_edges,
    reads_order,
)

# unsorted; the edge 2 -> 0 twice, a loop, node 4 receives six, node 5 nothing, node 6 has no edge
EDGES = torch.tensor([[3, 2, 1, 2, 0, 1, 2, 3, 5, 4, 0, 1], [4, 0, 1, 0, 4, 4, 4, 2, 4, 4, 3, 0]])
GRAPHS = {
    "many": (7, EDGES),
    "no edges": (3, EDGES[:, :0]),
    "one node": (1, EDGES[:, :0]),
    "one node with loops": (1, torch.zeros(2, 2, dtype=torch.long)),
}


# channels that fill no block, and more than a block
graphs_and_channels = pytest.mark.parametrize(
    ("graph", "channels"), [("many", 300), ("one node with loops", 1), *((g, 5) for g in GRAPHS)]
)


def draw(*size: int) -> torch.Tensor:
    return torch.randn(size, requires_grad=True)


def results(function, *tensors: torch.Tensor | None) -> list[torch.Tensor]:
    """Values and gradients, the latter of sums with different weights."""
    given = [t for t in tensors if t is not None]
    outputs = function(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    loss = sum(
        (out.double() * out.numel() * torch.linspace(-1, 2, out.numel()).view_as(out)).sum()
        for out in outputs
    )
    return [*outputs, *torch.autograd.grad(loss, given)]


def in_double(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


def assert_equal(ours: list[torch.Tensor], judge: list[torch.Tensor]) -> None:
    for a, b in zip(ours, judge, strict=True):
        assert a.dtype == torch.float32
        assert a.size() == b.size()
        scale = float(b.detach().abs().max()) if b.numel() else 1.0
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=2e-6 * scale)


@pytest.mark.usefixtures("_interpreter")
class TestKernels:
    """Float32 by the kernels against float64 by torch."""

    @pytest.mark.no_cover
    @graphs_and_channels
    @pytest.mark.parametrize("normalizes", [True, False])
    @pytest.mark.parametrize("rows", ["each", "one"])
    def test_gated_sum(self, graph, channels, normalizes, rows):
        num_nodes, edge_index = GRAPHS[graph]
        num_rows = edge_index.size(1) if rows == "each" else 1
        given = draw(num_nodes, 4 * channels), draw(num_rows, channels)
        assert edge_kernels(*given) is not None
        run = partial(gated_sum, edge_index=edge_index, normalizes=normalizes)
        assert_equal(results(run, *given), results(run, *in_double(*given)))

    @graphs_and_channels
    @pytest.mark.parametrize("has_edges", [True, False])
    def test_neighbor_sum(self, graph, channels, has_edges):
        num_nodes, edge_index = GRAPHS[graph]
        projected = draw(edge_index.size(1), channels) if has_edges else None
        given = draw(num_nodes, channels), projected
        run = partial(neighbor_sum, edge_index=edge_index)
        assert_equal(results(run, *given), results(run, *in_double(*given)))

    @pytest.mark.parametrize("used", [0, 1])
    def test_either_result_of_the_gates_may_be_left_unused(self, used):
        given = draw(7, 12), draw(12, 3)

        def run(nodes, projected):
            return gated_sum(nodes, projected, EDGES)[used]

        assert_equal(results(run, *given), results(run, *in_double(*given)))

    def test_results_are_the_same_from_run_to_run(self):
        given = draw(7, 12), draw(12, 3)
        first, second = (results(lambda n, p: gated_sum(n, p, EDGES), *given) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))

    def test_without_gradients_nothing_is_copied(self, monkeypatch):
        copies = []
        fast = edge_kernels()
        plain = fast.gated_sum
        monkeypatch.setattr(
            fast, "gated_sum", lambda *given: copies.append(given[3]) or plain(*given)
        )
        given = draw(7, 12), draw(12, 3)
        trained = gated_sum(*given, EDGES)
        with torch.no_grad():
            evaluated = gated_sum(*given, EDGES)
        assert copies[0].size() == (7, 3)
        assert copies[1] is None
        assert all(torch.equal(a, b) for a, b in zip(trained, evaluated, strict=True))

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision(self, dtype):
        given = draw(7, 12), draw(12, 3)
        halved = [t.detach().to(dtype).requires_grad_() for t in given]
        run = partial(gated_sum, edge_index=EDGES)
        ours, judge = results(run, *halved), results(run, *in_double(*halved))
        assert all(t.dtype == dtype for t in ours)
        for a, b in zip(ours, judge, strict=True):
            torch.testing.assert_close(
                a.double(), b, rtol=3e-2, atol=3e-2 * float(b.detach().abs().max())
            )

    @pytest.mark.parametrize("name", ["gated", "neighbors", "neighbors alone"])
    def test_second_derivatives(self, name):
        given = draw(7, 12), draw(12, 12 if name == "neighbors" else 3)
        function = {
            "gated": lambda n, p: gated_sum(n, p, EDGES),
            "neighbors": lambda n, p: neighbor_sum(n, p, EDGES).pow(2),
            "neighbors alone": lambda n, p: neighbor_sum(n, None, EDGES).pow(2) + p.sum(),
        }[name]

        def run(*tensors):
            outputs = function(*tensors)
            loss = sum(out.pow(3).sum() for out in outputs)
            return torch.autograd.grad(loss, tensors, create_graph=True)

        assert_equal(results(run, *given), results(run, *in_double(*given)))

    def test_frozen_edges(self):
        sent, projected = draw(7, 3), draw(12, 3).detach()
        out = neighbor_sum(sent, projected, EDGES)
        (gradient,) = torch.autograd.grad(out.pow(3).sum(), sent, create_graph=True)
        (expected,) = torch.autograd.grad(
            neighbor_sum(sent.double(), projected.double(), EDGES).pow(3).sum(), sent
        )
        torch.testing.assert_close(gradient, expected)

    def test_what_is_not_contiguous_is_left_to_torch(self):
        nodes, projected = draw(12, 7).t(), draw(12, 3)
        assert edge_kernels(nodes, projected) is None
        out, _ = gated_sum(nodes, projected, EDGES)
        expected, _ = gated_sum(nodes.contiguous(), projected, EDGES)
        torch.testing.assert_close(out, expected)

    @pytest.mark.no_cover
    def test_transforms_are_left_to_torch(self):
        nodes, projected = draw(7, 4), draw(12, 1)

        def run(nodes):
            return gated_sum(nodes, projected, EDGES)[0]

        jacobian = torch.func.jacrev(run)(nodes)
        torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(run, nodes))


class TestOrder:
    def test_holds_the_numbers_of_the_edges(self):
        order = order_edges(EDGES, 7)
        for matrix, end in ((order.csr, 1), (order.transposed, 0)):
            ends = EDGES[:, matrix.value]
            assert torch.equal(ends[end], ends[end].sort().values)
            assert torch.equal(ends[1 - end], matrix.column.long())
            counts = matrix.row_start.diff().long()
            assert torch.equal(counts, EDGES[end].bincount(minlength=7))

    def test_is_not_asked_for_on_a_cpu(self):
        assert not reads_order(EDGES)

    @pytest.mark.parametrize("backbone", [GatedGCNConv(4), NeighborSumConv(4)], ids=type)
    @pytest.mark.parametrize("recompute", [False, True])
    def test_is_made_once_for_all_blocks(self, monkeypatch, backbone, recompute):
        made = []
        module = torch_grama.nn.backbone
        monkeypatch.setattr(module, "reads_order", lambda _: True)
        monkeypatch.setattr(
            module, "order_edges", lambda *given: made.append(1) or order_edges(*given)
        )
        running = Running(recompute=recompute)
        model = GRAMA(5, 4, 2, seq_len=1, num_blocks=2, backbone=backbone, running=running)
        model(torch.randn(3, 5), torch.tensor([[0, 1], [1, 2]])).sum().backward()
        assert len(made) == 1


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.usefixtures("_interpreter")
@pytest.mark.parametrize(
    ("backbone", "edge_dim"),
    [
        ("gatedgcn", 3),
        ("neighbor-sum", 3),
        pytest.param("gatedgcn", None, marks=pytest.mark.long),
        pytest.param("neighbor-sum", None, marks=pytest.mark.long),
    ],
)
def test_a_training_model_equals_torch(backbone, edge_dim, monkeypatch):
    torch.manual_seed(0)
    x, edge_attr = torch.randn(7, 5), None if edge_dim is None else torch.randn(12, edge_dim)
    options = {"seq_len": 2, "num_blocks": 1, "backbone": backbone, "edge_dim": edge_dim}
    models = [GRAMA(5, 6, 3, **options) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    outputs = []
    for switch, model in zip("10", models, strict=True):
        monkeypatch.setenv("TRITON_INTERPRET", switch)
        assert (kernels.triton_for(torch.relu, x) is None) or switch == "1"
        outputs.append(model(x, EDGES, edge_attr=edge_attr))
        outputs[-1].pow(3).sum().backward()
    torch.testing.assert_close(*outputs, rtol=1e-4, atol=1e-4)
    scale = max(float(p.grad.abs().max()) for p in models[1].parameters())
    for (name, ours), theirs in zip(
        models[0].named_parameters(), models[1].parameters(), strict=True
    ):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4 * scale, msg=name)
    for (name, ours), theirs in zip(models[0].named_buffers(), models[1].buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=name)
