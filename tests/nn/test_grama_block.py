import pytest
import torch
import written_out
from backbone_cases import CHANNELS, SendTanh, draw_keys
from torch_geometric.nn import GCNConv

from torch_grama.nn import GRAMA, Coefficients, GatedGCNConv, GRAMABlock, RootedGCNConv
from torch_grama.nn.coefficients import CONSTRAINTS
from torch_grama.nn.engine.sequence import NodeSequence
from torch_grama.nn.functional import graph_mean
from torch_grama.nn.graph_input import read_graph_input

LENGTH = 3


def block(**options):
    torch.manual_seed(5)
    module = GRAMABlock(**{"channels": CHANNELS, "seq_len": LENGTH, **options}).double()
    draw_keys(module)
    return module


@pytest.fixture
def sequence(batch):
    return torch.randn(2, LENGTH, 12, CHANNELS, dtype=torch.float64)


def run(module, sequence, batch, **options):
    return module(sequence[0], sequence[1], batch.edge_index, batch=batch.batch, **options)


def coefficients_of(module, sequence, batch):
    """The coefficients of the three graphs, made by the module from the means of a sequence."""
    phi, theta = module.coefficients(*(graph_mean(part, batch.batch, 3) for part in sequence))
    return module.retention * phi.expand(3, -1), theta.expand(3, -1)


def test_an_example_by_hand():
    # two nodes joined both ways: the graph convolution takes the mean of both
    edge_index = torch.tensor([[0, 1], [1, 0]])
    module = GRAMABlock(1, GCNConv(1, 1), seq_len=2, coefficients="naive", gain=None, act=None)
    module.backbone.lin.weight.data.fill_(1)
    module.coefficients.weight.data = torch.tensor([3.0, 1.0, 1.0, 3.0])
    f0, f1 = torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [2.0]])
    states, residuals = module(torch.stack([f0, f1]), torch.stack([f1 - f0, 0 * f0]), edge_index)
    # phi = (3/4, 1/4), theta = (1/4, 3/4), d0 = (1, -1), d1 = 0
    # d2 = mean of f1 = 2; f2 = 3/4 f1 + 1/4 f0 + 1/4 d1 + 3/4 d0 + d2
    # d3 = mean of f2 = 4; f3 = 3/4 f2 + 1/4 f1 + 1/4 d2 + 3/4 d1 + d3
    assert residuals.flatten().tolist() == pytest.approx([2, 2, 4, 4])
    assert states.flatten().tolist() == pytest.approx([4.5, 3.5, 8.375, 7.625])


