import pytest
import torch
import torch.nn.functional as F
from torch.nn import ELU, PReLU

from torch_grama.nn.engine.sequence import (
    PURE_ACTIVATIONS,
    Groups,
    NodeSequence,
    count_graphs,
    handwritten_gradients_work,
)
from torch_grama.nn.functional import forward_differences, graph_mean

BATCH = torch.tensor([0, 0, 0, 2, 2, 4])


@pytest.fixture
def sequence(seed):
    return torch.randn(3, 6, 2, dtype=torch.float64)


class TestMean:
    @pytest.mark.parametrize(("batch", "size"), [(None, 1), (BATCH, 6)])
    def test_of_each_graph_and_its_gradient(self, sequence, batch, size):
        mean = graph_mean(sequence, batch, size)
        assert mean.size() == (size, 3, 2)
        for graph in range(size):
            own = sequence if batch is None else sequence[:, batch == graph]
            # zero where there are no nodes
            assert torch.allclose(mean[graph], own.sum(1) / max(own.size(1), 1))
        sequence.requires_grad_()
        assert torch.autograd.gradcheck(lambda x: graph_mean(x, batch, size), sequence)

    def test_no_nodes_at_all_give_zero(self):
        assert torch.equal(graph_mean(torch.empty(2, 0, 3)), torch.zeros(1, 2, 3))

    def test_non_contiguous_input(self, sequence):
        turned = sequence.transpose(1, 2).contiguous().transpose(1, 2)
        assert not turned.is_contiguous()
        assert torch.equal(graph_mean(turned, BATCH, 6), graph_mean(sequence, BATCH, 6))

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("batch", [None, torch.zeros(1000, dtype=torch.long)])
    def test_half_precision_counts_a_thousand_nodes(self, dtype, batch):
        sequence = torch.tensor([1.0, 3.0], dtype=dtype).repeat_interleave(500).view(1, 1000, 1)
        mean = graph_mean(sequence, batch)
        assert mean.dtype == dtype
        assert mean.item() == 2


@pytest.mark.parametrize(
    ("batch", "batch_size", "expected"),
    [
        (None, None, 1),
        (BATCH, None, 5),
        (BATCH, 7, 7),
        (None, 3, 3),
        (torch.empty(0, dtype=torch.long), None, 0),
    ],
)
def test_count_graphs(batch, batch_size, expected):
    assert count_graphs(batch, batch_size) == expected


def test_groups_know_where_graphs_start_and_share_nodes_evenly():
    groups = Groups(BATCH, 6)
    assert groups.starts.tolist() == [0, 3, 3, 5, 5, 6, 6]
    assert groups.counts.flatten().tolist() == [3, 1, 2, 1, 1, 1]
    cuts = groups.cuts(6, 2, BATCH.device)
    assert cuts.tolist() == [0, 1, 3, 3, 3, 4, 5, 5, 5, 5, 6, 6, 6]
    assert Groups().cuts(7, 3, BATCH.device).tolist() == [0, 2, 4, 7]


class TestDifferences:
    def test_by_hand(self):
        states = torch.tensor([1.0, 4.0, 2.0]).view(3, 1, 1)
        assert forward_differences(states).flatten().tolist() == [3.0, -2.0, 0.0]
        assert forward_differences(states[:1]).tolist() == [[[0.0]]]

    def test_gradient(self, sequence):
        assert torch.autograd.gradcheck(forward_differences, sequence.requires_grad_())


class TestNodeSequence:
    def test_materialize_applies_the_activation_to_both(self):
        states, residuals = torch.randn(2, 3, 4, 5)
        got = NodeSequence(states, residuals, F.relu).materialize()
        assert torch.equal(got[0], states.clamp(min=0))
        assert torch.equal(got[1], residuals.clamp(min=0))

    def test_missing_residuals_are_differences_of_activated_states(self):
        states = torch.tensor([-1.0, 2.0, -3.0]).view(3, 1, 1)
        got = NodeSequence(states, None, F.relu).materialize()
        assert got[1].flatten().tolist() == [2.0, -2.0, 0.0]

    @pytest.mark.parametrize("act", PURE_ACTIVATIONS)
    def test_without_gradients_pure_functions_are_applied_on_the_spot(self, act):
        states, residuals = torch.randn(2, 3, 4, 5)
        expected = NodeSequence(states.clone(), residuals.clone(), act).materialize()
        with torch.no_grad():
            got = NodeSequence.activated(states, residuals, act)
        assert got.states is states
        assert got.residuals is residuals
        for ours, theirs in zip(got.materialize(), expected, strict=True):
            assert torch.equal(ours, theirs)

    def test_what_gradients_need_is_left_alone(self):
        states = torch.randn(3, 4, 5)
        before = states.clone()
        got = NodeSequence.activated(states, None, F.relu)
        assert got.act is F.relu
        assert torch.equal(states, before)

    @pytest.mark.parametrize("act", [ELU(inplace=True), PReLU(), torch.sin])
    @pytest.mark.parametrize("trains", [False, True])
    def test_other_activations_are_applied_once_on_copies(self, act, trains):
        states, residuals = torch.randn(2, 3, 4, 5)
        before = states.clone(), residuals.clone()
        calls = []
        with torch.set_grad_enabled(trains):
            got = NodeSequence.activated(states, residuals, lambda x: calls.append(1) or act(x))
            again = got.materialize()
        assert len(calls) == 2
        for ours, given, kept in zip(again, before, (states, residuals), strict=True):
            assert torch.equal(ours, act(given.clone()))
            assert torch.equal(kept, given)


def test_handwritten_gradients_are_not_used_under_transforms():
    seen = []

    def look(x):
        seen.append(handwritten_gradients_work())
        return x.sum()

    look(torch.ones(2))
    torch.func.grad(look)(torch.ones(2))
    torch.func.vmap(look)(torch.ones(2, 2))
    with torch.autograd.forward_ad.dual_level():
        look(torch.ones(2))
    assert seen == [True, False, False, False]
