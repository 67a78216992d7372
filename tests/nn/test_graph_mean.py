import pytest
import torch

from torch_grama.nn.engine.sequence import count_graphs
from torch_grama.nn.functional import graph_mean

BATCH = torch.tensor([0, 0, 0, 2, 2, 4])


@pytest.fixture
def sequence(seed):
    return torch.randn(3, 6, 2, dtype=torch.float64)


def test_mean_of_each_graph(sequence):
    mean = graph_mean(sequence, BATCH, 6)

    assert mean.size() == (6, 3, 2)
    assert torch.allclose(mean[0], (sequence[:, 0] + sequence[:, 1] + sequence[:, 2]) / 3)
    assert torch.allclose(mean[2], (sequence[:, 3] + sequence[:, 4]) / 2)
    assert torch.equal(mean[4], sequence[:, 5])


def test_a_graph_without_nodes_gives_zero(sequence):
    mean = graph_mean(sequence, BATCH, 6)

    assert torch.equal(mean[[1, 3, 5]], torch.zeros(3, 3, 2, dtype=torch.float64))


def test_without_batch_all_nodes_are_one_graph(sequence):
    one = torch.zeros(6, dtype=torch.long)

    assert torch.allclose(graph_mean(sequence), graph_mean(sequence, one))


def test_no_nodes_at_all_give_zero():
    assert torch.equal(graph_mean(torch.empty(2, 0, 3)), torch.zeros(1, 2, 3))


def test_non_contiguous_input(sequence):
    turned = sequence.transpose(1, 2).contiguous().transpose(1, 2)

    assert not turned.is_contiguous()
    assert torch.equal(graph_mean(turned, BATCH, 6), graph_mean(sequence, BATCH, 6))


@pytest.mark.parametrize("batch", [None, BATCH])
def test_gradient(sequence, batch):
    sequence.requires_grad_()

    assert torch.autograd.gradcheck(
        lambda x: graph_mean(x, batch, 6 if batch is BATCH else 1), sequence
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("batch", [None, torch.zeros(1000, dtype=torch.long)])
def test_half_precision_counts_a_thousand_nodes(dtype, batch):
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
