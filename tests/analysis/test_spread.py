from dataclasses import replace

import pytest
import torch
from analysis_graphs import KINDS, Encoded, Stage, grama, graph, path_edges
from torch import nn
from torch_geometric.nn import GINEConv

from torch_grama.analysis import ModelInput, draw_example, influence_spread, read_input
from torch_grama.analysis.block_analysis import trace_blocks
from torch_grama.analysis.spread import arrange_nodes
from torch_grama.nn import GRAMA, CategoricalEncoder


def backward_norms(model, inputs, source, places):
    """The same norms, of some of the states, by backward passes through the traced ones."""
    model.eval()

    def states(features):
        changed = ModelInput(features, inputs.edge_index)
        traces = trace_blocks(model, changed)
        return torch.cat([traces[0].given[-1:], *(trace.states for trace in traces)])[places]

    jacobian = torch.autograd.functional.jacobian(states, inputs.x)  # [T, N, F, N, C]
    return jacobian[..., source, :].square().sum((2, 3)).sqrt()


@pytest.mark.no_cover
@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_spread_equals_backward_passes(options):
    model, inputs = grama(**options), graph(4)
    found = influence_spread(model, inputs, 1)
    assert found.size() == (1 + 2 * model.num_recurrences, 4)
    places = [model.num_recurrences, -1]
    expected = backward_norms(model, inputs, 1, places)
    assert torch.allclose(found[places], expected, rtol=1e-8, atol=1e-12)


def test_influence_travels_one_hop_a_recurrence():
    model, inputs = grama(coefficients="naive", act=None), graph(9)
    reached = (influence_spread(model, inputs, 0) > 0).sum(1)
    assert reached.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_many_sources_equal_single_ones(monkeypatch):
    model, inputs = grama(backbone="gatedgcn"), graph(5)
    together = influence_spread(model, inputs, range(5))
    for source in (0, 2, 4):
        assert torch.allclose(together[source], influence_spread(model, inputs, source))
    monkeypatch.setattr("torch_grama.analysis.spread._CHUNK_SIZE", 30)
    assert torch.allclose(influence_spread(model, inputs, range(5)), together)


def test_random_directions_are_unbiased():
    model, inputs = grama(), graph(5)
    exact = influence_spread(model, inputs, 2)
    many = influence_spread(model, inputs, 2, num_probes=4000)
    assert torch.allclose(many, exact, rtol=0.1)
    few = influence_spread(model, inputs, 2, num_probes=2)
    assert not torch.allclose(few, exact, rtol=0.1)
    first, second = (influence_spread(model, inputs, 2, num_probes=1, seed=7) for _ in range(2))
    assert torch.equal(first, second)


def test_wide_inputs_fall_back_to_directions():
    torch.manual_seed(0)
    model, x = GRAMA(40, 4, 2, seq_len=2).double(), torch.randn(4, 40, dtype=torch.float64)
    found = influence_spread(model, ModelInput(x, graph(4).edge_index), 0)
    expected = influence_spread(model, ModelInput(x, graph(4).edge_index), 0, num_probes=32)
    assert torch.equal(found, expected)


def test_encoders_sequences_edges_and_wrappers():
    torch.manual_seed(0)
    encoder = CategoricalEncoder([4], 3).double()
    model = Stage(grama())
    plain = influence_spread(model, graph(4), 0)
    half = ModelInput(graph(4).x * 2, graph(4).edge_index)
    assert torch.allclose(plain, influence_spread(model.model, half, 0))

    codes = ModelInput(torch.randint(4, (4, 1)), graph(4).edge_index)
    found = influence_spread(Encoded(grama(), encoder), codes, 0)
    assert found[0].nonzero().flatten().tolist() == [0]

    mlp = nn.Linear(4, 4)
    edges = GRAMA(3, 4, 2, seq_len=3, backbone=GINEConv(mlp, edge_dim=5), edge_dim=5)
    inputs = ModelInput(
        torch.randn(4, 3),
        graph(4).edge_index,
        edge_attr=torch.randn(6, 5),
        pe=torch.randn(4, 2),  # the model takes none
    )
    assert influence_spread(edges, inputs, 0).size() == (7, 4)
    sequence = ModelInput(torch.randn(4, 3, 3), graph(4).edge_index)
    found = influence_spread(GRAMA(3, 4, 2, seq_len=3), sequence, 3)
    assert found[0].nonzero().flatten().tolist() == [3]


