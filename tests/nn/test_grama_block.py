import pytest
import torch
import written_out
from backbone_cases import CHANNELS, SendTanh
from torch_geometric.nn import GCNConv, GINConv

from torch_grama.nn import GRAMABlock, SequenceEmbedding
from torch_grama.nn.coefficients import NORMALIZATIONS

LENGTH = 3


def block(**options):
    torch.manual_seed(5)
    return GRAMABlock(**{"channels": CHANNELS, "seq_len": LENGTH, **options}).double()


@pytest.fixture
def sequence(batch):
    return torch.randn(2, LENGTH, 12, CHANNELS, dtype=torch.float64)


def run(module, sequence, batch, **options):
    return module(sequence[0], sequence[1], batch.edge_index, batch=batch.batch, **options)


def test_an_example_by_hand():
    # two nodes joined both ways: the graph convolution takes the mean of both
    edge_index = torch.tensor([[0, 1], [1, 0]])
    module = GRAMABlock(1, GCNConv(1, 1), seq_len=2, coefficients="naive", gain=None, act=None)
    module.backbone.lin.weight.data.fill_(1)
    module.ar_coefficients.weight.data = torch.tensor([3.0, 1.0])
    module.ma_coefficients.weight.data = torch.tensor([1.0, 1.0])
    f0, f1 = torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [2.0]])

    states, residuals = module(torch.stack([f0, f1]), torch.stack([f1 - f0, 0 * f0]), edge_index)

    # phi = (3/4, 1/4), theta = (1/2, 1/2), d0 = (1, -1), d1 = 0
    # d2 = mean of f1 = 2; f2 = 3/4 f1 + 1/4 f0 + 1/2 d1 + 1/2 d0 + d2
    # d3 = mean of f2 = 4; f3 = 3/4 f2 + 1/4 f1 + 1/2 d2 + 1/2 d1 + d3
    assert residuals.flatten().tolist() == pytest.approx([2, 2, 4, 4])
    assert states.flatten().tolist() == pytest.approx([4.25, 3.75, 8.6875, 8.3125])


