import copy
import inspect
import io
import itertools
import math
import pickle
import sys
from pathlib import Path

import pytest
import torch
import written_out
from backbone_cases import BY_NAME, CASES, CHANNELS, WORDS, BackboneCase, SendTanh, backbones
from model_gradients import assert_same_gradients, loss_gradients
from torch.nn.parameter import Parameter, UninitializedParameter
from torch_geometric.nn import GCN2Conv, GCNConv
from torch_geometric.utils import to_dense_adj

from torch_grama.nn import GRAMA, Coefficients, GRAMABlock, Readout, Running
from torch_grama.nn.functional import graph_mean

GCN = BY_NAME["gcn"]
OPTIONS = [
    {"seq_len": 1, "num_blocks": 1},
    {"seq_len": 1, "num_recurrences": 3},
    {"seq_len": 2, "num_recurrences": 9},
    {"seq_len": 4, "num_recurrences": 1},
    {"seq_len": 1, "share_weights": False},
    {"norm": "batch_norm", "share_weights": False},
    {"norm": "layer_norm", "coefficients": "naive"},
    {"coefficients": Coefficients(update="step", constraint="l1")},
    {"seq_len": 4, "num_recurrences": 5, "coefficients": Coefficients(ar_order=1, ma_order=2)},
    {"seq_len": 4, "num_recurrences": 2, "coefficients": Coefficients("naive", 2, 1)},
]
readouts = pytest.mark.parametrize("readout", ["node", "graph"])


class TestEquations:
    """The whole model against the equations, written out."""

    @readouts
    @pytest.mark.parametrize("kind", ["selective", "naive"])
    @pytest.mark.parametrize("conv", [GCNConv(CHANNELS, CHANNELS), SendTanh(CHANNELS)])
    @pytest.mark.parametrize(
        ("sizes", "orders"),
        [
            ({"seq_len": 3}, {}),
            ({"seq_len": 1}, {}),
            ({"seq_len": 4, "num_recurrences": 2}, {}),
            ({"seq_len": 2, "num_recurrences": 9, "num_blocks": 3}, {}),
            ({"seq_len": 3, "num_blocks": 1}, {"ar_order": 2, "ma_order": 1}),
            ({"seq_len": 3, "norm": "layer_norm"}, {}),
        ],
        ids=str,
    )
    def test_output(self, batch, readout, kind, conv, sizes, orders):
        case = BackboneCase("", lambda: conv)
        coefficients = Coefficients(kind, **orders)
        model = case.model(coefficients=coefficients, readout=readout, act="tanh", **sizes)
        out, used = case.run(model, batch, return_coefficients=True)
        weight, bias = model.embedding.weight, model.embedding.bias
        f = torch.stack([(batch.x @ weight[k] + bias[k]).tanh() for k in range(model.seq_len)])
        d = torch.cat([f[1:] - f[:-1], 0 * f[:1]])
        for block, given in zip(model.blocks, used, strict=True):
            means = (graph_mean(part, batch.batch, 3) for part in (f, d))
            phi, theta = (part.expand(3, -1) for part in block.coefficients(*means))
            phi = block.retention * phi
            assert torch.allclose(given.phi, phi)
            assert torch.allclose(given.theta, theta)

            def backbone(x, block=block):
                return block.gain * block.backbone(x, batch.edge_index)

            f, d = written_out.recur(f, d, phi, theta, backbone, model.num_recurrences, batch.batch)
            f, d = (f if block.norm is None else block.norm(f)).tanh(), d.tanh()
        state = f[-1]
        if readout == "graph":
            state = torch.stack([state[batch.batch == graph].mean(0) for graph in range(3)])
        first, last = model.head.layers
        assert torch.allclose(out, last(first(state).tanh()))


