import math

import pytest
import torch
import torch.nn.functional as F
from baseline_checks import call, draw_graph
from dense_formulas import affine, frame, full_attention, gated_gcn, head, layer_norm, prepare
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, GPSConv

from torch_grama.baselines import GPS, GT, GraphHead, Transformer


def test_gps_is_its_formula():
    graph = draw_graph(7, 0, edge_dim=3)
    model = prepare(GPS(5, 8, 3, 2, edge_dim=3))
    x, edge = (
        affine(model.encoder.node_lin, graph.x),
        affine(model.encoder.edge_lin, graph.edge_attr),
    )
    for layer in range(2):
        update, edge = gated_gcn(model.locals[layer].conv, x, graph.edge_index, edge)
        attended = full_attention(model.mixers[layer].attention, x)
        x = frame(model.frames[layer], x, [attended, update])
    torch.testing.assert_close(call(model, graph), head(model, x))


def test_one_layer_equals_the_layer_of_pyg():
    graphs = Batch.from_data_list([draw_graph(size, size) for size in (4, 9)])
    model = prepare(GPS(5, 8, 3, 1, local="gcn"))
    twin = GPSConv(8, GCNConv(8, 8), heads=4, norm="batch_norm").double().eval()
    local, mixer, sums = model.locals[0], model.mixers[0], model.frames[0]
    twin.conv.load_state_dict(local.conv.state_dict())
    twin.attn.load_state_dict(mixer.attention.state_dict())
    twin.mlp.load_state_dict(sums.mlp.state_dict())
    norms = (sums.branch_norms[1], sums.branch_norms[0], sums.norm)
    for theirs, ours in zip((twin.norm1, twin.norm2, twin.norm3), norms, strict=True):
        theirs.module.load_state_dict(
            {
                "weight": ours.weight,
                "bias": ours.bias,
                "running_mean": ours.running_mean[0],
                "running_var": ours.running_var[0],
                "num_batches_tracked": torch.tensor(0),
            }
        )
    expected = twin(model.encoder.node_lin(graphs.x), graphs.edge_index, graphs.batch)
    torch.testing.assert_close(call(model, graphs), model.head(expected))


def test_performer_is_its_formula():
    graph = draw_graph(6, 1)
    model = prepare(GPS(5, 8, 3, 1, local="gcn", attention="performer", heads=2))
    part = model.mixers[0].attention
    x = affine(model.encoder.node_lin, graph.x)
    features = part.fast_attn.projection_matrix
    heads = []
    for h in range(2):
        cut = slice(64 * h, 64 * (h + 1))
        query, key, value = ((x @ lin.weight.t())[:, cut] for lin in (part.q, part.k, part.v))
        weight = ((query @ features.t()).clamp(min=0) + 1e-3) @ (
            (key @ features.t()).clamp(min=0) + 1e-3
        ).t()
        heads.append(weight / weight.sum(1, keepdim=True) @ value)
    attended = affine(part.attn_out, torch.cat(heads, -1))
    gcn = GCNConv(8, 8).double()
    gcn.load_state_dict(model.locals[0].conv.state_dict())
    update = gcn(x, graph.edge_index)
    expected = head(model, frame(model.frames[0], x, [attended, update]))
    torch.testing.assert_close(call(model, graph), expected)


def test_transformer_is_its_formula_and_does_not_see_the_edges():
    graph = draw_graph(7, 2)
    model = prepare(Transformer(5, 8, 3, 2))
    x = affine(model.encoder.node_lin, graph.x)
    for mixer, sums in zip(model.mixers, model.frames, strict=True):
        x = frame(sums, x, [full_attention(mixer.attention, x)])
    torch.testing.assert_close(call(model, graph), head(model, x))
    graph.edge_index = graph.edge_index[:, :0]
    torch.testing.assert_close(call(model, graph), head(model, x))


def count(*modules):
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


# The encoders of the benchmark's code in front of the layers: tables for 174 values of 9 atom
# features and 13 of 3 bond features, and the encoding of the Laplacian, an MLP of 2, 32 and 16.
def encoders(width):
    return 174 * (width - 16) + 13 * width + 96 + 528


def test_parameters_of_the_transformer_of_the_long_range_benchmark():
    """Published log of the benchmark: 488,426 for 4 layers of width 120 on Peptides-func."""
    model = Transformer(120, 120, 10, 4, readout="graph", readout_layers=1)
    total = count(model) - count(model.encoder.node_lin) + encoders(120)
    assert math.isclose(total, 488_426, rel_tol=0.003)


