import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from torch_grama.datasets.own_data.graph_parts import complete_edges

pairs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=25)


def as_array(edges):
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T


@given(pairs)
def test_every_edge_gets_its_reverse_once(listed):
    index, rows = complete_edges(as_array(listed), 6, directed=False)
    found = list(map(tuple, index.T.tolist()))
    assert found[: len(listed)] == listed
    assert found[len(listed) :] == [(t, s) for s, t in listed if (t, s) not in listed]
    for (source, target), row in zip(found, rows.tolist(), strict=True):
        assert listed[row] in ((source, target), (target, source))


@given(pairs)
def test_a_directed_list_stays_as_it_is(listed):
    index, rows = complete_edges(as_array(listed), 6, directed=True)
    assert list(map(tuple, index.T.tolist())) == listed
    assert rows.tolist() == list(range(len(listed)))