class TestInitialResidual:
    """A backbone that adds a share of the state from which the first recurrence starts."""

    @pytest.mark.parametrize("engine", ["linear", "scan", "reference"])
    @pytest.mark.parametrize("sizes", [{"seq_len": 3}, {"seq_len": 2, "num_recurrences": 9}])
    def test_equals_the_dense_formula(self, batch, engine, sizes):
        case = BY_NAME["GCN2Conv"]
        model = case.model(running=Running(engine), act="tanh", **sizes)
        loops = torch.eye(batch.num_nodes, dtype=torch.float64)
        # [to, from], with ones on the diagonal
        linked = to_dense_adj(batch.edge_index)[0].t().double().maximum(loops)
        scale = linked.sum(1).rsqrt()
        matrix = scale[:, None] * linked * scale
        f, d = model.embedding(batch.x)
        first = f[-1]
        for block in model.blocks:
            means = (graph_mean(part, batch.batch, 3) for part in (f, d))
            phi, theta = block.coefficients(*means)

            def backbone(x, block=block):
                damped, initial = (
                    (1 - math.log(1.5)) * torch.eye(CHANNELS).double() + math.log(1.5) * weight
                    for weight in (block.backbone.weight1, block.backbone.weight2)
                )
                return block.gain * (0.8 * matrix @ x @ damped + 0.2 * first @ initial)

            given = block.retention * phi, theta, backbone, model.num_recurrences, batch.batch
            f, d = (part.tanh() for part in written_out.recur(f, d, *given))
        expected, out = model.head(f[-1]), case.run(model, batch)
        assert torch.allclose(out, expected)
        assert_same_gradients(loss_gradients(model, out), loss_gradients(model, expected))

    def test_a_share_of_nothing_is_the_plain_convolution(self, batch):
        convs = GCN2Conv(CHANNELS, alpha=0.0), GCNConv(CHANNELS, CHANNELS, bias=False)
        first, second = (BackboneCase("", lambda conv=conv: conv).model() for conv in convs)
        for one, other in zip(first.blocks, second.blocks, strict=True):
            other.backbone.lin.weight = Parameter(one.backbone.weight1.detach().t())
        second.load_state_dict(first.state_dict(), strict=False)
        assert torch.allclose(GCN.run(first, batch), GCN.run(second, batch))

    def test_reaches_as_many_hops_as_there_are_recurrences(self):
        edge_index = torch.stack([torch.arange(11), torch.arange(1, 12)])
        x = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
        model = BY_NAME["GCN2Conv"].model(coefficients="naive", seq_len=2, num_recurrences=4)
        (gradient,) = torch.autograd.grad(model(x, edge_index)[-1].sum(), x)
        assert (gradient.abs().sum(1) > 0).tolist() == [False] * 3 + [True] * 9


class TestCoefficients:
    def test_one_row_a_recurrence_when_updated_at_every_step(self, batch):
        model = GCN.model(coefficients=Coefficients(update="step"), num_recurrences=5)
        _, used = GCN.run(model, batch, return_coefficients=True)
        assert used[0].phi.size() == (5, 3, 3)
        assert used[1].phi.size() == (5, 3, 5)

    @pytest.mark.parametrize("kind", ["naive", "fixed"])
    def test_naive_ones_are_those_of_every_graph(self, batch, kind):
        model = GCN.model(coefficients=kind, gain=0.5)
        _, used = GCN.run(model, batch, return_coefficients=True)
        assert used[0].phi.tolist() == [[1.0, 0.0, 0.0]] * 3

    def test_selective_ones_differ_from_graph_to_graph(self, batch):
        _, used = GCN.run(GCN.model(), batch, return_coefficients=True)
        assert not torch.allclose(used[0].phi[0], used[0].phi[1])

    @pytest.mark.no_cover
    @backbones(WORDS)
    @pytest.mark.parametrize("constraint", ["sum", "l1", "softmax"])
    def test_first_forward_pass_is_finite(self, case, constraint, batch):
        model = case.fresh(coefficients=Coefficients(constraint=constraint))
        out, used = case.run(model, batch, return_coefficients=True)
        assert torch.isfinite(out).all()
        assert all(torch.isfinite(part).all() for pair in used for part in pair)

    def test_settings_reach_every_block(self):
        settings = Coefficients("selective", 2, 1, channels=5, constraint="l1", poles=0.9)
        model = GCN.model(coefficients=settings, num_blocks=3)
        for block in model.blocks:
            assert (block.ar_order, block.ma_order) == (2, 1)
            assert (block.coefficients.width, block.coefficients.poles) == (5, 0.9)
            assert block.coefficients.constraint == "l1"


