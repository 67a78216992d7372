import pytest
import torch
import torch.nn.functional as F

from torch_grama.nn import AtomEncoder, BondEncoder, CategoricalEncoder, PositionEncoder


def test_rows_are_sums_of_the_rows_of_the_tables():
    module = CategoricalEncoder([4, 2], 3)
    first, second = module.weight.split([4, 2])
    out = module(torch.tensor([[3, 1], [0, 0]]))
    assert torch.equal(out, torch.stack([first[3] + second[1], first[0] + second[0]]))


def test_a_single_column_may_come_flat():
    module = CategoricalEncoder([4], 3)
    x = torch.tensor([1, 3])
    assert torch.equal(module(x), module(x.unsqueeze(-1)))


def test_no_rows():
    assert CategoricalEncoder([4, 2], 3)(torch.empty(0, 2, dtype=torch.long)).size() == (0, 3)


@pytest.mark.parametrize(
    ("kind", "sizes"), [(AtomEncoder, (119, 5, 12, 12, 10, 6, 6, 2, 2)), (BondEncoder, (5, 6, 2))]
)
def test_sizes_are_those_of_ogb(kind, sizes):
    module = kind(8)
    assert module.sizes == sizes
    assert module.weight.size() == (sum(sizes), 8)
    assert module(torch.tensor([sizes]) - 1).size() == (1, 8)


def test_sizes_agree_with_an_installed_ogb():
    features = pytest.importorskip("ogb.utils.features", reason="ogb is not installed")
    assert tuple(features.get_atom_feature_dims()) == AtomEncoder(1).sizes
    assert tuple(features.get_bond_feature_dims()) == BondEncoder(1).sizes


@pytest.mark.parametrize("module", [CategoricalEncoder([4, 2], 3), PositionEncoder(3, 8)])
def test_reset_draws_anew(module):
    before = {name: p.clone() for name, p in module.named_parameters() if "norm" not in name}
    module.reset_parameters()
    for name, value in before.items():
        assert not torch.equal(module.get_parameter(name), value), name


@pytest.mark.parametrize("size", [(5,), (5, 3), (5, 2, 1)])
def test_bad_shapes(size):
    with pytest.raises(ValueError, match=r"shape \[num_rows, 2\] \(got \[5"):
        CategoricalEncoder([4, 2], 3)(torch.zeros(*size, dtype=torch.long))


def test_floating_point_is_refused():
    with pytest.raises(TypeError, match=r"integer categories \(got torch.float32\)"):
        CategoricalEncoder([4, 2], 3)(torch.zeros(5, 2))


class TestPositions:
    def test_are_normed_and_pass_two_layers(self):
        module = PositionEncoder(3, 4).double()
        pe = 3 * torch.randn(6, 3, dtype=torch.float64) + 1
        normed = (pe - pe.mean(0)) / (pe.var(0, correction=0) + 1e-5).sqrt()
        first, _, second = module.mlp
        assert torch.allclose(module(pe), second(first(normed).relu()))

    def test_eigenvectors_are_normed_alone(self):
        pe = torch.randn(6, 5).double()
        both, walks = PositionEncoder(5, 4, 2).double(), PositionEncoder(3, 4).double()
        walks.mlp.load_state_dict(both.mlp.state_dict())
        vectors = PositionEncoder(2, 4, 2).double()
        expected = torch.cat([walks(pe[:, :3]), vectors(pe[:, 3:])], dim=1)
        assert torch.allclose(both(pe), expected)
        assert both.out_channels == expected.size(1) == 6
        assert torch.allclose(
            vectors(pe[:, 3:]), F.batch_norm(pe[:, 3:], None, None, training=True)
        )


def test_long_tables_are_looked_up_with_the_same_result(monkeypatch):
    module, x = CategoricalEncoder([7, 5, 3], 4), torch.tensor([[6, 4, 2], [0, 0, 0], [1, 4, 0]])
    found = []
    for longest in (512, 3):
        monkeypatch.setattr("torch_grama.nn.encoders._LONGEST_ROW", longest)
        out = module(x)
        (gradient,) = torch.autograd.grad(out.square().sum(), module.weight)
        found.append((out.detach(), gradient))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("value", [-1, 2])
def test_a_category_that_is_not_there_is_never_that_of_another_column(value):
    module = CategoricalEncoder([4, 2], 3)
    x = torch.tensor([[0, 0], [3, value]])
    with pytest.raises(ValueError, match=rf"0 to 1 in column 1 \(got {value} in row 1"):
        module(x)
