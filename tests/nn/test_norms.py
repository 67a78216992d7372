import pytest
import torch
from torch.nn import BatchNorm1d, GroupNorm, LayerNorm
from torch_geometric.nn import GraphNorm, InstanceNorm, PairNorm
from torch_geometric.nn import LayerNorm as GraphLayerNorm

from torch_grama.nn import GRAMA, Coefficients
from torch_grama.nn.norms import SequenceNorm, StepwiseBatchNorm, build_norm, normalize

CHANNELS = 3
BATCH = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])


def pair_norm(channels):
    return PairNorm()


class TestBuild:
    @pytest.mark.parametrize(
        ("word", "kind"), [("batch_norm", BatchNorm1d), ("layer_norm", LayerNorm)]
    )
    def test_words(self, word, kind):
        norm = build_norm(word, 4)
        assert type(norm) is kind
        assert norm(torch.randn(3, 4)).size() == (3, 4)

    def test_none(self):
        assert build_norm(None, 4) is None

    def test_a_callable_gets_the_channels(self):
        assert build_norm(lambda channels: LayerNorm(channels, eps=0.5), 4).eps == 0.5


class TestNormalize:
    @pytest.mark.parametrize("affine", [True, False])
    @pytest.mark.parametrize("num_nodes", [0, 1])
    def test_batch_norm_of_too_few_rows_uses_its_running_statistics(self, num_nodes, affine):
        norm = BatchNorm1d(4, affine=affine)
        norm(torch.randn(8, 4) + 3)
        before = norm.running_mean.clone()
        x = torch.randn(num_nodes, 4)
        out = normalize(norm, x)
        assert torch.equal(norm.running_mean, before)
        assert torch.equal(out, normalize(norm.eval(), x))

    def test_batch_norm_without_running_statistics_says_what_torch_says(self):
        norm = BatchNorm1d(4, track_running_stats=False)
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            normalize(norm, torch.randn(1, 4))

    def test_a_norm_of_another_kind_is_called_on_rows(self):
        norm, x = GroupNorm(2, 4), torch.randn(3, 4)
        assert torch.equal(normalize(norm, x), norm(x))


class TestSequence:
    @pytest.mark.parametrize("norm", ["batch_norm", BatchNorm1d])
    def test_every_position_has_its_own_statistics(self, norm):
        module = SequenceNorm(norm, CHANNELS, 2)
        states = torch.stack([torch.randn(9, CHANNELS), 5 * torch.randn(9, CHANNELS) + 2])
        for _ in range(100):
            trained = module(states)
        assert torch.allclose(trained.mean(1), torch.zeros(2, CHANNELS), atol=1e-5)
        assert torch.allclose(trained.var(1, correction=0), torch.ones(2, CHANNELS), atol=1e-3)
        # the running variance is the unbiased one
        assert torch.allclose(module.eval()(states), trained * (8 / 9) ** 0.5, atol=1e-3)

    def test_layer_norm_sees_each_row_alone(self):
        module = SequenceNorm("layer_norm", CHANNELS, 2)
        states = torch.randn(2, 5, CHANNELS)
        assert len(module.norms) == 1
        assert torch.allclose(module(states)[1, 2], module.norms[0](states[1, 2]), atol=1e-6)

    @pytest.mark.parametrize("norm", [GraphNorm, GraphLayerNorm, InstanceNorm, pair_norm])
    def test_graphs_and_positions_do_not_mix(self, norm):
        module = SequenceNorm(norm, CHANNELS, 2)
        states = torch.randn(2, 9, CHANNELS)
        together = module(states, BATCH, 3)
        for graph in range(3):
            part = states[:, graph == BATCH]
            assert torch.allclose(together[:, graph == BATCH], module(part), atol=1e-6)

    def test_reset(self):
        module = SequenceNorm("batch_norm", CHANNELS, 2)
        fresh = {name: value.clone() for name, value in module.state_dict().items()}
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter)
        module(torch.randn(2, 5, CHANNELS))
        module.reset_parameters()
        assert all(torch.equal(value, fresh[name]) for name, value in module.state_dict().items())


def pair(num_steps=1):
    ours, theirs = StepwiseBatchNorm(CHANNELS, num_steps), BatchNorm1d(CHANNELS)
    for parameter in ("weight", "bias"):
        value = torch.randn(CHANNELS)
        getattr(ours, parameter).data = value.clone()
        getattr(theirs, parameter).data = value.clone()
    return ours, theirs


class TestStepwise:
    def test_one_step_equals_batch_norm(self):
        ours, theirs = pair()
        x = 3 * torch.randn(6, CHANNELS) + 1
        for _ in range(3):
            assert torch.allclose(ours(x), theirs(x))
        for module in (ours, theirs):
            module(x).pow(3).sum().backward()
            module.eval()
        assert torch.allclose(ours(x), theirs(x))
        assert torch.allclose(ours.weight.grad, theirs.weight.grad)
        assert torch.allclose(ours.bias.grad, theirs.bias.grad)

    def test_evaluation_reads_the_statistics_of_the_step_or_of_the_last(self):
        ours = StepwiseBatchNorm(CHANNELS, 2).eval()
        ours.running_mean[1] += 2
        x = torch.randn(6, CHANNELS)
        assert torch.allclose(ours(x, 1), ours(x - 2, 0))
        assert torch.equal(ours(x, 7), ours(x, 1))

    @pytest.mark.parametrize("num_rows", [0, 1])
    def test_too_few_rows_for_a_variance_use_the_running_statistics(self, num_rows):
        ours, _ = pair()
        x = torch.randn(num_rows, CHANNELS)
        before = ours.running_mean.clone()
        out = ours(x)
        assert torch.equal(ours.running_mean, before)
        assert torch.equal(out, ours.eval()(x))


def test_coefficients_of_each_step_leave_the_same_statistics(batch):
    """Free coefficients are the same at every step, and so must be all that a norm saw."""
    models = []
    for update in ("block", "step"):
        torch.manual_seed(0)
        coefficients = Coefficients("naive", update=update)
        model = GRAMA(5, 8, 2, coefficients=coefficients, norm="batch_norm").double()
        model(batch.x, batch.edge_index, batch=batch.batch)
        models.append(model)
    for (name, ours), theirs in zip(models[1].named_buffers(), models[0].buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, msg=name)
