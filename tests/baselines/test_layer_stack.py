import pytest
import torch
from baseline_checks import CHANNELS, call, draw_graph, randomize
from dense_graphs import adjacency, affine, attention, draw_symmetric_graph, gcn_matrix, mean_matrix
from torch.nn import BatchNorm1d, LayerNorm
from torch_geometric.nn import GAT as PyGGAT
from torch_geometric.nn import GCN as PyGGCN
from torch_geometric.nn import GIN as PyGGIN
from torch_geometric.nn import GraphSAGE as PyGGraphSAGE

from torch_grama.baselines import (
    ARMA,
    GAT,
    GCN,
    GIN,
    GINE,
    GatedGCN,
    GraphSAGE,
    TunedGAT,
    TunedGatedGCN,
    TunedGCN,
    TunedNeighborSum,
    TunedSAGE,
)
from torch_grama.baselines.layer_stack import FeatureEncoder
from torch_grama.nn import AtomEncoder, BondEncoder

EDGE_DIM = 3


def make(model_class, **options):
    torch.manual_seed(2)
    model = randomize(model_class(CHANNELS, 8, 3, 3, **options).double()).eval()
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.uniform_(-0.3, 0.3)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return model


def dense_gcn(conv, x, edges, data):
    matrix = gcn_matrix(adjacency(data, data.get("edge_weight")))
    return matrix @ x @ conv.lin.weight.t() + conv.bias, edges


def dense_sage(conv, x, edges, data):
    return affine(conv.lin_l, mean_matrix(adjacency(data)) @ x) + affine(conv.lin_r, x), edges


def dense_gat(conv, x, edges, data):
    matrix = adjacency(data) + torch.eye(len(x), dtype=x.dtype)
    heads, width = conv.heads, conv.out_channels
    values = (x @ conv.lin.weight.t()).view(-1, heads, width)
    out = []
    for head in range(heads):
        value = values[:, head]
        to_target = value @ conv.att_dst[0, head]
        from_source = value @ conv.att_src[0, head]
        score = to_target[:, None] + from_source[None, :]
        if edges is not None:
            edge_value = (edges @ conv.lin_edge.weight.t()).view(-1, heads, width)[:, head]
            edge_score = edge_value @ conv.att_edge[0, head]
            extra = torch.zeros_like(score)
            for number, (source, target) in enumerate(data.edge_index.t().tolist()):
                extra[target, source] = edge_score[number]
            # a loop has the mean of the attributes of the edges that come in
            incoming = torch.zeros(len(x), edges.size(1), dtype=x.dtype)
            for node in range(len(x)):
                mine = data.edge_index[1] == node
                incoming[node] = edges[mine].sum(0) / mine.sum().clamp(min=1)
            loop_value = (incoming @ conv.lin_edge.weight.t()).view(-1, heads, width)[:, head]
            score = score + extra + torch.diag(loop_value @ conv.att_edge[0, head])
        out.append(attention(torch.nn.functional.leaky_relu(score, 0.2), matrix) @ value)
    return torch.cat(out, dim=1) + conv.bias, edges


def dense_gin(conv, x, edges, data):
    return conv.nn((1 + conv.eps) * x + adjacency(data) @ x), edges


def dense_multi_gin(conv, x, edges, data):
    summaries = []
    for node in range(x.size(0)):
        senders = x[data.edge_index[0, data.edge_index[1] == node]]
        parts = (senders.sum(0), senders.mean(0), senders.amax(0), senders.amin(0))
        summaries.append(torch.cat(parts))
    return conv.nn((1 + conv.eps) * x + affine(conv.aggr_module.lin, torch.stack(summaries))), edges


def dense_gine(conv, x, edges, data):
    total = (1 + conv.eps) * x
    for number, (source, target) in enumerate(data.edge_index.t().tolist()):
        message = torch.relu(x[source] + edges[number])
        total = total.index_add(0, torch.tensor([target]), message[None])
    return conv.nn(total), edges


def dense_gated(conv, x, edges, data):
    weights = conv.node_lin.weight.split(conv.channels)
    biases = conv.node_lin.bias.split(conv.channels)
    own, to_target, message, from_source = (
        x @ weight.t() + bias for weight, bias in zip(weights, biases, strict=True)
    )
    logits = edges @ conv.edge_lin.weight.t()
    top, bottom = torch.zeros_like(x), torch.full_like(x, 1e-6)
    rows = []
    for number, (source, target) in enumerate(data.edge_index.t().tolist()):
        logit = logits[number] + to_target[target] + from_source[source]
        gate = 1 / (1 + torch.exp(-logit))
        top = top.index_add(0, torch.tensor([target]), (gate * message[source])[None])
        bottom = bottom.index_add(0, torch.tensor([target]), gate[None])
        rows.append(logit)
    node_norm, edge_norm = conv.node_norm, conv.edge_norm
    bottom = bottom if conv.normalize_gates else torch.ones_like(x)

    def normalize(norm, state):
        if norm is None:
            return state
        scaled = (state - norm.running_mean[0]) / (norm.running_var[0] + norm.eps).sqrt()
        return scaled * norm.weight + norm.bias

    new_edges = edges + torch.relu(normalize(edge_norm, torch.stack(rows)))
    return normalize(node_norm, own + top / bottom), new_edges