@pytest.mark.parametrize("engine", ["auto", "reference", "scan"])
@pytest.mark.parametrize("backbone", [GCNConv(CHANNELS, CHANNELS), SendTanh(CHANNELS)])
@pytest.mark.parametrize("coefficients", ["selective", "naive"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize(("p", "q", "num_recurrences"), [(None, None, None), (2, 1, 5), (1, 3, 2)])
def test_equals_the_equation(
    sequence, batch, engine, backbone, coefficients, normalization, p, q, num_recurrences
):
    module = block(
        backbone=backbone,
        coefficients=coefficients,
        normalization=normalization,
        ar_order=p,
        ma_order=q,
        num_recurrences=num_recurrences,
        engine=engine,
    )

    states, residuals, used = run(module, sequence, batch, return_coefficients=True)

    phi = module.ar_coefficients(sequence[0], batch.batch, 3)
    theta = module.ma_coefficients(sequence[1], batch.batch, 3)
    expected = written_out.recur(
        *sequence,
        phi,
        theta,
        lambda x: module.gain * module.backbone(x, batch.edge_index),
        num_recurrences or LENGTH,
        batch.batch,
    )
    assert used.phi.size() == (3, p or LENGTH)
    assert used.theta.size() == (3, q or LENGTH)
    assert torch.allclose(used.phi, phi)
    assert torch.allclose(used.theta, theta)
    assert torch.allclose(states, expected[0].clamp(min=0))
    assert torch.allclose(residuals, expected[1].clamp(min=0))


@pytest.mark.parametrize("backbone", [GCNConv(CHANNELS, CHANNELS), SendTanh(CHANNELS)])
@pytest.mark.parametrize("coefficients", ["selective", "naive"])
@pytest.mark.parametrize(("p", "q", "num_recurrences"), [(3, 3, 3), (2, 1, 5), (1, 3, 2)])
def test_update_at_every_step_by_hand(
    sequence, batch, backbone, coefficients, p, q, num_recurrences
):
    module = block(
        backbone=backbone,
        coefficients=coefficients,
        coefficient_update="step",
        ar_order=p,
        ma_order=q,
        num_recurrences=num_recurrences,
        act=None,
    )

    states, residuals, used = run(module, sequence, batch, return_coefficients=True)

    f, d, phis, thetas = *sequence, [], []
    for _ in range(num_recurrences):
        phi = module.ar_coefficients(f[-LENGTH:], batch.batch, 3)
        theta = module.ma_coefficients(d[-LENGTH:], batch.batch, 3)
        new_f, new_d = written_out.recur(
            f[-LENGTH:],
            d[-LENGTH:],
            phi,
            theta,
            lambda x: module.gain * module.backbone(x, batch.edge_index),
            1,
            batch.batch,
        )
        f, d = torch.cat([f, new_f]), torch.cat([d, new_d])
        phis.append(phi), thetas.append(theta)
    assert torch.allclose(states, f[-num_recurrences:])
    assert torch.allclose(residuals, d[-num_recurrences:])
    assert used.phi.size() == (num_recurrences, 3, p)
    assert used.theta.size() == (num_recurrences, 3, q)
    assert torch.allclose(used.phi, torch.stack(phis))
    assert torch.allclose(used.theta, torch.stack(thetas))


def test_naive_coefficients_are_the_same_block_by_block_and_step_by_step(sequence, batch):
    a, b = (
        run(block(coefficients="naive", coefficient_update=update), sequence, batch)
        for update in ("block", "step")
    )

    assert torch.allclose(a[0], b[0])


def test_selective_coefficients_are_not(sequence, batch):
    a, b = (run(block(coefficient_update=update), sequence, batch) for update in ("block", "step"))

    assert not torch.allclose(a[0], b[0])


def test_norms_come_before_the_activation(sequence, batch):
    plain = run(block(act=None), sequence, batch)
    module = block(norm="layer_norm", act="tanh")
    for norm in (module.state_norm, module.residual_norm):
        torch.nn.init.normal_(norm.weight)

    states, residuals = run(module, sequence, batch)

    assert torch.allclose(states, module.state_norm(plain[0]).tanh())
    assert torch.allclose(residuals, module.residual_norm(plain[1]).tanh())


def test_batch_norm_sees_all_elements_and_nodes(sequence, batch):
    states, _ = run(block(norm="batch_norm", act=None), sequence, batch)

    assert torch.allclose(states.mean((0, 1)), torch.zeros(CHANNELS).double(), atol=1e-10)


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
    def test_auto_is_one_over_the_recurrences(self):
        assert block(num_recurrences=5).gain.item() == pytest.approx(0.2)

    def test_a_number(self):
        assert block(gain=0.7).gain.item() == pytest.approx(0.7)

    def test_none_is_the_form_of_the_paper(self, sequence, batch):
        paper, one = block(gain=None), block(gain=1.0)

        assert paper.gain is None
        assert "gain" not in dict(paper.named_parameters())
        for a, b in zip(run(paper, sequence, batch), run(one, sequence, batch), strict=True):
            assert torch.allclose(a, b)

    def test_is_learned(self, sequence, batch):
        module = block()

        run(module, sequence, batch)[0].sum().backward()

        assert module.gain.grad.abs() > 0

    @pytest.mark.parametrize("gain", ["half", float("nan"), float("inf")])
    def test_others_are_refused(self, gain):
        with pytest.raises(ValueError, match=r"'gain' to be 'auto', a finite number or None"):
            block(gain=gain)


def test_bind_is_the_backbone_times_the_gain(path):
    module = block(channels=5)

    bound = module.bind(path.num_nodes, path.edge_index, path.edge_weight)

    expected = module.gain * module.backbone(path.x, path.edge_index, path.edge_weight)
    assert torch.allclose(bound(path.x), expected)


def test_every_call_of_a_bound_backbone_is_a_first_recurrence(path):
    module = block(channels=5, backbone="gatedgcn").eval()
    bound = module.bind(path.num_nodes, path.edge_index)

    assert torch.equal(bound(path.x), bound(path.x))


def test_bind_refuses_what_the_backbone_cannot_use(path):
    with pytest.raises(ValueError, match="no 'edge_weight'"):
        block(channels=5, backbone="gatedgcn").bind(4, path.edge_index, path.edge_weight)


def test_initial_poles_concern_the_states_alone():
    plain, placed = block(coefficients="naive"), block(coefficients="naive", initial_poles=0.9)

    assert not torch.equal(plain.ar_coefficients.weight, placed.ar_coefficients.weight)
    assert torch.equal(plain.ma_coefficients.weight, placed.ma_coefficients.weight)


def test_follows_the_embedding(path):
    embedding = SequenceEmbedding(5, CHANNELS, LENGTH).double()

    states, residuals = block()(*embedding(path.x), path.edge_index)

    assert states.size() == residuals.size() == (LENGTH, 4, CHANNELS)


def test_reset_draws_anew_and_restores_the_gain():
    module = block(norm="layer_norm", gain=0.3)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    for parameter in module.parameters():
        parameter.data.fill_(9)

    module.reset_parameters()

    restored = {"gain", "lag_bias", "bias", "weight"}
    for name, parameter in module.named_parameters():
        if name.rpartition(".")[2] in restored and "lin" not in name:
            assert torch.allclose(parameter, before[name]), name
        else:
            assert not torch.equal(parameter, before[name]), name
            assert (parameter != 9).all(), name


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "GRAMABlock(8, seq_len=3, num_recurrences=3, backbone=GCNConv)"),
        (
            {"backbone": GINConv(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()))},
            "GRAMABlock(8, seq_len=3, num_recurrences=3, backbone=GINConv)",
        ),
    ],
)
def test_repr_is_one_line(options, expected):
    assert str(block(**options)) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seq_len": 0}, r"'seq_len' to be at least 1 \(got 0\)"),
        ({"num_recurrences": 0}, r"'num_recurrences' to be at least 1 \(got 0\)"),
        (
            {"ar_order": 4},
            r"'ar_order' to be between 1 and 'seq_len' \(got ar_order=4, seq_len=3\)",
        ),
        (
            {"ma_order": 0},
            r"'ma_order' to be between 1 and 'seq_len' \(got ma_order=0, seq_len=3\)",
        ),
        ({"coefficients": "selectiv"}, r"'coefficients' to be one of 'selective', 'naive'"),
        ({"coefficient_update": "steps"}, r"'coefficient_update' to be one of 'step', 'block'"),
        ({"normalization": "l2"}, r"'normalization' to be one of 'l1'"),
        ({"engine": "sacn"}, r"'engine' to be one of 'scan'"),
        ({"heads": 3}, r"'heads' to divide.*heads=3, channels=8"),
        ({"norm": "layernorm"}, r"'norm' to be one of 'layer_norm', 'batch_norm'"),
        ({"act": "ReLu6"}, r"'act' to be one of 'relu'"),
        ({"initial_poles": 2.0}, r"'initial_poles' to be between"),
    ],
)
def test_bad_arguments_get_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        block(**change)


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


def test_what_the_backbone_cannot_use_is_refused(sequence, batch):
    with pytest.raises(ValueError, match="no 'edge_weight'"):
        run(block(backbone="gatedgcn"), sequence, batch, edge_weight=batch.edge_weight)


def test_the_linear_engine_needs_a_linear_backbone(sequence, batch):
    with pytest.raises(ValueError, match=r"linear backbone for engine='linear'"):
        run(block(backbone=SendTanh(CHANNELS), engine="linear"), sequence, batch)