class TestModule:
    @pytest.mark.no_cover
    @backbones()
    def test_a_loaded_twin_gives_the_same_numbers_from_the_same_seed(self, case, batch):
        model, twin = (case.model(dropout=0.3) for _ in range(2))
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, twin.get_parameter(name))
            torch.nn.init.normal_(parameter, std=0.3)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        twin.load_state_dict(torch.load(file, weights_only=True))
        results = []
        for one in (model, twin):
            torch.manual_seed(4)
            out = case.run(one, batch)
            results.append([out, *loss_gradients(one, out)])
        for a, b in zip(*results, strict=True):
            assert (a is None and b is None) or torch.equal(a, b)

    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
    def test_copies_are_equal_and_independent(self, path, directed, clone):
        model = GCN.model(running=Running(cached=True))
        expected = GCN.run(model, path)
        assert torch.equal(GCN.run(clone(model), path), expected)
        twin = clone(model)
        GCN.run(twin, directed)  # another graph: the copy has none cached
        twin.reset_parameters()
        assert torch.equal(GCN.run(model, path), expected)

    @backbones()
    def test_reset_draws_anew_and_restores_the_gain(self, case, batch):
        model = case.model(gain=0.25, norm="layer_norm", readout=Readout(num_layers=3))
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        for parameter in model.parameters():
            parameter.data.fill_(9)
        model.reset_parameters()
        for name, parameter in model.named_parameters():
            assert (parameter != 9).all(), name
            if parameter.dim() > 1 and "bias" not in name:
                assert not torch.allclose(parameter, before[name]), name
        assert [block.gain.item() for block in model.blocks] == [0.25, 0.25]
        assert torch.isfinite(case.run(model, batch)).all()

    def test_no_two_blocks_share_a_parameter(self):
        model = BackboneCase("", lambda: GCNConv(CHANNELS, CHANNELS)).model(num_blocks=3)
        pointers = [p.data_ptr() for p in model.parameters()]
        assert len(set(pointers)) == len(pointers)
        weights = [block.backbone.lin.weight for block in model.blocks]
        assert not torch.equal(weights[0], weights[1])

    def test_a_callable_makes_a_backbone_for_every_block(self, path):
        widths = []

        def build(channels):
            widths.append(channels)
            return SendTanh(channels)

        model = GRAMA(5, CHANNELS, 2, num_blocks=3, backbone=build).double()
        assert widths == [CHANNELS] * 3
        assert len({id(block.backbone) for block in model.blocks}) == 3
        assert model(path.x, path.edge_index).size() == (4, 2)

    @pytest.mark.no_cover
    @pytest.mark.parametrize(
        ("case", "options"),
        [*((case, {}) for case in CASES), *itertools.product(WORDS, OPTIONS)],
        ids=lambda value: value.name if isinstance(value, BackboneCase) else str(value),
    )
    def test_output_and_all_gradients_are_there_and_finite(self, case, options, batch):
        model = case.model(**options)
        out = case.run(model, batch)
        assert out.size() == (12, 2)
        assert torch.isfinite(out).all()
        for (name, _), g in zip(model.named_parameters(), loss_gradients(model, out), strict=True):
            assert g is not None, name
            assert torch.isfinite(g).all(), name

    def test_moved_to_float32_it_is_near_float64(self, batch):
        model = GCN.model(seq_len=8, num_blocks=2, running=Running(cached=True))
        expected = GCN.run(model, batch)
        out = model.float()(batch.x.float(), batch.edge_index, batch=batch.batch)
        assert out.dtype == torch.float32
        assert (out - expected).abs().max() < 1e-5 * expected.abs().max()

    def test_frozen_parts_get_no_gradient_and_leave_the_others_theirs(self, path):
        model, free = GCN.model(), GCN.model()
        model.embedding.requires_grad_(False)
        model.blocks[0].requires_grad_(False)
        GCN.run(model, path).square().sum().backward()
        GCN.run(free, path).square().sum().backward()
        for (name, a), (_, b) in zip(
            model.named_parameters(), free.named_parameters(), strict=True
        ):
            if name.startswith(("embedding", "blocks.0")):
                assert a.grad is None
            else:
                assert torch.allclose(a.grad, b.grad), name


class TestLazy:
    def test_takes_its_width_from_the_first_forward_pass_and_keeps_it(self, path):
        model = GCN.model(in_channels=-1)
        assert model.in_channels == -1
        assert GCN.run(model, path).size() == (4, 2)
        assert model.in_channels == 5
        assert str(model).startswith("GRAMA(5, ")
        with pytest.raises(ValueError, match=r"width in_channels=5 \(got 4\)"):
            model(path.x[:, :4], path.edge_index)

    def test_state_dict_fills_a_fresh_one(self, path):
        model, lazy = GCN.model(), GCN.model(in_channels=-1)
        lazy.load_state_dict(model.state_dict())
        assert lazy.in_channels == 5
        assert torch.equal(GCN.run(lazy, path), GCN.run(model, path))

    def test_trains_what_the_first_pass_made(self, path):
        lazy, twin = GCN.model(in_channels=-1), GCN.model()
        out = GCN.run(lazy, path)
        twin.load_state_dict(lazy.state_dict())
        expected = loss_gradients(twin, GCN.run(twin, path))
        assert_same_gradients(loss_gradients(lazy, out), expected)

    def test_is_saved_copied_and_reset_before_the_first_pass(self, path):
        model = copy.deepcopy(GCN.model(in_channels=-1))
        model.reset_parameters()
        assert isinstance(model.state_dict()["embedding.weight"], UninitializedParameter)
        assert GCN.run(model, path).size() == (4, 2)


@pytest.mark.parametrize(("kind", "most"), [(GRAMA, 16), (GRAMABlock, 12)])
def test_a_constructor_has_few_arguments(kind, most):
    assert len(inspect.signature(kind).parameters) <= most


def test_a_forward_pass_is_short_to_follow(path):
    """It goes through few files of the library, and not deep."""
    root = str(Path(inspect.getfile(GRAMA)).parents[1])
    model, x, stacks = GRAMA(5, CHANNELS, 2), path.x.float(), []
    model(x, path.edge_index)  # what is made once is no part of it

    def look(frame, event, _):
        stack = []
        while frame is not None and event == "call":
            stack.append(frame.f_code.co_filename)
            frame = frame.f_back
        if stack and stack[0].startswith(root):
            stacks.append([name for name in stack if name.startswith(root)])

    sys.setprofile(look)
    try:
        model(x, path.edge_index)
    finally:
        sys.setprofile(None)
    files, deepest = {stack[0] for stack in stacks}, max(stacks, key=len)
    assert 5 <= len(files) <= 14, sorted(files)
    assert 3 <= len(deepest) <= 9, deepest[::-1]
