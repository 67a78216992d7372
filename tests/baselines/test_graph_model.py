import pytest
import torch

from torch_grama.baselines import GPRGNN, GloGNN, ResNet
from torch_grama.baselines.graph_model import takes_num_nodes


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
