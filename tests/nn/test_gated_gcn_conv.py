import pytest
import torch

from torch_grama.nn import GRAMA, GatedGCNConv

CHANNELS = 4


def conv(**options):
    module = GatedGCNConv(CHANNELS, **options).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def dense_formula(module, x, edge_index, e, normalize_gates=True):
    """Node by node and edge by edge, without batch norm."""
    weights, biases = module.node_lin.weight.split(CHANNELS), module.node_lin.bias.split(CHANNELS)
    A, D, B, E = (lambda v, W=W, b=b: W @ v + b for W, b in zip(weights, biases, strict=True))
    logits = {}
    for k, (j, i) in enumerate(edge_index.t().tolist()):
        logits[k] = module.edge_lin.weight @ e[k] + D(x[i]) + E(x[j])
    rows = []
    for node in range(x.size(0)):
        total = gates = torch.zeros(CHANNELS, dtype=x.dtype)
        for k, (j, i) in enumerate(edge_index.t().tolist()):
            if i == node:
                gate = 1 / (1 + (-logits[k]).exp())
                total, gates = total + gate * B(x[j]), gates + gate
        rows.append(A(x[node]) + (total / (gates + 1e-6) if normalize_gates else total))
    return torch.stack(rows), torch.stack([logits[k] for k in range(len(logits))])


@pytest.fixture
def x(seed):
    return torch.randn(5, CHANNELS, dtype=torch.float64)


@pytest.fixture
def e(seed):
    return torch.randn(7, CHANNELS, dtype=torch.float64)


@pytest.mark.parametrize("normalize_gates", [True, False])
def test_equals_the_dense_formula_without_norm(x, e, directed, normalize_gates):
    module = conv(norm=None, normalize_gates=normalize_gates, has_edge_attr=True)
    out, edge_state = module(x, directed.edge_index, e)
    expected, logits = dense_formula(module, x, directed.edge_index, e, normalize_gates)
    assert torch.allclose(out, expected)
    assert torch.allclose(edge_state, e + logits.clamp(min=0))


@pytest.mark.parametrize("training", [True, False])
def test_norms_come_after_the_sum_and_before_the_rectifier(x, e, directed, training):
    module = conv(has_edge_attr=True).train(training)
    expected, logits = dense_formula(module, x, directed.edge_index, e)
    # the norms themselves are tested elsewhere
    module.node_norm.reset_parameters(), module.edge_norm.reset_parameters()
    normalized = [module.node_norm(expected), module.edge_norm(logits)]
    module.node_norm.reset_parameters(), module.edge_norm.reset_parameters()
    out, edge_state = module(x, directed.edge_index, e)
    assert torch.allclose(out, normalized[0])
    assert torch.allclose(edge_state, e + normalized[1].clamp(min=0))


def test_without_edge_attributes_every_edge_starts_from_one_vector(x, directed):
    module = conv(norm=None)
    got = module(x, directed.edge_index)
    expected = module(x, directed.edge_index, module.initial_edge.expand(7, -1))
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("norm", ["batch_norm", None])
def test_gradcheck(x, e, directed, norm):
    module = conv(has_edge_attr=True, norm=norm)
    assert torch.autograd.gradcheck(
        lambda x, e: module(x, directed.edge_index, e), (x.requires_grad_(), e.requires_grad_())
    )


def test_edge_attributes_that_were_promised_must_come(x, directed):
    with pytest.raises(ValueError, match="Expected 'edge_attr'"):
        conv(has_edge_attr=True)(x, directed.edge_index)


@pytest.mark.parametrize("norm", ["batch_norm", None])
def test_without_an_edge_state_the_edges_come_back_as_they_were(x, e, directed, norm):
    module = conv(has_edge_attr=True, norm=norm, edge_state="none")
    out, edge_state = module(x, directed.edge_index, e)
    out.sum().backward()
    assert edge_state is e
    carries = conv(has_edge_attr=True, norm=norm)
    carries.load_state_dict(module.state_dict(), strict=False)
    assert torch.equal(carries(x, directed.edge_index, e)[0], out)
    assert all(p.grad is not None for p in module.parameters())


class TestInsideAModel:
    def build(self, edge_state):
        torch.manual_seed(3)
        backbone = GatedGCNConv(CHANNELS, norm=None, edge_state=edge_state)
        sizes = {"seq_len": 1, "num_blocks": 3, "num_recurrences": 2}
        options = {"backbone": backbone, "coefficients": "fixed", "gain": None}
        return GRAMA(5, CHANNELS, 2, **sizes, **options).double()

    @pytest.mark.parametrize("edge_state", ["none", "block", "model"])
    def test_edges_are_handed_on_as_far_as_asked(self, directed, edge_state):
        model = self.build(edge_state)
        out = model(directed.x, directed.edge_index)
        f = [(directed.x @ model.embedding.weight[0] + model.embedding.bias[0]).relu()]
        d = [torch.zeros_like(f[0])]
        edges = None
        for block in model.blocks:
            edges = edges if edge_state == "model" else None
            for _ in range(2):
                new, edges = block.backbone(f[-1], directed.edge_index, edges)
                f.append(f[-1] + d[-1] + new)
                d.append(new)
            f, d = [part.relu() for part in f[-2:]], [part.relu() for part in d[-2:]]
        assert torch.allclose(out, model.head(f[-1]))
        # no state survives the forward pass
        assert torch.equal(model(directed.x, directed.edge_index), out)

    def test_the_three_differ(self, directed):
        none, block, whole = (
            self.build(word)(directed.x, directed.edge_index) for word in ("none", "block", "model")
        )
        assert not torch.allclose(none, block)
        assert not torch.allclose(block, whole)
