import torch

from torch_grama.nn.functional import arma_recurrence_reference

LENGTH = 3
# graphs 2 and 4 have no nodes
BATCH = torch.tensor([0, 0, 0, 1, 1, 3])
NUM_GRAPHS = 5


def normal(*size):
    return torch.randn(*size, dtype=torch.float64)


def test_the_first_coefficient_multiplies_the_newest_state():
    # state k is a one in channel k
    states = torch.eye(3).unsqueeze(1)
    phi, theta = torch.tensor([1.0, 10.0, 100.0]), torch.zeros(1)
    new, _ = arma_recurrence_reference(states, 0 * states, phi, theta, torch.zeros_like, 2)
    # f3 = f2 + 10 f1 + 100 f0, then f4 = f3 + 10 f2 + 100 f1
    assert new[0, 0].tolist() == [100.0, 10.0, 1.0]
    assert new[1, 0].tolist() == [100.0, 110.0, 11.0]


def test_the_first_coefficient_multiplies_the_newest_residual():
    residuals = torch.eye(3).unsqueeze(1)
    phi, theta = torch.zeros(1), torch.tensor([1.0, 10.0, 100.0])
    new, _ = arma_recurrence_reference(0 * residuals, residuals, phi, theta, torch.zeros_like, 2)
    # the new residual d3 is zero: f3 = d2 + 10 d1 + 100 d0, then f4 = d3 + 10 d2 + 100 d1
    assert new[0, 0].tolist() == [100.0, 10.0, 1.0]
    assert new[1, 0].tolist() == [0.0, 100.0, 10.0]


def test_the_residual_of_a_step_comes_from_the_state_before_it():
    seen = []

    def backbone(x):
        seen.append(x.clone())
        return x + 1

    ones = torch.ones(2, 1, 1)
    new, residuals = arma_recurrence_reference(
        ones, ones, torch.tensor([1.0]), torch.tensor([0.5]), backbone, 3
    )
    # d2 = 1 + 1, f2 = 1 + 0.5 + 2; d3 = 4.5, f3 = 3.5 + 1 + 4.5; d4 = 10, f4 = 9 + 2.25 + 10
    assert new.flatten().tolist() == [3.5, 9.0, 21.25]
    assert residuals.flatten().tolist() == [2.0, 4.5, 10.0]
    assert torch.cat(seen).flatten().tolist() == [1.0, 3.5, 9.0]


def test_gradient_of_first_and_second_order():
    arguments = [normal(2, 3, 1), normal(2, 3, 1), normal(2, 2), normal(2, 1), normal(1, 1)]
    for argument in arguments:
        argument.requires_grad_()
    batch = torch.tensor([0, 1, 1])

    def run(states, residuals, phi, theta, weight):
        return arma_recurrence_reference(
            states, residuals, phi, theta, lambda x: (x @ weight).tanh(), 2, batch
        )

    assert torch.autograd.gradcheck(run, arguments)
    assert torch.autograd.gradgradcheck(run, arguments)