def dense_arma(conv, x, edges, data):
    matrix = gcn_matrix(adjacency(data, data.get("edge_weight")), loops=False)
    out = []
    for stack in range(conv.num_stacks):
        state = x
        for step in range(conv.num_layers):
            number = 0 if conv.shared_weights else step
            later = None if step == 0 else conv.weight[0 if conv.shared_weights else step - 1]
            weight = conv.init_weight[stack] if later is None else later[stack]
            skip = x @ conv.root_weight[number, stack]
            state = torch.relu(matrix @ state @ weight + skip + conv.bias[number, stack])
        out.append(state)
    return sum(out) / len(out), edges


def dense_gcn_with_edges(conv, x, edges, data):
    if edges is None:
        return dense_gcn(conv, x, edges, data)
    out, _ = dense_gcn(conv, x, edges, data)
    return out.index_add(0, data.edge_index[1], edges), edges


def dense_sage_with_edges(conv, x, edges, data):
    if edges is None:
        return dense_sage(conv, x, edges, data)
    out, _ = dense_sage(conv, x, edges, data)
    count = adjacency(data).sum(1, keepdim=True).clamp(min=1)
    return out + torch.zeros_like(out).index_add(0, data.edge_index[1], edges) / count, edges


def dense_neighbor_sum(conv, x, edges, data):
    source, target = data.edge_index
    messages = affine(conv.lin, x)[source]
    if edges is not None:
        messages = messages + edges @ conv.edge_lin.weight.T
    return torch.zeros_like(x).index_add(0, target, messages.clamp(min=0)), edges


def dense_norm(norm, x):
    if norm is None:
        return x
    if isinstance(norm, BatchNorm1d):
        scaled = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
    else:
        assert isinstance(norm, LayerNorm)
        centred = x - x.mean(1, keepdim=True)
        scaled = centred / (centred.square().mean(1, keepdim=True) + norm.eps).sqrt()
    return scaled * norm.weight + norm.bias


def dense_stack(model, data, dense_conv):
    """The whole model by matrices: encoder, layers with all that lies around them, readout."""
    encoder = model.encoder
    x = data.x if encoder.node_lin is None else affine(encoder.node_lin, data.x)
    edges = None
    if encoder.initial_edge is not None:
        edges = encoder.initial_edge.repeat(data.edge_index.size(1), 1)
    elif encoder.edge_dim is not None:
        edges = affine(encoder.edge_lin, data.edge_attr)
    states = []
    for layer in model.layers:
        out, edges = dense_conv(layer.conv, x, edges, data)
        if layer.skip_lin is not None:
            out = out + affine(layer.skip_lin, x)
        out = dense_norm(layer.norm, out)
        # an operator with its own activation has a layer without
        out = layer.act(out)
        x = x + out if layer.adds_input else out
        if layer.feed_forward is not None:
            part = layer.feed_forward
            x = dense_norm(part.norm1, x)
            x = x + affine(part.lin2, torch.relu(affine(part.lin1, x)))
            x = dense_norm(part.norm2, x)
        states.append(x)
    x = sum(states) if model.jumping else x
    first, last = model.head.mlp.layers[0], model.head.mlp.layers[-1]
    if len(model.head.mlp.layers) == 1:
        return affine(last, x)
    return affine(last, torch.relu(affine(first, x)))