def test_parameters_of_gps_on_peptides():
    """Rampasek et al. (2022), table of hyperparameters: 504,362 for 4 layers of width 96."""
    model = GPS(96, 96, 10, 4, readout="graph", readout_layers=1, edge_dim=3)
    total = count(model) - count(model.encoder.node_lin, model.encoder.edge_lin)
    total += encoders(96)
    assert math.isclose(total, 504_362, rel_tol=0.001)


@pytest.mark.parametrize("attention", ["multihead", "performer"])
def test_attention_dropout_is_for_training(attention):
    graph = draw_graph(6, 1)
    model = GPS(5, 8, 3, 1, attention=attention, attention_dropout=0.5).double()
    assert not torch.equal(call(model, graph), call(model, graph))
    model.eval()
    assert torch.equal(call(model, graph), call(model, graph))


def test_words_and_sizes_are_checked():
    with pytest.raises(ValueError, match="'performer'"):
        GPS(5, 8, 3, 2, attention="perform")
    with pytest.raises(ValueError, match="heads=3"):
        GPS(5, 8, 3, 2, heads=3)
    with pytest.raises(ValueError, match="'num_layers'"):
        Transformer(5, 8, 3, 0)
    with pytest.raises(ValueError, match="side by side"):
        Transformer(5, 8, 3, 1)(torch.ones(4, 2, 5), torch.zeros(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="'edge_attr'"):
        call(GPS(5, 8, 3, 1, edge_dim=3).double(), draw_graph(4, 0))


def test_weights_of_earlier_runs_are_read():
    model = GPS(5, 8, 3, 2, edge_dim=4)
    old = {name.removeprefix("encoder."): value for name, value in model.state_dict().items()}
    assert "node_lin.weight" in old
    other = GPS(5, 8, 3, 2, edge_dim=4)
    other.load_state_dict(old)
    assert all(map(torch.equal, model.parameters(), other.parameters()))


def test_repr():
    assert str(GPS(5, 8, 3, 2)) == "GPS(5, 8, 3, num_layers=2)"
    assert isinstance(GPS(5, 8, 3, 2).head, GraphHead)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_gt_is_its_formula(separate, edge_dim):
    graph = draw_graph(7, 0, edge_dim)
    model = prepare(GT(5, 8, 3, 2, heads=2, separate=separate, edge_dim=edge_dim))
    x = F.gelu(affine(model.encoder.node_lin, graph.x))
    adjacency = torch.zeros(7, 7, dtype=torch.float64)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    if not separate:
        adjacency.fill_diagonal_(1)
    # [i, j, F]: the state of the edge from j to i
    edge = torch.zeros(7, 7, 8, dtype=torch.float64)
    if edge_dim is not None:
        edge[graph.edge_index[1], graph.edge_index[0]] = affine(
            model.encoder.edge_lin, graph.edge_attr
        )
    for layer in model.layers:
        z = layer_norm(layer.attention_norm, x)
        part = layer.attention
        query, key, value = (
            affine(lin, z) for lin in (part.lin_query, part.lin_key, part.lin_value)
        )
        shift = 0 if edge_dim is None else affine(part.lin_edge, edge)
        keys, values = key[None] + shift, value[None] + shift
        messages = []
        for h in range(2):
            cut = slice(4 * h, 4 * h + 4)
            scores = (query[:, None, cut] * keys[..., cut]).sum(-1) / math.sqrt(4)
            weight = scores.exp() * adjacency
            weight = weight / weight.sum(1, keepdim=True)
            messages.append((weight[..., None] * values[..., cut]).sum(1))
        message = torch.cat(messages, -1)
        if separate:
            message = torch.cat([z, message], -1)
        x = x + affine(layer.out_lin, message)
        norm, first, _, _, last, _ = layer.mlp
        x = x + affine(last, F.gelu(affine(first, layer_norm(norm, x))))
    expected = head(model, layer_norm(model.norm, x))
    torch.testing.assert_close(call(model, graph), expected)


def test_a_node_without_neighbours_reads_itself_or_nothing():
    graph = draw_graph(3, 0)
    graph.edge_index = graph.edge_index[:, :0]
    for separate in (False, True):
        assert call(GT(5, 8, 3, 1, separate=separate).double(), graph).isfinite().all()
