import copy
import itertools
import re

import pytest
import torch
from backbone_cases import BY_NAME, CASES, CHANNELS, BackboneCase, backbones
from model_gradients import assert_same_gradients, loss_gradients
from torch.nn import ELU, Linear, Module, PReLU, ReLU
from torch_geometric.nn import GraphNorm
from torch_geometric.utils import to_torch_csr_tensor

from torch_grama.nn import GRAMA, Coefficients, Readout, Running, linear_backbone
from torch_grama.nn.engine import kernels

GCN = BY_NAME["gcn"]
# from eight recurrences on, a linear backbone is run by Horner's rule
HORNER = {"seq_len": 2, "num_recurrences": 9}
# linear backbones, and one that is called as often as there are recurrences
OFTEN = [
    BY_NAME[name]
    for name in ("gcn", "RootedGCNConv", "SAGEConv", "GraphConv", "gatedgcn", "GCN2Conv")
]


class RectifiesInput(Module):
    """A backbone whose first deed is an activation, perhaps in place."""

    def __init__(self, act):
        super().__init__()
        self.act = act
        self.lin = Linear(CHANNELS, CHANNELS)

    def forward(self, x, edge_index):
        messages = self.lin(self.act(x))[edge_index[0]]
        return torch.zeros_like(x).index_add(0, edge_index[1], messages)


OPTIONS = [
    {"coefficients": "naive"},
    {"coefficients": Coefficients(constraint="l1")},
    {"coefficients": Coefficients(constraint="softmax")},
    {"coefficients": Coefficients("naive", constraint="none")},
    {"coefficients": Coefficients(ar_order=1, ma_order=2)},
    {"coefficients": Coefficients(ar_order=2), "num_recurrences": 10},
    {"act": "gelu"},
    {"act": None},
    {"act": torch.sin},
    {"act": lambda x: x.clamp(min=0) ** 2},
    {"act": PReLU(dtype=torch.float64)},
    {"act": ELU(inplace=True)},
    {"act": PReLU(dtype=torch.float64), "num_recurrences": 10, "norm": "layer_norm"},
    {"dropout": 0.5},
    {"norm": "layer_norm"},
    {"norm": "batch_norm"},
    {"norm": GraphNorm},
    {"num_recurrences": 2},
    {"gain": None},
    {"coefficients": Coefficients(update="step")},
    {"readout": Readout("graph", "sum-max-mean", 3)},
    {"num_blocks": 1},
    {"num_blocks": 4},
]
# a backbone for each recurrence
OWN = [
    {"share_weights": False, "num_recurrences": number, "seq_len": min(number, 3)}
    for number in (1, 3, 9)
]
WITH_OWN = [BY_NAME[name] for name in ("gatedgcn", "gatedgcn with edges", "gps", "SAGEConv")]


def name_of(value):
    return getattr(value, "name", re.sub(r" at 0x\w+", "", str(value)))


