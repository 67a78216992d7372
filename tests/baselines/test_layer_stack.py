import pytest
import torch
from baseline_checks import CHANNELS, call, draw_graph, randomize
from dense_formulas import gated_gcn, head
from dense_graphs import adjacency, affine, attention, draw_symmetric_graph, gcn_matrix, mean_matrix
from torch.nn import BatchNorm1d, LayerNorm, Module
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.nn.inits import reset

from torch_grama.baselines import (
    ARMA,
    GAT,
    GCN,
    GIN,
    GINE,
    GPS,
    GatedGCN,
    GraphSAGE,
    TunedGAT,
    TunedGatedGCN,
    TunedGCN,
    TunedNeighborSum,
    TunedSAGE,
)
from torch_grama.baselines.layer_stack import ConvLayer, FeatureEncoder
from torch_grama.nn.graph_input import read_graph_input

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
    for h in range(heads):
        value = values[:, h]
        to_target = value @ conv.att_dst[0, h]
        from_source = value @ conv.att_src[0, h]
        score = to_target[:, None] + from_source[None, :]
        if edges is not None:
            edge_value = (edges @ conv.lin_edge.weight.t()).view(-1, heads, width)[:, h]
            edge_score = edge_value @ conv.att_edge[0, h]
            extra = torch.zeros_like(score)
            for number, (source, target) in enumerate(data.edge_index.t().tolist()):
                extra[target, source] = edge_score[number]
            # a loop has the mean of the attributes of the edges that come in
            incoming = torch.zeros(len(x), edges.size(1), dtype=x.dtype)
            for node in range(len(x)):
                mine = data.edge_index[1] == node
                incoming[node] = edges[mine].sum(0) / mine.sum().clamp(min=1)
            loop_value = (incoming @ conv.lin_edge.weight.t()).view(-1, heads, width)[:, h]
            score = score + extra + torch.diag(loop_value @ conv.att_edge[0, h])
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
    return gated_gcn(conv, x, data.edge_index, edges, least=-torch.inf)


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
        messages = messages + edges
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
    return head(model, sum(states) if model.jumping else x)


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
    data = draw_symmetric_graph(edge_dim=options.get("edge_dim"))
    weight = data.edge_weight
    del data.edge_weight
    plain = dense_stack(model, data, dense_conv)
    # not all units are dead: nodes differ
    assert plain.std(dim=0).max() > 1e-3
    torch.testing.assert_close(call(model, data), plain, rtol=1e-9, atol=1e-10)
    if model_class in (GCN, ARMA, TunedGCN):
        data.edge_weight = weight
        out = model(data.x, data.edge_index, weight, data.edge_attr)
        weighted = dense_stack(model, data, dense_conv)
        torch.testing.assert_close(out, weighted, rtol=1e-9, atol=1e-10)
        assert not torch.allclose(out, plain)


@pytest.mark.parametrize(
    ("model_class", "new", "old"),
    [(TunedGCN, ".conv.", ".conv.conv."), (GPS, "encoder.", "")],
)
def test_weights_of_earlier_runs_are_read(model_class, new, old):
    model, other = (model_class(5, 8, 3, 2, edge_dim=4) for _ in range(2))
    renamed = {name.replace(new, old): value for name, value in model.state_dict().items()}
    assert renamed.keys() != model.state_dict().keys()
    other.load_state_dict(renamed)
    assert all(map(torch.equal, model.parameters(), other.parameters()))


def test_missing_edge_attributes_are_an_error():
    encoder = FeatureEncoder(3, 4, True, 0.0, 2, False)
    with pytest.raises(ValueError, match=r"edge_dim=2\] \(got None\)"):
        encoder(torch.randn(5, 3), None, 6)
    with pytest.raises(ValueError, match=r"edge_dim=2\] \(got \[6, 3\]\)"):
        encoder(torch.randn(5, 3), torch.randn(6, 3), 6)


class Recorder(Module):
    """A convolution that remembers what it was called with."""

    edge_state = "block"

    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        self.seen = {"edge_weight": edge_weight, "edge_attr": edge_attr}
        return 2 * x, edge_attr + 1


class Plain(Module):
    def forward(self, x, edge_index):
        return -x


def read(data, edge_weight=None):
    return read_graph_input(data.num_nodes, data.edge_index, edge_weight)


def test_a_convolution_gets_what_it_declares_and_hands_on_its_edge_state():
    data = draw_graph(5, 0)
    weight = torch.rand(data.edge_index.size(1))
    edges = torch.zeros(data.edge_index.size(1), 5)
    layer = ConvLayer(Recorder(), 5, 5, act=None)
    out, after = layer(data.x, read(data, weight), edges)
    assert layer.conv.seen == {"edge_weight": weight, "edge_attr": edges}
    assert torch.equal(out, 2 * data.x)
    assert torch.equal(after, edges + 1)


def test_a_plain_convolution_gets_nothing_more_and_edge_states_pass_by():
    data = draw_graph(5, 0)
    edges = torch.zeros(data.edge_index.size(1), 5)
    out, after = ConvLayer(Plain(), 5, 5)(data.x, read(data), edges)
    assert torch.equal(out, (-data.x).relu())
    assert after is edges


def test_a_norm_inside_the_convolution_leaves_one_to_the_feed_forward_part():
    layer = ConvLayer(Plain(), 5, 5, norm="batch_norm", feed_forward=True, conv_normalizes=True)
    assert layer.norm is None
    assert layer.feed_forward.norm1 is not None


def test_reset_reaches_every_part():
    layer = ConvLayer(GCNConv(5, 5), 5, 5, norm="batch_norm", residual="linear", feed_forward=True)
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(7)
    reset(layer)
    assert not any(bool((value == 7).any()) for value in layer.parameters())


@pytest.mark.parametrize("conv", [GCNConv, SAGEConv], ids=lambda conv: conv.__name__)
def test_a_linear_convolution_runs_as_its_map(conv):
    data = draw_graph(5, 0)
    edge_index = torch.cat([data.edge_index, torch.tensor([[0, 2], [0, 2]])], 1)  # with two loops
    layer = ConvLayer(conv(5, 3), 5, 3, act=None).double()
    weight = torch.rand(edge_index.size(1), dtype=torch.double)
    x = data.x
    graph = read_graph_input(data.num_nodes, edge_index, weight if layer.call.edge_weight else None)
    out, _ = layer(x, graph, None)
    expected = layer.conv(x, edge_index, *([weight] if layer.call.edge_weight else []))
    torch.testing.assert_close(out, expected)
    assert len(graph.adjacencies) == 1  # PyG's own normalisation did not run

    seen = []
    layer.conv.register_forward_hook(lambda *_: seen.append(1))
    torch.testing.assert_close(layer(x, graph, None)[0], expected)
    assert seen  # a watched convolution is called
