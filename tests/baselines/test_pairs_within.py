import networkx
import pytest
import torch
from baseline_checks import draw_graph
from torch_geometric.utils import to_networkx

from torch_grama.baselines.pairs_within import pairs_within


@pytest.mark.parametrize("hops", [0, 1, 2, 3, 20])
@pytest.mark.parametrize("directed", [False, True])
def test_pairs_and_distances_are_those_of_networkx(hops, directed):
    graph = draw_graph(12, 3)
    if directed:
        graph.edge_index = graph.edge_index[:, ::2]
    pairs, distance = pairs_within(graph.edge_index, 12, hops)
    found = dict(zip(map(tuple, pairs.t().tolist()), distance.tolist(), strict=True))
    assert len(found) == pairs.size(1)
    lengths = networkx.all_pairs_shortest_path_length(to_networkx(graph), cutoff=hops)
    expected = {(j, i): d for j, ends in lengths for i, d in ends.items()}
    assert found == expected


def test_no_edges():
    pairs, distance = pairs_within(torch.zeros(2, 0, dtype=torch.long), 3, 2)
    assert pairs.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert distance.tolist() == [0, 0, 0]