@pytest.mark.parametrize("engine", ["auto", "reference", "scan"])
@pytest.mark.parametrize("backbone", [GCNConv(CHANNELS, CHANNELS), SendTanh(CHANNELS)])
@pytest.mark.parametrize("kind", ["selective", "naive"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("update", ["block", "step"])
@pytest.mark.parametrize(("p", "q", "num_recurrences"), [(None, None, None), (2, 1, 5), (1, 3, 2)])
def test_equals_the_equation(
    sequence, batch, engine, backbone, kind, constraint, update, p, q, num_recurrences
):
    coefficients = Coefficients(kind, p, q, constraint=constraint, update=update)
    options = {"num_recurrences": num_recurrences, "engine": engine}
    module = block(backbone=backbone, coefficients=coefficients, **options)
    states, residuals, used = run(module, sequence, batch, return_coefficients=True)

    def convolve(x):
        return module.gain * module.backbone(x, batch.edge_index)

    f, d, phis, thetas = *sequence, [], []
    for step in range(num_recurrences or LENGTH):
        last = f[-LENGTH:], d[-LENGTH:]
        if step == 0 or update == "step":
            phi, theta = coefficients_of(module, last, batch)
            phis.append(phi), thetas.append(theta)
        new = written_out.recur(*last, phi, theta, convolve, 1, batch.batch)
        f, d = (torch.cat(pair) for pair in zip((f, d), new, strict=True))
    assert phi.size() == (3, p or LENGTH)
    assert theta.size() == (3, q or LENGTH)
    for got, made in ((used.phi, phis), (used.theta, thetas)):
        torch.testing.assert_close(got, torch.stack(made) if update == "step" else made[0])
    assert torch.allclose(states, f[LENGTH:].clamp(min=0))
    assert torch.allclose(residuals, d[LENGTH:].clamp(min=0))


@pytest.mark.parametrize("norm", ["layer_norm", "batch_norm"])
def test_the_norm_of_states_comes_before_the_activation(sequence, batch, norm):
    plain = run(block(act=None), sequence, batch)
    module = block(norm=norm, act="tanh")
    for parameter in module.norm.parameters():
        torch.nn.init.normal_(parameter)
    states, residuals = run(module, sequence, batch)
    assert torch.allclose(states, module.norm(plain[0]).tanh())
    assert torch.allclose(residuals, plain[1].tanh())


def test_dropout_comes_after_the_activation_and_only_while_training(sequence, batch):
    module = block(dropout=0.5)
    plain = run(block(), sequence, batch)
    dropped = run(module, sequence, batch)
    kept = run(module.eval(), sequence, batch)
    for got, calm, expected in zip(dropped, kept, plain, strict=True):
        assert torch.allclose(calm, expected)
        assert torch.allclose(got[got != 0], 2 * expected[got != 0])
        assert ((got == 0) & (expected != 0)).any()


class TestGain:
    @pytest.mark.parametrize(("num_recurrences", "gain"), [(1, 0.5), (2, 0.5), (5, 0.2)])
    def test_auto_follows_the_recurrences(self, num_recurrences, gain):
        module = block(num_recurrences=num_recurrences)
        assert module.gain.item() == pytest.approx(gain)
        assert module.retention.item() == pytest.approx(1 - gain)

    def test_a_number(self):
        assert block(gain=0.7).gain.item() == pytest.approx(0.7)
        assert block(gain=0.7).retention.item() == 1

    def test_none_is_the_form_of_the_paper(self, sequence, batch):
        paper, one = block(gain=None), block(gain=1.0)
        assert paper.gain is None
        assert {"gain", "retention"}.isdisjoint(dict(paper.named_parameters()))
        for a, b in zip(run(paper, sequence, batch), run(one, sequence, batch), strict=True):
            assert torch.allclose(a, b)

    def test_is_learned(self, sequence, batch):
        module = block()
        names = ["gain", "retention"]
        given = [module.get_parameter(name).detach().requires_grad_() for name in names]

        def last(*values):
            parameters = dict(zip(names, values, strict=True))
            arguments = (sequence[0], sequence[1], batch.edge_index, None, None, batch.batch)
            return torch.func.functional_call(module, parameters, arguments)[0][-1]

        assert torch.autograd.gradcheck(last, given)


WAVE = {
    "gain": "wave",
    "backbone": lambda channels: RootedGCNConv(channels, loops=False),
    "coefficients": Coefficients(constraint="none"),
}


class TestWave:
    @pytest.mark.parametrize("kind", ["selective", "naive"])
    def test_a_fresh_block_is_a_wave_equation(self, kind, sequence, batch):
        torch.manual_seed(5)
        options = {**WAVE, "coefficients": Coefficients(kind, constraint="none")}
        module = GRAMABlock(CHANNELS, seq_len=LENGTH, act=None, **options).double()
        speeds = torch.linspace(0, 2, CHANNELS, dtype=torch.float64)
        adjacency = torch.zeros(12, 12, dtype=torch.float64)
        adjacency[batch.edge_index[1], batch.edge_index[0]] = 1
        scale = adjacency.sum(1).clamp(min=1).rsqrt()
        laplacian = torch.eye(12, dtype=torch.float64) - scale[:, None] * adjacency * scale
        before, now = sequence[0, -2:]
        states, _ = run(module, sequence, batch)
        for state in states:
            before, now = now, 2 * now - before - laplacian @ now * speeds
            torch.testing.assert_close(state, now, rtol=1e-5, atol=1e-5)

    def test_sees_ten_hops_away_and_keeps_its_scale(self):
        nodes = torch.arange(60)
        ring = torch.stack([nodes, (nodes + 1) % 60])
        ring = torch.cat([ring, ring.flip(0)], dim=1)
        x = torch.zeros(2, 60, 16, dtype=torch.float64)
        x[:, 0] = 1
        shares = {}
        for gain in ("wave", 1.0):
            torch.manual_seed(0)
            options = {**WAVE, "gain": gain}
            module = GRAMABlock(16, seq_len=2, num_recurrences=10, act=None, **options).double()
            reached = module(x, torch.zeros_like(x), ring)[0][-1].square().sum(1)
            shares[gain] = (reached[10] / reached.sum()).item()
        assert shares["wave"] > 1e-3 > 1e3 * shares[1.0]
        module = GRAMABlock(16, seq_len=2, num_recurrences=200, act=None, **WAVE).double()
        # the fastest channel grows with the steps, in one of sixty modes; no other does
        assert module(x, torch.zeros_like(x), ring)[0].abs().max() < 2 * 200 / 60 + 1

    def test_long_waves_are_as_exact_in_single_precision(self, path):
        def run_in(dtype):
            torch.manual_seed(0)
            model = GRAMA(5, 8, 1, seq_len=2, num_blocks=1, num_recurrences=40, **WAVE).to(dtype)
            return model(path.x.to(dtype), path.edge_index)

        torch.testing.assert_close(
            run_in(torch.float32).double(), run_in(torch.float64), rtol=1e-3, atol=1e-3
        )

    def test_a_reset_starts_it_anew(self):
        module = block(**WAVE)
        fresh = GRAMABlock(CHANNELS, seq_len=LENGTH, **WAVE).double().state_dict()
        module.reset_parameters()
        for name in ("backbone.lin.weight", "backbone.root.weight", "retention"):
            assert torch.equal(module.state_dict()[name], fresh[name])

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"backbone": "gcn"}, r"such as RootedGCNConv \(got GCNConv\)"),
            ({"coefficients": "naive"}, "Expected the constraint 'none'"),
            ({"seq_len": 1}, "'ar_order' of at least 2"),
        ],
    )
    def test_what_it_takes_is_said(self, changed, message):
        with pytest.raises(ValueError, match=message):
            GRAMABlock(**{"channels": CHANNELS, "seq_len": 2, **WAVE, **changed})