CASES = [
    (GCN, dense_gcn, {}),
    (GCN, dense_gcn, {"pre_linear": False}),
    (GCN, dense_gcn, {"norm": "batch_norm", "residual": "identity"}),
    (GraphSAGE, dense_sage, {}),
    (GraphSAGE, dense_sage, {"pre_linear": False, "residual": "linear", "norm": "layer_norm"}),
    (GAT, dense_gat, {}),
    (GAT, dense_gat, {"heads": 4}),
    (GAT, dense_gat, {"heads": 2, "edge_dim": EDGE_DIM}),
    (GIN, dense_gin, {}),
    (GIN, dense_gin, {"mlp_layers": 1, "train_eps": False, "pre_linear": False}),
    (GIN, dense_multi_gin, {"aggregation": "multi"}),
    (GIN, dense_multi_gin, {"aggregation": "multi", "norm": "layer_norm", "residual": "identity"}),
    (GIN, dense_multi_gin, {"aggregation": "multi", "pre_linear": False}),
    (GINE, dense_gine, {"edge_dim": EDGE_DIM}),
    (GINE, dense_gine, {"train_eps": True, "norm": "batch_norm"}),
    (GatedGCN, dense_gated, {"edge_dim": EDGE_DIM}),
    (GatedGCN, dense_gated, {"norm": None, "residual": None}),
    (ARMA, dense_arma, {}),
    (ARMA, dense_arma, {"num_stacks": 3, "stack_layers": 3, "shared_weights": False}),
    (ARMA, dense_arma, {"num_stacks": 1, "stack_layers": 1, "pre_linear": False}),
    (TunedGCN, dense_gcn_with_edges, {}),
    (TunedGCN, dense_gcn_with_edges, {"edge_dim": EDGE_DIM, "jumping": True}),
    (TunedGCN, dense_gcn_with_edges, {"residual": "identity", "feed_forward": True}),
    (TunedSAGE, dense_sage_with_edges, {"norm": "layer_norm", "pre_linear": False}),
    (TunedSAGE, dense_sage_with_edges, {"edge_dim": EDGE_DIM, "readout_layers": 2}),
    (TunedGAT, dense_gat, {"heads": 2, "feed_forward": True, "norm": "layer_norm"}),
    (TunedGAT, dense_gat, {"edge_dim": EDGE_DIM, "residual": None}),
    (TunedGatedGCN, dense_gated, {"edge_dim": EDGE_DIM, "feed_forward": True}),
    (TunedGatedGCN, dense_gated, {"jumping": True, "residual": "linear"}),
    (TunedGatedGCN, dense_gated, {"normalize_gates": False}),
    (TunedNeighborSum, dense_neighbor_sum, {"edge_dim": EDGE_DIM, "norm": "batch_norm"}),
    (TunedNeighborSum, dense_neighbor_sum, {"residual": "identity"}),
]


@pytest.mark.parametrize(("model_class", "dense_conv", "options"), CASES)
def test_model_equals_its_dense_formula(model_class, dense_conv, options):
    model = make(model_class, **options)
    edge_dim = options.get("edge_dim")
    data = draw_graph(7, 0, edge_dim)
    expected = dense_stack(model, data, dense_conv)
    # not all units are dead: nodes differ
    assert expected.std(dim=0).max() > 1e-3
    torch.testing.assert_close(call(model, data), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("model_class", "dense_conv", "options"),
    [
        (GCN, dense_gcn, {}),
        (ARMA, dense_arma, {}),
        (TunedGCN, dense_gcn_with_edges, {}),
        (TunedGCN, dense_gcn_with_edges, {"edge_dim": EDGE_DIM}),
    ],
)
def test_edge_weights_enter_the_dense_formula(model_class, dense_conv, options):
    model = make(model_class, **options)
    data = draw_symmetric_graph(edge_dim=options.get("edge_dim"))
    out = model(data.x, data.edge_index, data.edge_weight, data.edge_attr)
    expected = dense_stack(model, data, dense_conv)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-10)
    assert not torch.allclose(out, model(data.x, data.edge_index, None, data.edge_attr))


@pytest.mark.parametrize(
    ("model_class", "pyg_class", "options"),
    [
        (GCN, PyGGCN, {}),
        (GraphSAGE, PyGGraphSAGE, {}),
        (GAT, PyGGAT, {"heads": 2}),
        (GIN, PyGGIN, {"train_eps": True}),
    ],
)
def test_layers_are_those_of_the_model_class_of_pyg(model_class, pyg_class, options):
    options = dict(options)
    model = make(model_class, pre_linear=False, **options)
    pyg = pyg_class(CHANNELS, 8, 3, jk="last", norm=None, **options).double()
    if model_class is GIN:
        # PyG's MLP has a batch norm; ours has none
        pyg.convs = torch.nn.ModuleList([layer.conv for layer in model.layers])
    else:
        pyg.convs.load_state_dict(
            {
                name.replace(".conv.", "."): value
                for name, value in model.layers.state_dict().items()
                if ".conv." in name
            }
        )
    pyg.lin = model.head.mlp
    data = draw_graph(9, 2)
    torch.testing.assert_close(call(model, data), pyg(data.x, data.edge_index))


def count(*modules):
    return sum(value.numel() for module in modules for value in module.parameters())


@pytest.mark.parametrize(
    ("model_class", "layers", "width", "options", "published"),
    [
        # the logs of the Long Range Graph Benchmark on Peptides-func, without encodings
        (GCN, 5, 300, {"norm": "batch_norm"}, 507_910),
        (GINE, 5, 208, {"residual": "identity", "edge_dim": 208}, 475_498),
        (GatedGCN, 5, 138, {"edge_dim": 138}, 509_368),
    ],
)
def test_parameter_count_of_the_long_range_benchmark(
    model_class, layers, width, options, published
):
    options = options | {"readout": "graph", "pre_linear": False, "readout_layers": 1}
    model = model_class(width, width, 10, layers, **options)
    encoders = [AtomEncoder(width)] + ([BondEncoder(width)] if "edge_dim" in options else [])
    # the benchmark's atom table has one category fewer, and biases beside its batch norms differ
    assert count(model, *encoders) == pytest.approx(published, rel=0.005)


