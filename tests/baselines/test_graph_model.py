import inspect
from typing import Unpack

import pytest
import torch
from torch import nn

from torch_grama.baselines import GCN, GPRGNN, MLP, GloGNN, GraphHead, ResNet
from torch_grama.baselines.graph_model import Card, GraphModel, ModelOptions, choose_pooling


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
    [GloGNN(5, 8, 3, 2, num_nodes=4), ResNet(5, 8, 3, 2, graph_features="adjacency", num_nodes=4)],
)
def test_transductive_models_refuse_another_graph(model):
    with pytest.raises(ValueError, match=r"num_nodes=4 .* \(got 3\)"):
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
    assert "Somebody, 2020. A layer costs ``N F``; source: ``torch_grama``." in Small.__doc__
    assert "- It is small." in Small.__doc__
    assert "    num_layers (int): Number of rounds.\n" in Smaller.__doc__
    assert "The rate. (default: :obj:`0.5`)" in Smaller.__doc__
    assert Smaller.__doc__.count("Shapes:") == 1


def test_graph_readout_is_the_mlp_of_the_mean_of_each_graph():
    head = GraphHead(4, 3, readout="graph")
    x, batch = torch.randn(5, 4), torch.tensor([0, 0, 2, 2, 2])
    means = torch.stack([x[:2].mean(0), torch.zeros(4), x[2:].mean(0)])
    assert torch.allclose(head(x, batch, 3), head.mlp(means), atol=1e-6)
    assert head(x).size() == (1, 3)


def test_repr():
    assert str(GraphHead(4, 3)) == "GraphHead(ReadoutMLP(4, 3), readout='node')"


def test_setting_the_pooling_is_building_with_it():
    x, batch = torch.randn(5, 4), torch.tensor([0, 0, 1, 1, 1])
    head = GraphHead(4, 3, "graph", num_layers=3, act="tanh", dropout=0.1)
    head.set_pooling("sum")
    sums = torch.stack([x[:2].sum(0), x[2:].sum(0)])
    head.eval()
    assert torch.allclose(head(x, batch, 2), head.mlp(sums), atol=1e-6)
    head.set_pooling("sum-max-mean")
    whole = GraphHead(4, 3, "graph", 3, "tanh", 0.1, "sum-max-mean")
    assert str(head.mlp.layers) == str(whole.mlp.layers)
    assert head.mlp.dropout.p == 0.1
    whole.load_state_dict(head.state_dict())
    assert torch.equal(head.eval()(x, batch, 2), whole.eval()(x, batch, 2))


BATCH = torch.tensor([0, 0, 0, 1, 1])
EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 4]])


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [("sum", lambda x: x.sum(0)), ("max", lambda x: x.amax(0)), ("mean", lambda x: x.mean(0))],
)
def test_outputs_of_nodes_are_pooled_as_they_are(pooling, pool):
    model = GPRGNN(4, 8, 3, 2, readout="graph").eval()
    nodes = GPRGNN(4, 8, 3, 2).eval()
    nodes.load_state_dict(model.state_dict())
    choose_pooling(model, pooling)
    x = torch.randn(5, 4)
    out = nodes(x, EDGES)
    expected = torch.stack([pool(out[:3]), pool(out[3:])])
    torch.testing.assert_close(model(x, EDGES, batch=BATCH, batch_size=2), expected)


def test_a_wider_pooling_widens_the_head_and_is_trained():
    model = GCN(4, 8, 3, 2, readout="graph")
    choose_pooling(model, "sum-max-mean")
    out = model(torch.randn(5, 4), EDGES, batch=BATCH, batch_size=2)
    assert out.size() == (2, 3)
    out.sum().backward()
    assert model.head.mlp.layers[0].weight.grad.size() == (24, 24)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="'mean', 'sum' or 'max', since the outputs of the nodes"):
        choose_pooling(MLP(4, 8, 3, 2, readout="graph"), "sum-max-mean")
    with pytest.raises(ValueError, match=r"only with readout='graph' \(got pooling='sum'"):
        choose_pooling(GCN(4, 8, 3, 2), "sum")
    with pytest.raises(ValueError, match="one of 'max'"):
        choose_pooling(GCN(4, 8, 3, 2, readout="graph"), "maxx")
    with pytest.raises(ValueError, match=r"readout of graphs .* \(got Linear\)"):
        choose_pooling(nn.Linear(2, 2), "sum")
