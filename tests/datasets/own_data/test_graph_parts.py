import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from torch_grama.datasets.own_data.graph_parts import complete_edges, contains

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=25)


def as_array(edges: list[tuple[int, int]]) -> np.ndarray:
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T


@given(pairs)
def test_every_edge_gets_its_reverse_once(listed: list[tuple[int, int]]) -> None:
    edges = complete_edges(as_array(listed), 6, directed=False)
    found = list(map(tuple, edges.index.T.tolist()))
    assert found[: len(listed)] == listed
    assert found[len(listed) :] == [(t, s) for s, t in listed if (t, s) not in listed]
    assert edges.num_added == len(found) - len(listed)
    for (source, target), row in zip(found, edges.rows.tolist(), strict=True):
        assert listed[row] in ((source, target), (target, source))


@given(pairs)
def test_both_lists_of_an_undirected_graph_give_the_same(listed: list[tuple[int, int]]) -> None:
    once = {(min(pair), max(pair)) for pair in listed}
    both = once | {(target, source) for source, target in once}
    first = complete_edges(as_array(sorted(once)), 6, directed=False)
    second = complete_edges(as_array(sorted(both)), 6, directed=False)
    assert sorted(first.index.T.tolist()) == sorted(second.index.T.tolist())
    assert second.num_added == 0


@given(pairs)
def test_a_directed_list_stays_as_it_is(listed: list[tuple[int, int]]) -> None:
    edges = complete_edges(as_array(listed), 6, directed=True)
    assert list(map(tuple, edges.index.T.tolist())) == listed
    assert edges.num_added == 0


@given(st.lists(st.integers(-9, 9)), st.lists(st.integers(-9, 9)))
def test_contains(keys: list[int], wanted: list[int]) -> None:
    found = contains(np.array(keys, dtype=np.int64), np.array(wanted, dtype=np.int64))
    assert found.tolist() == [key in keys for key in wanted]
