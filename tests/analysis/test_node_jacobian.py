from dataclasses import replace

import pytest
import torch
from analysis_graphs import Encoded, MessagePassingStack, Stage, grama, grama_for_graphs, graph
from torch import nn

from torch_grama.analysis.block_analysis import trace_blocks
from torch_grama.analysis.inputs import ModelInput, evaluation_mode, read_input
from torch_grama.analysis.node_jacobian import NodeJacobian
from torch_grama.nn import CategoricalEncoder, Running


def dense_squares(model, inputs, v):
    """Squared norms of the blocks of the Jacobian that belong to the output of one node."""
    with evaluation_mode(model):
        jacobian = torch.autograd.functional.jacobian(lambda x: inputs.run(model, x)[v], inputs.x)
    return jacobian.flatten(2).square().sum((0, 2))


def test_all_rows_equal_the_dense_jacobian():
    model, graphs = grama(dropout=0.5).train(), [graph(4), graph(2, seed=1)]
    inputs = read_input(graphs)
    seen = []
    for draw in NodeJacobian(model, inputs).draw_all():
        expected = sum(dense_squares(model, inputs, int(node)) for node in draw.nodes)
        assert torch.allclose(draw.strength, expected, rtol=1e-10, atol=1e-16)
        seen += draw.nodes.tolist()
    assert sorted(seen) == list(range(6))
    assert model.training


def test_samples_are_unbiased_and_reproducible():
    model, inputs = grama(), graph(4)
    jacobian = NodeJacobian(model, inputs)
    assert jacobian.num_passes == 8
    exact = {int(draw.nodes): draw.strength for draw in jacobian.draw_all()}
    state = torch.get_rng_state()
    draws = list(jacobian.draw_sample(200, seed=3))
    assert torch.equal(torch.get_rng_state(), state)
    for node, expected in exact.items():
        own = torch.stack([draw.strength for draw in draws if int(draw.nodes) == node])
        assert len(own) == 50
        error = 5 * own.std(0) / len(own) ** 0.5
        assert ((own.mean(0) - expected).abs() <= error + 1e-12).all()
        assert (error < expected.max()).all()
    again = next(iter(jacobian.draw_sample(200, seed=3)))
    assert torch.equal(again.strength, draws[0].strength)
    first_round = [int(draw.nodes) for draw in draws[:4]]
    assert sorted(first_round) == [0, 1, 2, 3]


def test_integer_features_are_differentiated_behind_their_encoder():
    encoder, plain = CategoricalEncoder([4], 3).double(), grama()
    inputs = ModelInput(torch.randint(4, (5, 1)), graph(5).edge_index)
    encoded = ModelInput(encoder(inputs.x).detach(), inputs.edge_index)
    draws = NodeJacobian(Encoded(plain, encoder), inputs).draw_all()
    for draw, expected in zip(draws, NodeJacobian(plain, encoded).draw_all(), strict=True):
        assert torch.allclose(draw.strength, expected.strength)
    with pytest.raises(ValueError, match=r"features of type torch.int64 and MessagePassingStack"):
        NodeJacobian(MessagePassingStack(1), inputs)


def assert_alike(model, other, inputs):
    pairs = zip(
        NodeJacobian(model, inputs).draw_all(), NodeJacobian(other, inputs).draw_all(), strict=True
    )
    for draw, expected in pairs:
        assert torch.allclose(draw.strength, expected.strength)


def test_graph_tasks_are_read_out_node_by_node():
    inputs = read_input([graph(4), graph(3)])
    assert_alike(MessagePassingStack(2, readout="graph"), MessagePassingStack(2), inputs)
    assert_alike(Stage(grama_for_graphs()), Stage(grama()), inputs)


def test_a_pooling_of_several_parts_is_read_out_node_by_node():
    """Sum, maximum and mean over one node are three times its state."""
    inputs, model = read_input([graph(4), graph(3)]), grama_for_graphs("sum-max-mean")
    with evaluation_mode(model):

        def read_out(x):
            traces = trace_blocks(model, replace(inputs, x=x))
            return model.head(traces[-1].states[-1].repeat(1, 3))

        jacobian = torch.autograd.functional.jacobian(read_out, inputs.x)  # [N, out, N, C]
    squares = jacobian.square().sum((1, 3))
    for draw in NodeJacobian(model, inputs).draw_all():
        assert torch.allclose(draw.strength, squares[draw.nodes].sum(0))


def test_other_graph_tasks_are_read_before_the_pooling():
    class Pooled(MessagePassingStack):
        def forward(self, x, edge_index, *rest):
            states = super().forward(x, edge_index)
            return self.head(states).sum(0, keepdim=True)

    inputs = graph(4)
    model = Pooled(2)
    assert_alike(model, MessagePassingStack(2), inputs)
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("options", [{}, {"backbone": "gatedgcn"}, {"seq_len": 8}])
def test_recomputed_blocks_are_kept_for_many_backward_passes(options):
    model, inputs = grama(running=Running(recompute=True), dropout=0.5, **options), graph(4)
    assert_alike(model, grama(**options), inputs)
    assert model.running.recompute


def test_what_cannot_be_differentiated_is_refused():
    class Frozen(MessagePassingStack):
        def forward(self, x, edge_index, *rest):
            return super().forward(x.detach(), edge_index, *rest)

    with pytest.raises(ValueError, match=r"Frozen to be differentiable by its input"):
        NodeJacobian(Frozen(1), graph(3))

    class Pooled(nn.Module):
        def forward(self, x, *_):
            return x.sum(0, keepdim=True)

    with pytest.raises(ValueError, match=r"one row per node.*got 1 rows for 3 nodes"):
        NodeJacobian(Pooled(), graph(3))

    class Steep(MessagePassingStack):
        def forward(self, x, *_):
            return (x - x).sqrt()

    with pytest.raises(ValueError, match="Expected finite derivatives"):
        list(NodeJacobian(Steep(1), graph(3)).draw_all())