def solve(case, batch, weighted=False, **options):
    """What a model says, and the gradients of its parameters, its features and its weights."""
    model = case.model(**copy.deepcopy(options))
    graph = copy.copy(batch)
    graph.x, weight = (given.clone().requires_grad_() for given in (batch.x, batch.edge_weight))
    torch.manual_seed(3)  # of dropout
    out = case.run(model, graph, **({"edge_weight": weight} if weighted else {}))
    leaves = [graph.x, *([weight] if weighted else []), *model.parameters()]
    loss = (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum()
    return out, torch.autograd.grad(loss, leaves, allow_unused=True), list(model.buffers())


def assert_same(one, other):
    assert torch.allclose(one[0], other[0])
    assert_same_gradients(one[1], other[1])
    assert all(torch.allclose(a, b) for a, b in zip(one[2], other[2], strict=True))


class TestEngines:
    """Same numbers, different speed and memory."""

    @pytest.mark.no_cover
    @pytest.mark.parametrize(
        ("case", "options"),
        [
            *itertools.product(CASES, [{"readout": "graph"}]),
            *itertools.product(OFTEN, [HORNER]),
            *itertools.product([GCN], [{"weighted": True}, *OPTIONS, *OWN]),
            *itertools.product(WITH_OWN, OWN[1:2]),
        ],
        ids=name_of,
    )
    def test_equal_the_reference(self, case, options, batch):
        expected = solve(case, batch, running=Running("reference"), **options)
        for running in (Running(), Running("scan"), Running(recompute=True)):
            assert_same(solve(case, batch, running=running, **options), expected)

    @pytest.mark.parametrize("engine", ["linear", "scan", "reference"])
    @pytest.mark.parametrize(("weighted", "cached"), [(True, False), (False, True)])
    def test_equal_the_reference_with_blocks_computed_twice(self, engine, weighted, cached, batch):
        options = {"num_blocks": 3, "weighted": weighted}
        expected = solve(GCN, batch, running=Running("reference"), **options)
        running = Running(engine, cached=cached, recompute=True)
        assert_same(solve(GCN, batch, running=running, **options), expected)


class TestWithoutGradients:
    @pytest.mark.parametrize(
        "running",
        [Running(), Running("scan"), Running("reference"), Running(recompute=True)],
        ids=str,
    )
    @pytest.mark.parametrize("norm", [None, "layer_norm"])
    @pytest.mark.parametrize("act", ["relu", "tanh", "gelu", None])
    def test_the_same_numbers(self, batch, running, norm, act):
        model = GCN.model(running=running, norm=norm, act=act, num_blocks=3)
        expected = GCN.run(model, batch)
        for context in (torch.no_grad(), torch.inference_mode()):
            with context:
                assert torch.allclose(GCN.run(model, batch), expected)

    def test_what_a_hook_kept_of_a_norm_stays(self, batch):
        model = GCN.model(norm="layer_norm")
        kept = []
        model.blocks[0].norm.register_forward_hook(lambda *call: kept.append(call[-1]))
        with torch.no_grad():
            GCN.run(model, batch)
        assert bool((kept[0] < 0).any())

    def test_the_block_leaves_its_input_alone(self, path):
        block = GCN.model().blocks[0]
        given = torch.randn(2, block.seq_len, 4, block.channels, dtype=torch.float64)
        before = given.clone()
        with torch.no_grad():
            block(given[0], given[1], path.edge_index)
        assert torch.equal(given, before)


class TestLargeTensors:
    """Memory that is used again, from the first to the last step."""

    @pytest.fixture(autouse=True)
    def _all_are_large(self, monkeypatch):
        # 8 x 300 x 32 numbers take 300 kB
        monkeypatch.setattr(kernels, "_LARGE_BYTES", 2**17)
        monkeypatch.setattr(kernels, "_CHUNK_BYTES", 2**17)

    def make(self, **options):
        torch.manual_seed(1)
        running = Running(check_input=False, **options)
        return GRAMA(3, 32, 2, seq_len=8, num_blocks=2, running=running)

    def graph(self):
        generator = torch.Generator().manual_seed(0)
        edge_index = torch.randint(300, (2, 900), generator=generator)
        return torch.randn(300, 3, generator=generator), edge_index

    def test_equal_the_reference_step_after_step(self):
        x, edge_index = self.graph()
        results = []
        for options in ({"engine": "reference"}, {}, {"recompute": True}):
            model = self.make(**options)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            losses = []
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(x, edge_index).square().mean()
                loss.backward()
                optimizer.step()
                with torch.no_grad():
                    losses.append((loss.item(), model(x, edge_index).square().mean().item()))
            results.append(torch.tensor(losses))
        for got in results[1:]:
            torch.testing.assert_close(got, results[0], rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("engine", ["auto", "scan"])
    def test_two_graphs_of_autograd_at_once(self, engine):
        x, edge_index = self.graph()
        model = self.make(engine=engine)
        parameters = list(model.parameters())
        expected = [
            torch.autograd.grad(model(part, edge_index).sum(), parameters) for part in (x, 2 * x)
        ]
        outs = [model(part, edge_index) for part in (x, 2 * x)]
        for out, gradients in zip(outs, expected, strict=True):
            torch.testing.assert_close(torch.autograd.grad(out.sum(), parameters), gradients)


class TestSideEffects:
    """What a caller does, or leaves, with a model changes no number."""

    @pytest.mark.parametrize("engine", ["auto", "scan"])
    @pytest.mark.parametrize("sizes", [{}, {"seq_len": 2, "num_recurrences": 9}], ids=str)
    def test_gradients_do_not_depend_on_those_asked_for_before(self, path, engine, sizes):
        results = []
        for run_engine, asks_before in ((engine, True), (engine, False), ("reference", False)):
            model = GCN.model(running=Running(run_engine), **sizes)
            out, used = GCN.run(model, path, return_coefficients=True)
            if asks_before:
                torch.autograd.grad(out.square().sum(), used[0].phi, retain_graph=True)
            results.append(
                torch.autograd.grad(used[0].phi.square().sum(), model.embedding.weight)[0]
            )
        assert torch.allclose(results[0], results[1])
        assert torch.allclose(results[0], results[2])
        assert results[0].abs().sum() > 0

    @pytest.mark.parametrize("engine", ["auto", "scan"])
    def test_a_gradient_of_coefficients_leaves_that_of_the_output(self, path, engine):
        gradients = []
        for asks_before in (True, False):
            model = GCN.model(running=Running(engine))
            out, used = GCN.run(model, path, return_coefficients=True)
            if asks_before:
                used[1].phi.square().sum().backward(retain_graph=True)
            gradients.append(loss_gradients(model, out))
        assert_same_gradients(*gradients)

    @pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
    @pytest.mark.parametrize("kind", [ELU, ReLU])
    @pytest.mark.parametrize("trains", [True, False])
    def test_an_activation_in_place_equals_the_plain_one(self, batch, engine, kind, trains):
        results = []
        for inplace in (True, False):
            model = GCN.model(running=Running(engine), act=kind(inplace=inplace))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            losses = []
            for _ in range(3):
                optimizer.zero_grad()
                with torch.set_grad_enabled(trains):
                    loss = GCN.run(model, batch).square().mean()
                losses.append(loss.item())
                if trains:
                    loss.backward()
                    optimizer.step()
            results.append(losses)
        assert results[0] == pytest.approx(results[1], rel=1e-9)
        assert (results[0][-1] < results[0][0]) is trains

    @pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
    def test_a_backbone_with_a_part_in_place_equals_the_plain_one(self, batch, engine):
        results = []
        for inplace, run_engine in ((True, engine), (False, "reference")):
            case = BackboneCase("", lambda inplace=inplace: RectifiesInput(ReLU(inplace)))
            model = case.model(running=Running(run_engine), act="tanh")
            out = case.run(model, batch)
            results.append((out, loss_gradients(model, out)))
        assert torch.allclose(results[0][0], results[1][0])
        assert_same_gradients(results[0][1], results[1][1])

    @pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
    @pytest.mark.parametrize("trains", [True, False])
    def test_a_backbone_that_changes_its_input_is_refused(self, batch, engine, trains):
        case = BackboneCase("", lambda: RectifiesInput(torch.relu_))
        model = case.model(running=Running(engine), act="tanh")
        with (
            torch.set_grad_enabled(trains),
            pytest.raises(RuntimeError, match=r"RectifiesInput.*to leave its input.*x\.clone\(\)"),
        ):
            case.run(model, batch)

    @pytest.mark.parametrize("engine", ["auto", "scan"])
    @pytest.mark.parametrize("of", ["embedding.weight", "head.layers.0.weight"])
    def test_second_derivatives_need_the_reference_engine(self, batch, engine, of):
        def differentiate(engine):
            model = GCN.model(running=Running(engine), act="tanh")
            x = batch.x.clone().requires_grad_()
            out = model(x, batch.edge_index, batch=batch.batch)
            (gradient,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
            return gradient, model.get_parameter(of)

        fast, parameter = differentiate(engine)
        plain, its_parameter = differentiate("reference")
        assert torch.allclose(fast, plain)
        with pytest.raises(RuntimeError, match="engine='reference'"):
            torch.autograd.grad(fast.square().sum(), parameter, retain_graph=True)
        with pytest.raises(RuntimeError, match="engine='reference'"):
            fast.square().sum().backward()
        (second,) = torch.autograd.grad(plain.square().sum(), its_parameter)
        assert second.abs().sum() > 0


class TestRecompute:
    def test_runs_each_block_once_more_for_the_gradient(self, batch):
        case = BY_NAME["user's module"]
        model = case.model(running=Running(recompute=True))
        calls = []
        for block in model.blocks:
            block.backbone.register_forward_hook(lambda *_: calls.append(1))
        out = case.run(model, batch)
        assert len(calls) == 6
        out.sum().backward()
        assert len(calls) == 12

    def test_statistics_survive_a_gradient_that_fails(self, batch):
        case = BY_NAME["gatedgcn"]
        model = case.model(running=Running(recompute=True))
        out = case.run(model, batch)
        before = [buffer.clone() for buffer in model.buffers()]
        model.blocks[1].backbone.register_forward_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            out.sum().backward()
        assert all(torch.equal(a, b) for a, b in zip(before, model.buffers(), strict=True))


class TestCached:
    def test_the_matrix_is_made_once(self, path, monkeypatch):
        made = []
        build = linear_backbone.gcn_adjacency
        monkeypatch.setattr(
            linear_backbone, "gcn_adjacency", lambda *args: made.append(1) or build(*args)
        )
        model = GCN.model(running=Running(cached=True))
        for _ in range(3):
            GCN.run(model, path)
        assert len(made) == 1

    @pytest.mark.parametrize("check_input", [True, False])
    def test_another_size_is_refused(self, path, directed, check_input):
        model = GCN.model(running=Running(cached=True, check_input=check_input))
        GCN.run(model, path)
        with pytest.raises(ValueError, match=r"graph of the first forward pass.*reset_cache"):
            model(path.x, path.edge_index[:, :2])
        with pytest.raises(ValueError, match=r"graph of the first forward pass.*reset_cache"):
            GCN.run(model, directed)

    def test_other_edges_or_weights_of_the_same_number_are_refused(self, path):
        model = GCN.model(running=Running(cached=True))
        graph = [path.edge_index, path.edge_weight]
        expected = model(path.x, *graph)
        for other in (
            [graph[0].flip(0).roll(1, 1), graph[1]],
            [graph[0], 2 * graph[1]],
            [graph[0]],
        ):
            with pytest.raises(ValueError, match=r"graph of the first forward pass.*reset_cache"):
                model(path.x, *other)
        assert torch.equal(model(path.x, *(part.clone() for part in graph)), expected)

    @pytest.mark.parametrize("changed", [0, 1], ids=["edges", "weights"])
    def test_a_graph_that_was_changed_in_place_is_refused(self, path, changed):
        model = GCN.model(running=Running(cached=True))
        graph = [path.edge_index.clone(), path.edge_weight.clone()]
        model(path.x, *graph)
        graph[changed][..., 0] = 2
        with pytest.raises(ValueError, match=r"graph of the first forward pass.*reset_cache"):
            model(path.x, *graph)

    def test_learned_weights_are_refused(self, path):
        model = GCN.model(running=Running(cached=True))
        weight = path.edge_weight.clone().requires_grad_()
        with torch.no_grad(), pytest.raises(ValueError, match=r"without a gradient.*detach"):
            model(path.x, path.edge_index, weight)
        model(path.x, path.edge_index, weight.detach())
        with pytest.raises(ValueError, match=r"without a gradient.*detach"):
            model(path.x, path.edge_index, weight)

    @pytest.mark.parametrize(
        "forget",
        [GRAMA.reset_cache, GRAMA.reset_parameters, GRAMA.double, lambda model: model.to("cpu")],
    )
    def test_forgets_the_matrix(self, path, forget):
        model = GCN.model(running=Running(cached=True))
        GCN.run(model, path)
        forget(model)
        fresh = GCN.model()
        fresh.load_state_dict(model.state_dict())
        fewer = path.edge_index[:, :2]
        assert torch.equal(model(path.x, fewer), fresh(path.x, fewer))

    @pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
    def test_a_matrix_made_without_gradients_serves_training(self, path, engine):
        model = GCN.model(running=Running(engine, cached=True))
        with torch.inference_mode():
            GCN.run(model, path)
        out = GCN.run(model, path)
        plain = GCN.model(running=Running(engine))
        expected = GCN.run(plain, path)
        assert torch.equal(out, expected)
        assert_same_gradients(loss_gradients(model, out), loss_gradients(plain, expected))


class TestSparseAdjacency:
    @pytest.mark.no_cover
    @backbones([case for case in CASES if case.edge_dim is None])
    def test_equals_edge_index(self, case, path):
        model = case.model().eval()
        transposed = to_torch_csr_tensor(path.edge_index.flip(0), size=(4, 4)).double()
        assert torch.allclose(model(path.x, transposed), case.run(model, path))
