"""The stage before a model: each feature is prepared as a separate calculation says."""

import pytest
import torch
from torch import nn

from torch_grama.nn import GRAMA, AtomEncoder, BondEncoder, CategoricalEncoder, PositionEncoder
from torch_grama.training.input_stage import InputStage

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


class Recorder(nn.Module):
    """Keeps what it was called with."""

    def forward(self, x, edge_index, edge_weight, edge_attr, batch, batch_size):
        self.seen = (x, edge_index, edge_weight, edge_attr, batch, batch_size)
        return x.sum(-1, keepdim=True)


def seen(stage, *arguments, **keywords):
    stage(*arguments, **keywords)
    return stage.model.seen


def test_without_encoders_everything_is_passed_on():
    x, weight, attr = torch.rand(4, 3), torch.rand(6), torch.rand(6, 2)
    batch = torch.zeros(4, dtype=torch.long)
    given = (x, EDGES, weight, attr, batch, 1)
    for got, sent in zip(seen(InputStage(Recorder()), *given), given, strict=True):
        assert got is sent


def test_categories_are_embedded():
    nodes, bonds = AtomEncoder(8), BondEncoder(5)
    x, attr = torch.ones(4, 9, dtype=torch.long), torch.ones(6, 3, dtype=torch.long)
    got = seen(InputStage(Recorder(), nodes, bonds), x, EDGES, None, attr)
    expected = torch.stack([table[1] for table in nodes.weight.split(nodes.sizes)]).sum(0)
    torch.testing.assert_close(got[0], expected.expand(4, 8))
    expected = torch.stack([table[1] for table in bonds.weight.split(bonds.sizes)]).sum(0)
    torch.testing.assert_close(got[3], expected.expand(6, 5))


def test_positions_join_the_features():
    encoder = PositionEncoder(3, 4).eval()
    x, pe = torch.rand(4, 2), torch.rand(4, 3)
    got = seen(InputStage(Recorder(), pe_encoder=encoder).eval(), x, EDGES, pe=pe)[0]
    first, _, second = encoder.mlp
    hidden = torch.relu(pe / (1 + 1e-5) ** 0.5 @ first.weight.T + first.bias)
    expected = hidden @ second.weight.T + second.bias
    torch.testing.assert_close(got, torch.cat([x, expected], dim=1))


def test_positions_join_every_element_of_a_sequence():
    stage = InputStage(Recorder(), pe_encoder=PositionEncoder(3, 4)).eval()
    x, pe = torch.rand(4, 5, 2), torch.rand(4, 3)
    got = seen(stage, x, EDGES, pe=pe)[0]
    assert got.size() == (4, 5, 6)
    assert torch.equal(got[:, 0, 2:], got[:, 4, 2:])
    assert torch.equal(got[..., :2], x)


def test_a_sequence_is_laid_side_by_side():
    x = torch.rand(4, 3, 2)
    got = seen(InputStage(Recorder(), flatten_sequence=True), x, EDGES)[0]
    assert torch.equal(got, torch.cat([x[:, 0], x[:, 1], x[:, 2]], dim=1))
    flat = torch.rand(4, 2)
    assert seen(InputStage(Recorder(), flatten_sequence=True), flat, EDGES)[0] is flat


def test_weights_become_an_attribute():
    weight, attr = torch.rand(6), torch.rand(6, 2)
    stage = InputStage(Recorder(), weight_as_attr=True)
    _, _, passed, got, _, _ = seen(stage, torch.rand(4, 1), EDGES, weight, attr)
    assert passed is None
    assert torch.equal(got, torch.cat([attr, weight[:, None]], dim=1))
    assert torch.equal(seen(stage, torch.rand(4, 1), EDGES, weight)[3], weight[:, None])


def test_attributes_are_kept_from_a_model_that_cannot_use_them():
    stage = InputStage(Recorder(), drop_edge_attr=True)
    got = seen(stage, torch.rand(4, 1), EDGES, torch.rand(6), torch.rand(6, 2))
    assert got[3] is None
    assert got[2] is not None


def test_dropout_of_bags_of_words_is_dropout():
    """One cell in ten is not zero: kept cells are scaled, one share of them is dropped."""
    torch.manual_seed(0)
    x = torch.zeros(300, 200)
    x[:, ::10] = 1 + torch.rand(300, 20)
    stage = InputStage(Recorder(), input_dropout=0.8).train()
    first, second = (stage.prepare(x, EDGES)[0] for _ in range(2))
    kept = first != 0
    torch.testing.assert_close(first[kept], x[kept] / 0.2)
    assert abs(kept.sum() / (x != 0).sum() - 0.2) < 0.03
    assert not torch.equal(first, second)
    assert torch.equal(stage.eval().prepare(x, EDGES)[0], x)


def test_dropout_falls_on_all_that_the_model_reads_of_nodes():
    torch.manual_seed(0)
    stage = InputStage(Recorder(), CategoricalEncoder([2], 50), input_dropout=0.5)
    got = seen(stage, torch.zeros(40, 1, dtype=torch.long), EDGES)[0]
    full = stage.node_encoder.weight[0].expand(40, 50)
    dropped = got == 0
    assert 0.4 < float(dropped.float().mean()) < 0.6
    torch.testing.assert_close(got[~dropped], 2 * full[~dropped])
    assert torch.equal(seen(stage.eval(), torch.zeros(40, 1, dtype=torch.long), EDGES)[0], full)


def test_reset_parameters_reaches_all_parts():
    stage = InputStage(
        GRAMA(12, 8, 1), CategoricalEncoder([3], 8), pe_encoder=PositionEncoder(2, 4)
    )
    before = {name: value.clone() for name, value in stage.named_parameters()}
    with torch.no_grad():
        for parameter in stage.parameters():
            parameter.fill_(7.0)
    stage.reset_parameters()
    for name, parameter in stage.named_parameters():
        assert parameter.shape == before[name].shape
        assert not (parameter == 7.0).any(), name


def test_repr():
    stage = InputStage(nn.Identity(), CategoricalEncoder([2], 4), pe_encoder=PositionEncoder(2, 3))
    assert str(stage) == (
        "InputStage(Identity(), node_encoder=CategoricalEncoder([2], 4), "
        "pe_encoder=PositionEncoder(2, 3))"
    )
    assert str(InputStage(nn.Identity(), flatten_sequence=True)) == (
        "InputStage(Identity(), flatten_sequence=True)"
    )


def test_mistakes_are_named():
    stage = InputStage(Recorder(), pe_encoder=PositionEncoder(2, 3))
    with pytest.raises(ValueError, match="Expected positional encodings 'pe'"):
        stage(torch.rand(4, 1), EDGES)
    with pytest.raises(ValueError, match="Expected 'edge_weight'"):
        InputStage(Recorder(), weight_as_attr=True)(torch.rand(4, 1), EDGES)
    with pytest.raises(ValueError, match="at least 1"):
        PositionEncoder(0, 4)
    for share in (-0.1, 1.0):
        with pytest.raises(ValueError, match="'input_dropout' to be at least 0 and below 1"):
            InputStage(Recorder(), input_dropout=share)


def test_one_node_can_be_trained_on():
    stage = InputStage(GRAMA(7, 4, 1), pe_encoder=PositionEncoder(2, 4)).train()
    out = stage(torch.rand(1, 3), torch.zeros(2, 0, dtype=torch.long), pe=torch.rand(1, 2))
    out.sum().backward()
    assert out.isfinite().all()
