import pytest
import torch
from analysis_graphs import grama, graph
from torch import nn
from torch_geometric.data import Batch, Data

from torch_grama.analysis.inputs import ModelInput, evaluation_mode, read_input


def data(num_nodes, **extra):
    part = graph(num_nodes, seed=num_nodes)
    return Data(x=part.x, edge_index=part.edge_index, **extra)


def same(left, right):
    names = ("x", "edge_index", "edge_weight", "edge_attr", "batch", "pe")
    pairs = [(getattr(left, name), getattr(right, name)) for name in names]
    return left.num_graphs == right.num_graphs and all(
        (a is None) == (b is None) and (a is None or torch.equal(a, b)) for a, b in pairs
    )


def test_a_sequence_of_graphs_is_joined_as_pyg_joins_it():
    graphs = [
        data(n, edge_attr=torch.randn(2 * n - 2, 2), edge_weight=torch.rand(2 * n - 2))
        for n in (4, 1, 3)
    ]
    expected = Batch.from_data_list(graphs)
    joined = read_input(graphs)
    assert same(joined, read_input(expected))
    assert torch.equal(joined.batch, expected.batch)
    assert torch.equal(joined.edge_attr, expected.edge_attr)


def test_splitting_undoes_joining():
    graphs = [data(n, pe=torch.randn(n, 2), edge_weight=torch.rand(2 * n - 2)) for n in (4, 1, 3)]
    for part, whole in zip(read_input(graphs).split(), graphs, strict=True):
        assert same(part, read_input(whole))
    # a batch inside a sequence counts as its graphs
    nested = [Batch.from_data_list(graphs[:2]), graphs[2]]
    assert same(read_input(nested), read_input(graphs))


def test_an_empty_graph_of_a_batch_stays():
    inputs = ModelInput(
        torch.zeros(2, 1), torch.tensor([[0], [1]]), batch=torch.tensor([0, 0]), batch_size=3
    )
    assert [part.num_nodes for part in inputs.split()] == [2, 0, 0]


def test_the_model_is_called_with_everything_there_is():
    class Echo(nn.Module):
        def forward(self, *arguments, pe=None):
            self.seen = arguments, pe
            return arguments[0]

    model, inputs = Echo(), read_input(data(3, edge_attr=torch.ones(4, 1), pe=torch.ones(3, 1)))
    inputs.run(model)
    arguments, positions = model.seen
    assert arguments[0] is inputs.x
    assert arguments[3] is inputs.edge_attr
    assert positions is inputs.pe
    read_input(data(3)).run(model)
    assert model.seen[1] is None
    takes_none = grama()
    assert len(read_input(data(3, pe=torch.ones(3, 1))).run(takes_none)) == 3


def test_modes_are_restored_one_by_one():
    model = grama(dropout=0.5)
    model.train()
    model.head.eval()
    before = [module.training for module in model.modules()]

    def fail():
        with evaluation_mode(model):
            assert not any(module.training for module in model.modules())
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert [module.training for module in model.modules()] == before


def test_unusable_graphs():
    with pytest.raises(ValueError, match="at least one graph"):
        read_input([])
    with pytest.raises(ValueError, match=r"tensors 'x' and 'edge_index' \(got Data with x of type"):
        read_input(Data(edge_index=torch.zeros(2, 0, dtype=torch.long)))
    with pytest.raises(ValueError, match=r"'edge_weight' in all graphs or in none \(got it in 1"):
        read_input([data(3, edge_weight=torch.ones(4)), data(3)])