def test_bind_is_the_backbone_times_the_gain(path):
    module = block(channels=5)
    bound = module.bind(path.num_nodes, path.edge_index, path.edge_weight)
    expected = module.gain * module.backbone(path.x, path.edge_index, path.edge_weight)
    assert torch.allclose(bound(path.x), expected)


def test_every_call_of_a_bound_backbone_is_a_first_recurrence(path):
    module = block(channels=5, backbone="gatedgcn").eval()
    bound = module.bind(path.num_nodes, path.edge_index)
    assert torch.equal(bound(path.x), bound(path.x))


class TestOwnWeights:
    """share_weights=False: a backbone for each recurrence."""

    @pytest.mark.parametrize("backbone", ["gcn", SendTanh(CHANNELS)])
    @pytest.mark.parametrize("engine", ["auto", "scan", "reference"])
    def test_equal_the_equation(self, sequence, batch, backbone, engine):
        module = block(
            backbone=backbone, share_weights=False, engine=engine, num_recurrences=4, act=None
        )
        got = run(module, sequence, batch)
        own, given = iter(module.backbone), coefficients_of(module, sequence, batch)
        expected = written_out.recur(
            *sequence,
            *given,
            lambda x: module.gain * next(own)(x, batch.edge_index),
            4,
            batch.batch,
        )
        for a, b in zip(got, expected, strict=True):
            assert torch.allclose(a, b)

    @pytest.mark.parametrize("backbone", ["gcn", "gatedgcn", GCNConv(CHANNELS, CHANNELS)])
    def test_are_as_many_as_recurrences_and_all_different(self, backbone):
        module = block(backbone=backbone, share_weights=False, num_recurrences=4)
        weights = [next(p for p in part.parameters() if p.dim() > 1) for part in module.backbone]
        assert len(weights) == 4
        assert not any(torch.equal(weights[0], weight) for weight in weights[1:])


