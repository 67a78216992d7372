import pytest
import torch
from torch.nn import Linear, MultiheadAttention, Sequential
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, GINEConv, GPSConv

from torch_grama.nn import GPSLayer
from torch_grama.nn.gps_layer import reset_what_is_left_out

CHANNELS = 8


def layer(attention="multihead", conv=True, **options):
    local = GCNConv(CHANNELS, CHANNELS) if conv else None
    return GPSLayer(CHANNELS, local, attention=attention, **options).double()


@pytest.fixture
def graphs(graphs):
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, CHANNELS, dtype=torch.float64)
    return graphs


attentions = pytest.mark.parametrize("attention", ["multihead", "performer"])
forms = pytest.mark.parametrize("pre_norm", [False, True])
norms = pytest.mark.parametrize("norm", ["layer_norm", "batch_norm"])


@attentions
@norms
def test_a_single_graph_equals_pyg(attention, norm, graphs):
    module = layer(attention, norm=norm)
    twin = GPSConv(
        CHANNELS,
        GCNConv(CHANNELS, CHANNELS),
        heads=4,
        norm=norm,
        norm_kwargs={"mode": "node"} if norm == "layer_norm" else {},
        attn_type=attention,
    ).double()
    if norm == "layer_norm":
        twin.load_state_dict(module.state_dict())
    else:  # the norms start alike
        weights = {k: v for k, v in module.state_dict().items() if not k.startswith("norm")}
        twin.load_state_dict(weights, strict=False)
    for training in (True, False):
        for each in (module, twin):
            each.train(training)
        for graph in graphs:
            got = module(graph.x, graph.edge_index)
            assert torch.allclose(got, twin(graph.x, graph.edge_index))


def test_each_recurrence_has_its_running_statistics(graphs):
    module = layer(norm="batch_norm", num_recurrences=2)
    graph = graphs[0]
    for _ in range(200):
        module(graph.x, graph.edge_index, step=0)
        module(3 * graph.x + 1, graph.edge_index, step=1)
    trained = [module(a * graph.x + a // 3, graph.edge_index, step=a // 3) for a in (1, 3)]
    module.eval()
    for norm in (module.norm1, module.norm2, module.norm3):  # those of training, unbiased
        norm.running_var *= 3 / 4
    for step, scale in enumerate((1, 3)):
        got = module(scale * graph.x + step, graph.edge_index, step=step)
        assert torch.allclose(got, trained[step], rtol=1e-6)


@attentions
def test_attention_reaches_every_node_of_the_graph_and_no_other(attention, graphs):
    module = layer(attention, conv=False)
    batch = Batch.from_data_list(graphs)
    x = batch.x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(
        module(x, batch.edge_index, batch.batch, 3)[0].square().sum(), x
    )
    reached = gradient.abs().sum(1) > 0
    assert reached.tolist() == [True] * 4 + [False] * 8


@attentions
def test_an_empty_graph_in_the_batch_leaves_results_and_gradients_finite(attention, graphs):
    module = layer(attention)
    graph = graphs[0]
    batch = torch.tensor([1, 1, 3, 3])
    no_edges = torch.empty(2, 0, dtype=torch.long)
    x = graph.x.requires_grad_()
    out = module(x, no_edges, batch, 5)
    out.square().sum().backward()
    assert torch.allclose(out[:2], module(x[:2], no_edges))
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())


@norms
def test_pre_norm_follows_its_equation(norm, graphs):
    module = layer(pre_norm=True, norm=norm)
    over = 1 if norm == "layer_norm" else 0
    x, edge_index = graphs[0].x, graphs[0].edge_index

    def apply_norm(states, gain, shift):
        centred = states - states.mean(over, keepdim=True)
        variance = centred.square().mean(over, keepdim=True)
        return centred / (variance + module.norm1.eps).sqrt() * gain + shift

    z = apply_norm(x, module.norm1.weight, module.norm1.bias)
    attended, _ = module.attn(z[None], z[None], z[None])
    update = attended[0] + module.conv(z, edge_index)
    hidden = apply_norm(x + update, module.norm3.weight, module.norm3.bias)
    first, _, _, second, _ = module.mlp
    expected = update + second(torch.relu(first(hidden)))
    assert torch.allclose(module(x, edge_index), expected)


@attentions
@forms
@norms
def test_gradcheck(attention, pre_norm, norm, graphs):
    module = layer(attention, pre_norm=pre_norm, norm=norm)
    x = torch.cat([graphs[0].x, graphs[2].x]).requires_grad_()
    batch = torch.tensor([0] * 4 + [1] * 3)
    assert torch.autograd.gradcheck(lambda x: module(x, graphs[0].edge_index, batch, 2), x)


def test_dropout_only_while_training(graphs):
    module = layer(dropout=0.5)
    graph = graphs[0]
    assert not torch.equal(*(module(graph.x, graph.edge_index) for _ in range(2)))
    module.eval()
    assert torch.equal(*(module(graph.x, graph.edge_index) for _ in range(2)))


@pytest.mark.parametrize(("channels", "heads"), [(8, 4), (6, 2), (5, 1)])
def test_heads_divide_the_channels(channels, heads):
    assert GPSLayer(channels).heads == heads


def fill(module):
    with torch.no_grad():
        for value in module.parameters():
            value.fill_(9.0)
    return module


def list_kept(module):
    return [name for name, value in module.named_parameters() if bool((value == 9.0).any())]


class TestResetWhatIsLeftOut:
    def test_attention_without_bias(self):
        module = fill(MultiheadAttention(8, 2, bias=False))
        reset_what_is_left_out(module)
        assert list_kept(module) == ["in_proj_weight"]

    def test_leaves_other_modules_and_the_random_numbers_alone(self):
        module = fill(Sequential(Linear(8, 8), GCNConv(8, 8), GINEConv(Linear(8, 8))))
        before = torch.get_rng_state()
        reset_what_is_left_out(module)
        assert len(list_kept(module)) == len(list(module.parameters()))
        assert torch.equal(torch.get_rng_state(), before)
