"""A captured model answers as the model does."""

import numpy as np
import pytest
import torch

from torch_grama import GRAMA, Running, capture
from torch_grama.nn.recording import Recording

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_cuda])]


def ring(device, num_nodes=12):
    node = torch.arange(num_nodes, device=device)
    return torch.stack([node, (node + 1) % num_nodes])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cached", [True, False])
def test_it_answers_as_the_model_does(device, cached):
    model = GRAMA(5, 16, 3, running=Running(cached=cached)).eval().to(device)
    edges = ring(device)
    fast = capture(model, torch.randn(12, 5, device=device), edges)
    answers = []
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(12, 5, device=device)
        with torch.no_grad():
            expected = model(x, edges)
        answers.append(fast(x, edge_index=edges))
        assert torch.allclose(answers[-1], expected, atol=1e-6)
        # a tensor that was written to is read again
        x.mul_(2)
        with torch.no_grad():
            assert torch.allclose(fast(x, edges), model(x, edges), atol=1e-6)
    # earlier answers are not written over
    assert not torch.equal(answers[0], answers[1])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
        assert torch.allclose(fast(x, edges), model(x, edges), atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_another_graph_of_the_same_size_is_read(device):
    model = GRAMA(5, 16, 3).eval().to(device)
    x, edges = torch.randn(12, 5, device=device), ring(device)
    fast = capture(model, x, edges)
    other = edges.flip(0).contiguous()
    with torch.no_grad():
        assert torch.allclose(fast(x, other), model(x, other), atol=1e-6)
        assert torch.allclose(fast(x, edges), model(x, edges), atol=1e-6)


def test_a_buffer_of_numpy_is_read_again():
    model, edges = GRAMA(5, 16, 3).eval(), ring("cpu")
    x = torch.from_numpy(np.ones((12, 5), dtype=np.float32))
    fast = capture(model, x, edges)
    x.numpy()[:, 0] = 3
    with torch.no_grad():
        assert torch.allclose(fast(x, edges), model(x, edges), atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_of_inference_mode(device):
    model, edges = GRAMA(5, 16, 3).eval().to(device), ring(device)
    with torch.inference_mode():
        x = torch.randn(12, 5, device=device)
        fast = capture(model, x, edges)
        for _ in range(2):
            x.mul_(2)
            assert torch.allclose(fast(x, edges), model(x, edges), atol=1e-6)
    with torch.no_grad():
        other = torch.randn(12, 5, device=device)
        assert torch.allclose(fast(other, edges), model(other, edges), atol=1e-6)


def test_it_says_what_it_cannot_take():
    edges = ring("cpu")
    x = torch.randn(12, 5)
    with pytest.raises(ValueError, match=r"model\.eval"):
        capture(GRAMA(5, 16, 3), x, edges)
    fast = capture(GRAMA(5, 16, 3).eval(), x, edges)
    with pytest.raises(ValueError, match="'x' like that of the example"):
        fast(x[:6], edges)
    with pytest.raises(ValueError, match="arguments of the example"):
        fast(x, edges, torch.ones(12))
    cached = capture(GRAMA(5, 16, 3, running=Running(cached=True)).eval(), x, edges)
    with pytest.raises(ValueError, match="whose matrix is cached"):
        cached(x, edges.flip(0))


@pytest.mark.cuda
@needs_cuda
def test_a_record_outlives_an_earlier_one():
    # sums of this length are cut into parts, which cuBLAS joins in a workspace
    left, right = torch.randn(2, 104, 30_000, device="cuda")
    expected = left @ right.t()

    def record():
        recording = Recording(lambda: left @ right.t(), torch.device("cuda"))
        for _ in range(3):
            assert torch.allclose(recording(), expected, atol=1e-2)
        return recording

    first, second = record(), record()
    del first
    torch.cuda.empty_cache()
    # what is freed is taken by others
    others = [torch.zeros(2**23, device="cuda") for _ in range(32)]
    for _ in range(3):
        assert torch.allclose(second(), expected, atol=1e-2)
    assert all(not other.any() for other in others)
