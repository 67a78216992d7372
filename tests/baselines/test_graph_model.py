import pytest
import torch

from torch_grama.baselines import GPRGNN, GloGNN, ResNet
from torch_grama.baselines.graph_model import Card, GraphModel, takes_num_nodes


def test_transductive_models_are_told_by_their_signature():
    assert takes_num_nodes(GloGNN)
    assert takes_num_nodes(ResNet)
    assert not takes_num_nodes(GPRGNN)


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
