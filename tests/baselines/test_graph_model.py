import inspect
from typing import Unpack

import pytest
import torch

from torch_grama.baselines import GloGNN, ResNet
from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions


def test_a_signature_shows_what_is_passed_on():
    class Passing(GraphModel):
        def __init__(self, *sizes: int, rate: float = 0.5, **shared: Unpack[ModelOptions]) -> None:
            super().__init__(*sizes, **shared)

    shown = str(inspect.signature(Passing))
    assert shown.startswith("(in_channels: int, hidden_channels: int, out_channels: int, num_la")
    assert shown.endswith("*, readout: str = 'node', dropout: float = 0.0, rate: float = 0.5)")
    sizes = {"in_channels": 5, "hidden_channels": 8, "out_channels": 3, "num_layers": 2}
    assert str(Passing(**sizes)) == str(Passing(5, 8, 3, 2))
    with pytest.raises(TypeError, match="heads"):
        Passing(**sizes, heads=2)


@pytest.mark.parametrize(
    "model",
    [
        GloGNN(5, 8, 3, 2, num_nodes=4),
        ResNet(5, 8, 3, 2, graph_features="adjacency", num_nodes=4),
    ],
)
def test_transductive_models_refuse_another_graph(model):
    with pytest.raises(ValueError, match=r"num_nodes=4 .* \(got 3 nodes\)"):
        model(torch.randn(3, 5), torch.zeros(2, 0, dtype=torch.long))


def test_a_docstring_says_its_own_and_is_completed():
    class Small(GraphModel):
        r"""A model.

        Args:
            num_layers (int): Number of rounds.
            rate (float, optional): The rate. (default: :obj:`0.5`, as in the paper)
        """

        card = Card("x' = x", "Somebody, 2020", "N F", departures=("It is small.",))

        def __init__(self, in_channels: int, num_layers: int, heads: int = 3, rate: float = 0.5):
            super().__init__(in_channels, 8, 2, num_layers)

    class Smaller(Small):
        r"""Another."""

    assert "    in_channels (int): Width of the node features.\n" in Small.__doc__
    assert "    num_layers (int): Number of rounds.\n" in Small.__doc__
    assert "Number of attention heads. (default: :obj:`3`)" in Small.__doc__
    assert "The rate. (default: :obj:`0.5`, as in the paper)" in Small.__doc__
    assert "Somebody, 2020. A layer costs ``N F``." in Small.__doc__
    assert "- It is small." in Small.__doc__
    assert "    num_layers (int): Number of rounds.\n" in Smaller.__doc__
    assert "The rate. (default: :obj:`0.5`)" in Smaller.__doc__
    assert Smaller.__doc__.count("Shapes:") == 1