class TestLastOnly:
    """What the last block of a model leaves out."""

    @pytest.mark.parametrize("norm", [None, "layer_norm", "batch_norm"])
    @pytest.mark.parametrize("backbone", ["gcn", SendTanh(CHANNELS)])
    @pytest.mark.parametrize("num_recurrences", [3, 9])
    def test_the_last_state_is_that_of_all(self, sequence, batch, norm, backbone, num_recurrences):
        module = block(backbone=backbone, norm=norm, num_recurrences=num_recurrences)
        graph = read_graph_input(12, batch.edge_index, batch=batch.batch)
        expected, _ = run(module, sequence, batch)
        module.read_last_only()
        module.double()
        out, _, _ = module.run(NodeSequence(*sequence), graph)
        assert out.residuals is None
        assert torch.allclose(out.materialize()[0], expected[-1:])

    @pytest.mark.parametrize("num_recurrences", [1, 3])
    @pytest.mark.parametrize("share_weights", [True, False])
    def test_edges_that_nobody_reads_are_not_updated(self, num_recurrences, share_weights):
        options = {"num_recurrences": num_recurrences, "share_weights": share_weights}
        module = block(backbone="gatedgcn", **options)
        last = module.backbone if share_weights else module.backbone[-1]
        is_alone = num_recurrences == 1 or not share_weights
        assert (last.edge_state == "none") is is_alone

    def test_edges_that_leave_the_block_are_updated_by_the_last_recurrence(self):
        backbone = GatedGCNConv(CHANNELS, edge_state="model")
        module = block(backbone=backbone, num_recurrences=1)
        assert module.backbone.edge_state == "model"
        module.read_last_only()
        assert module.backbone.edge_state == "none"


@pytest.mark.parametrize("share_weights", [True, False])
def test_reset_draws_anew_and_restores_the_gain(share_weights):
    module = block(norm="layer_norm", gain=0.3, share_weights=share_weights)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    for parameter in module.parameters():
        parameter.data.fill_(9)
    module.reset_parameters()
    restored = {"gain", "retention", "lag_bias", "bias", "weight"}  # the last two of the norm
    for name, parameter in module.named_parameters():
        if name.rpartition(".")[2] in restored and "lin" not in name:
            assert torch.allclose(parameter, before[name]), name
        else:
            assert not torch.equal(parameter, before[name]), name
            assert (parameter != 9).all(), name


@pytest.mark.parametrize(
    ("states", "residuals", "message"),
    [
        ((2, 12, 8), (2, 12, 8), r"'states' of shape \[3, num_nodes, 8\] \(got \[2, 12, 8\]\)"),
        ((3, 12, 7), (3, 12, 7), r"'states' of shape \[3, num_nodes, 8\] \(got \[3, 12, 7\]\)"),
        ((3, 12), (3, 12), r"'states' of shape \[3, num_nodes, 8\] \(got \[3, 12\]\)"),
        ((3, 12, 8), (3, 11, 8), r"'residuals' of the same shape.*\[3, 11, 8\] and \[3, 12, 8\]"),
    ],
)
def test_sequences_that_do_not_fit(batch, states, residuals, message):
    with pytest.raises(ValueError, match=message):
        block()(torch.zeros(states), torch.zeros(residuals), batch.edge_index)
