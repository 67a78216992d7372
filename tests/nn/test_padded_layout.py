import torch
from torch_geometric.utils import to_dense_batch

from torch_grama.nn import GRAMA
from torch_grama.nn.graph_input import PaddedLayout

BATCH = torch.tensor([0, 0, 0, 2, 2, 3])  # graph 1 and graph 4 have no nodes


def test_equals_pyg_where_graphs_lack_nodes():
    x = torch.randn(6, 2)
    layout = PaddedLayout.of(BATCH, 5)

    dense, mask = to_dense_batch(x, BATCH, batch_size=5)

    assert torch.equal(layout.lay_out(x), dense)
    assert torch.equal(layout.padding, ~mask)


def test_taking_back_undoes_laying_out():
    x = torch.randn(6, 2)
    layout = PaddedLayout.of(BATCH, 5)

    assert torch.equal(layout.take_back(layout.lay_out(x)), x)


def test_gradients():
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    layout = PaddedLayout.of(BATCH, 5)

    assert torch.autograd.gradcheck(lambda x: layout.take_back(layout.lay_out(x).cos()), x)


def test_no_graphs():
    layout = PaddedLayout.of(BATCH[:0], 0)

    assert layout.lay_out(torch.empty(0, 2)).size() == (0, 0, 2)
    assert layout.take_back(torch.empty(0, 0, 2)).size() == (0, 2)


def test_a_model_reads_it_once_a_pass(batch, monkeypatch):
    read = []
    of = PaddedLayout.of
    monkeypatch.setattr(PaddedLayout, "of", lambda *args: read.append(args) or of(*args))
    model = GRAMA(5, 8, 2, seq_len=3, num_blocks=2, backbone="gps").double()

    model(batch.x, batch.edge_index, batch=batch.batch)

    assert len(read) == 1