@pytest.mark.parametrize(
    ("model_class", "layers", "width", "options", "published"),
    [
        # the tables of the second paper for Peptides-func
        (TunedGCN, 3, 275, {"residual": None, "readout_layers": 4}, 507_351),
        (TunedGatedGCN, 5, 135, {"residual": None, "readout_layers": 3}, 521_141),
    ],
)
def test_parameter_count_of_the_tuned_models(model_class, layers, width, options, published):
    options = options | {"readout": "graph", "pre_linear": False, "edge_dim": width}
    model = model_class(width, width, 10, layers, **options)
    # 28 of the channels come from 32 steps of a random walk: batch norm and linear layer
    walk_encoder = 2 * 32 + 32 * 28 + 28
    total = count(model, AtomEncoder(width - 28), BondEncoder(width)) + walk_encoder
    assert total == pytest.approx(published, rel=0.002)


def test_parameter_count_of_the_feed_forward_part():
    # the second paper's GCN for ZINC, of whose 260,177 parameters the encoders have a few thousand
    model = TunedGCN(
        64,
        64,
        1,
        12,
        readout="graph",
        residual="identity",
        feed_forward=True,
        pre_linear=False,
        readout_layers=2,
    )
    assert 0.98 * 260_177 < count(model) < 260_177


def test_layers_keep_their_dropout_for_training():
    model = GCN(CHANNELS, 8, 3, 2, dropout=0.5).double()
    data = draw_graph(9, 0)
    assert not torch.equal(call(model, data), call(model, data))
    assert torch.equal(call(model.eval(), data), call(model, data))


def test_a_batch_norm_of_one_node_uses_its_running_statistics():
    model = TunedGCN(CHANNELS, 8, 3, 2).double().train()
    x = torch.randn(1, CHANNELS, dtype=torch.float64)
    out = model(x, torch.zeros(2, 0, dtype=torch.long))
    assert out.isfinite().all()


def test_nodes_and_edges_have_a_map_each():
    encoder = FeatureEncoder(3, 4, edge_dim=2)
    x, edge_attr = torch.randn(5, 3), torch.randn(6, 2)
    nodes, edges = encoder(x, edge_attr, 6)
    torch.testing.assert_close(nodes, x @ encoder.node_lin.weight.t() + encoder.node_lin.bias)
    torch.testing.assert_close(
        edges, edge_attr @ encoder.edge_lin.weight.t() + encoder.edge_lin.bias
    )
    assert str(encoder) == "FeatureEncoder(3, 4)"


def test_features_of_the_right_width_can_be_taken_as_they_are():
    encoder = FeatureEncoder(4, 4, pre_linear=False, edge_dim=4)
    x, edge_attr = torch.randn(5, 4), torch.randn(6, 4)
    nodes, edges = encoder(x, edge_attr, 6)
    assert nodes is x
    assert edges is edge_attr
    assert list(encoder.parameters()) == []


def test_edge_states_without_attributes_start_from_one_learned_vector():
    encoder = FeatureEncoder(3, 4, edge_states=True)
    _, edges = encoder(torch.randn(5, 3), None, 6)
    assert torch.equal(edges, encoder.initial_edge.expand(6, 4))
    edges.sum().backward()
    assert torch.equal(encoder.initial_edge.grad, torch.full((4,), 6.0))


def test_without_edge_states_attributes_are_left_aside():
    _, edges = FeatureEncoder(3, 4)(torch.randn(5, 3), torch.randn(6, 2), 6)
    assert edges is None


def test_missing_edge_attributes_are_an_error():
    encoder = FeatureEncoder(3, 4, edge_dim=2)
    with pytest.raises(ValueError, match=r"edge_dim=2\] \(got None\)"):
        encoder(torch.randn(5, 3), None, 6)
    with pytest.raises(ValueError, match=r"edge_dim=2\] \(got \[6, 3\]\)"):
        encoder(torch.randn(5, 3), torch.randn(6, 3), 6)


def test_weights_of_earlier_runs_with_edges_are_read():
    model, other = TunedGCN(5, 8, 3, 2, edge_dim=4), TunedGCN(5, 8, 3, 2, edge_dim=4)
    old = {name.replace(".conv.", ".conv.conv."): v for name, v in model.state_dict().items()}
    assert "layers.0.conv.conv.lin.weight" in old
    other.load_state_dict(old)
    assert all(map(torch.equal, model.parameters(), other.parameters()))