def test_unusable_arguments():
    model = grama()
    with pytest.raises(ValueError, match=r"between 0 and 3 \(got 4\)"):
        influence_spread(model, graph(4), 4)
    with pytest.raises(ValueError, match="at least one 'source'"):
        influence_spread(model, graph(4), [])
    with pytest.raises(ValueError, match="Expected one graph"):
        influence_spread(model, read_input([graph(4), graph(3)]), 0)
    with pytest.raises(ValueError, match="'num_probes' to be at least 1"):
        influence_spread(model, graph(4), 0, num_probes=0)

    class OneWay(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    class Backbone(nn.Module):
        def forward(self, x, edge_index):
            return OneWay.apply(x)

    with pytest.raises(ValueError, match="forward-mode derivatives"):
        influence_spread(grama(backbone=Backbone()), graph(4), 0)

    class Broken(nn.Module):
        def forward(self, x, edge_index):
            raise RuntimeError("out of paper")

    with pytest.raises(RuntimeError, match="out of paper"):
        influence_spread(grama(backbone=Broken()), graph(4), 0)


def test_a_small_graph_is_shown_as_a_whole():
    model, inputs = grama(), graph(5)
    found = draw_example(model, inputs, graph=7)
    assert found.graph == 7
    assert sorted(found.nodes) == [0, 1, 2, 3, 4]
    assert found.nodes[0] == 1  # the first of those with the most edges
    pairs = {frozenset((found.nodes[a], found.nodes[b])) for a, b in found.edges}
    assert pairs == {frozenset((i, i + 1)) for i in range(4)}
    assert len(found.edges) == 4
    assert found.sources == [0, 1, 2, 3, 4]
    assert len(found.labels) == 7
    for source in found.sources:
        expected = influence_spread(model, inputs, found.nodes[source])[:, found.nodes]
        got = torch.tensor(found.spread[source], dtype=torch.float64)
        assert torch.allclose(got, expected, rtol=1e-2)


def test_of_a_large_graph_the_surroundings_are_shown(monkeypatch):
    model, inputs = grama(), graph(30)
    hub = torch.tensor([[20, 20], [18, 22]])
    inputs = replace(inputs, edge_index=torch.cat([inputs.edge_index, hub, hub.flip(0)], dim=1))
    monkeypatch.setattr("torch_grama.analysis.spread._MAX_NUMBERS", 150)
    found = draw_example(model, inputs, max_nodes=5)
    assert sorted(found.nodes) == list(range(18, 23))
    assert found.nodes[0] == 20
    assert len(found.sources) == 150 // (7 * 5)
    assert found.num_probes is None
    assert len(found.edges) == 6
    # too much work to be exact: fewer nodes, in random directions
    monkeypatch.setattr("torch_grama.analysis.spread._MAX_WORK", 4 * (30 + 62))
    found = draw_example(model, inputs, max_nodes=5)
    assert (found.num_probes, found.sources) == (2, [0, 4])  # from the centre to the rim
    # no more random directions than channels: then each channel by itself
    monkeypatch.setattr("torch_grama.analysis.spread._MAX_WORK", 24 * (30 + 62))
    monkeypatch.setattr("torch_grama.analysis.spread._MAX_NUMBERS", 20_000)
    found = draw_example(model, inputs)
    assert (found.num_probes, len(found.sources)) == (None, 24 // 3)


def test_loops_doubles_and_lonely_nodes():
    edge_index = torch.tensor([[0, 1, 0, 2], [1, 0, 1, 2]])
    inputs = ModelInput(torch.randn(4, 3).double(), edge_index)
    found = draw_example(grama(), inputs)
    assert found.edges == [[0, 1]]
    assert len(found.nodes) == 4
    # of a graph that is too large for a drawing, what has no path to the rest is left out
    assert sorted(draw_example(grama(), inputs, max_nodes=3).nodes) == [0, 1]
    with pytest.raises(ValueError, match="at least one node"):
        draw_example(grama(), ModelInput(torch.zeros(0, 3), edge_index[:, :0]))


def stress(positions, hops):
    length = torch.cdist(positions, positions)
    upper = torch.triu_indices(len(hops), len(hops), 1)
    h, d = hops[tuple(upper)], length[tuple(upper)]
    scale = (d / h).sum() / (d / h).square().sum()  # the best size of the paper
    return float(((scale * d - h) / h).square().mean())


def test_a_path_is_drawn_straight_and_a_ring_round():
    path = arrange_nodes(path_edges(8), 8)
    hops = (torch.arange(8) - torch.arange(8)[:, None]).abs().double()
    assert stress(path, hops) < 0.01
    assert path.abs().max() == pytest.approx(1)
    ring = torch.stack([torch.arange(10), (torch.arange(10) + 1) % 10])
    radius = arrange_nodes(ring, 10).norm(dim=1)
    assert radius.max() / radius.min() < 1.1


def test_few_nodes_and_separate_parts():
    nothing = torch.zeros(2, 0, dtype=torch.long)
    assert arrange_nodes(nothing, 0).size() == (0, 2)
    assert arrange_nodes(nothing, 1).tolist() == [[0.0, 0.0]]
    apart = arrange_nodes(torch.tensor([[0, 2], [1, 3]]), 4)
    assert torch.isfinite(apart).all()
    length = torch.cdist(apart, apart)
    assert length[0, 1] < length[0, 2]
    assert length[2, 3] < length[1, 3]
