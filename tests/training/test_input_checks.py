"""A model looks at the values of its input in the first whole epoch, and no later."""

import pytest
import torch
import training_cases
from training_cases import SmallNet, graph_task

from torch_grama.nn import Running
from torch_grama.training.task import LateFlag


class Checking(SmallNet):
    """Notes at each call whether it was to check its input."""

    def __init__(self, check_input=True):
        super().__init__(4, 2, "graph")
        self.running = Running(check_input=check_input)
        self.noted = {True: [], False: []}

    def forward(self, *args, **kwargs):
        self.noted[self.training].append(self.running.check_input)
        return super().forward(*args, **kwargs)


def train(tmp_path, model, **options):
    # 18 graphs to learn from, 6 to validate on
    training_cases.train(tmp_path, graph_task(), model, max_epochs=4, batch_size=6, **options)


@pytest.mark.parametrize("check_val_every", [1, 2])
def test_each_batch_is_checked_the_first_time_alone(tmp_path, check_val_every):
    model = Checking()
    train(tmp_path, model, check_val_every=check_val_every)
    assert model.noted[True] == [True] * 3 + [False] * 9
    assert model.noted[False] == [True] + [False] * (4 // check_val_every - 1)
    assert model.running.check_input is True


def test_what_was_off_stays_off(tmp_path):
    model = Checking(check_input=False)
    train(tmp_path, model)
    assert not any(model.noted[True])
    assert model.running.check_input is False


def test_a_model_is_left_as_it_was_after_an_error(tmp_path):
    model = Checking()

    def fail(*args):
        if len(model.noted[False]) >= 3:
            raise ArithmeticError("in the third validation")

    model.head.register_forward_hook(fail)
    with pytest.raises(ArithmeticError, match="third validation"):
        train(tmp_path, model)
    assert model.noted[False][-1] is False
    assert model.running.check_input is True


@pytest.mark.parametrize("value", [True, False])
def test_a_late_flag_is_the_flag(value):
    assert LateFlag(torch.tensor(value)).read() is value
