"""What may enter a model: categories, positions, edge attributes, sequences."""

import pytest
import torch
from backbone_cases import BY_NAME, CASES, CHANNELS, BackboneCase
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv, GINEConv
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

from torch_grama.nn import GRAMA, AtomEncoder, BondEncoder, CategoricalEncoder

GCN, GATED, GPS = (BY_NAME[name] for name in ("gcn", "gatedgcn", "gps"))


@pytest.fixture
def molecule():
    """A ring of three atoms with a tail, categories drawn at random."""
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])
    atoms, bonds = AtomEncoder(1).sizes, BondEncoder(1).sizes
    return Data(
        x=torch.stack([torch.randint(size, (4,)) for size in atoms], dim=1),
        edge_index=edge_index,
        edge_attr=torch.stack([torch.randint(size, (8,)) for size in bonds], dim=1),
    )


class TestEncoders:
    def test_node_encoder_comes_first(self, molecule):
        encoder = AtomEncoder(6)
        model = GRAMA(6, CHANNELS, 2, node_encoder=encoder)

        out = model(molecule.x, molecule.edge_index)

        model.node_encoder = None
        assert torch.equal(out, model(encoder(molecule.x), molecule.edge_index))

    def test_lazy_model_behind_an_encoder(self, molecule):
        model = GRAMA(-1, CHANNELS, 2, node_encoder=CategoricalEncoder(AtomEncoder(1).sizes, 6))

        model(molecule.x, molecule.edge_index)

        assert model.in_channels == 6

    @pytest.mark.parametrize("backbone", ["gatedgcn", "gps", "gps-performer"])
    def test_edge_encoder_comes_before_the_width_of_the_model(self, molecule, backbone):
        encoder = BondEncoder(3)
        model = GRAMA(
            6,
            CHANNELS,
            2,
            backbone=backbone,
            node_encoder=AtomEncoder(6),
            edge_encoder=encoder,
            edge_dim=3,
        ).eval()

        out = model(molecule.x, molecule.edge_index, edge_attr=molecule.edge_attr)

        model.edge_encoder = None
        encoded = encoder(molecule.edge_attr)
        assert torch.equal(out, model(molecule.x, molecule.edge_index, edge_attr=encoded))

    def test_encoders_are_trained(self, molecule):
        model = GRAMA(
            6,
            CHANNELS,
            2,
            backbone="gatedgcn",
            node_encoder=AtomEncoder(6),
            edge_encoder=BondEncoder(3),
            edge_dim=3,
            readout="graph",
        )

        model(molecule.x, molecule.edge_index, edge_attr=molecule.edge_attr).sum().backward()

        assert all(p.grad.abs().sum() > 0 for p in model.edge_encoder.parameters())
        assert all(p.grad.abs().sum() > 0 for p in model.node_encoder.parameters())

    def test_encoders_are_reset_with_the_model(self):
        model = GRAMA(6, CHANNELS, 2, node_encoder=AtomEncoder(6))
        before = model.node_encoder.tables[0].weight.clone()

        model.reset_parameters()

        assert not torch.equal(model.node_encoder.tables[0].weight, before)

    def test_categories_without_encoder_are_refused(self, molecule):
        with pytest.raises(TypeError, match=r"floating point node features.*node_encoder"):
            GRAMA(9, CHANNELS, 2)(molecule.x, molecule.edge_index)


class TestEdgeAttributes:
    @pytest.mark.parametrize(
        "case", [case for case in CASES if case.edge_dim], ids=lambda case: case.name
    )
    def test_are_used(self, case, path):
        model = case.model().eval()
        expected = case.run(model, path)

        path.edge_attr = path.edge_attr + 1

        assert not torch.allclose(case.run(model, path), expected)

    def test_a_word_encodes_them_once_for_all_blocks(self, path):
        model = BackboneCase("", lambda: "gatedgcn", 3).model()

        assert model.edge_lin.weight.size() == (CHANNELS, 3)
        assert all(block.backbone.edge_lin.in_features == CHANNELS for block in model.blocks)

    def test_a_module_gets_them_as_they_are(self, path):
        case = BackboneCase("", lambda: GATv2Conv(CHANNELS, CHANNELS, edge_dim=3), 3)
        model = case.model()
        seen = []
        model.blocks[0].backbone.register_forward_pre_hook(
            lambda _, args, kwargs: seen.append(kwargs["edge_attr"]), with_kwargs=True
        )

        case.run(model, path)

        assert model.edge_lin is None
        assert all(edge_attr is path.edge_attr for edge_attr in seen)

    def test_a_module_that_can_use_them_may_also_run_without(self, path):
        case = BackboneCase("", lambda: GATv2Conv(CHANNELS, CHANNELS, edge_dim=3))

        assert torch.isfinite(case.run(case.model(), path)).all()

    def test_edge_states_may_start_anew_at_every_recurrence(self, path):
        carried, anew = (GATED.model(carry_edge_state=flag).eval() for flag in (True, False))

        assert not torch.allclose(GATED.run(carried, path), GATED.run(anew, path))

    def test_the_word_for_attention_uses_them_in_its_local_part(self):
        model = BackboneCase("", lambda: "gps", 3).model()

        assert isinstance(model.blocks[0].backbone.conv, GINEConv)

    def test_the_word_for_attention_uses_edge_weights(self, path):
        model = GPS.model().eval()

        weighted = GPS.run(model, path, edge_weight=path.edge_weight)

        assert not torch.allclose(weighted, GPS.run(model, path))


class TestPositions:
    @pytest.mark.parametrize(
        ("transform", "name"),
        [
            (AddRandomWalkPE(walk_length=3), "random_walk_pe"),
            (AddLaplacianEigenvectorPE(k=2, is_undirected=True), "laplacian_eigenvector_pe"),
        ],
        ids=["random walk", "laplacian"],
    )
    def test_of_pyg_enter_as_an_argument(self, path, transform, name):
        data = transform(Data(x=path.x.float(), edge_index=path.edge_index))
        pe = data[name]
        model = GRAMA(5, CHANNELS, 2, pe_channels=pe.size(1))

        out = model(data.x, data.edge_index, pe=pe)

        assert out.size() == (4, 2)
        assert not torch.allclose(out, model(data.x, data.edge_index, pe=pe.square()))

    def test_are_encoded_and_joined(self, path):
        pe = torch.randn(4, 3, dtype=torch.float64)
        model = GCN.model(pe_channels=3)

        out = GCN.run(model, path, pe=pe)

        joined = torch.cat([path.x, model.pe_encoder(pe)], dim=-1)
        plain = GCN.model(in_channels=5 + CHANNELS)
        plain.load_state_dict(
            {k: v for k, v in model.state_dict().items() if not k.startswith("pe_encoder")}
        )
        assert torch.allclose(out, plain(joined, path.edge_index))

    @pytest.mark.parametrize("sequence_first", [False, True])
    def test_join_every_snapshot_of_a_sequence(self, path, sequence_first):
        pe = torch.randn(4, 2, dtype=torch.float64)
        model = GCN.model(pe_channels=2, sequence_first=sequence_first)
        static = path.x.unsqueeze(1).expand(4, 3, 5)
        if sequence_first:
            static = static.transpose(0, 1)

        out = model(static, path.edge_index, pe=pe)

        assert torch.allclose(out, GCN.run(model, path, pe=pe))

    def test_are_permuted_with_the_nodes(self, path):
        pe = torch.randn(4, 3, dtype=torch.float64)
        model = GCN.model(pe_channels=3)

        flipped = model(path.x.flip(0), 3 - path.edge_index, pe=pe.flip(0))

        assert torch.allclose(flipped.flip(0), GCN.run(model, path, pe=pe))

    def test_the_encoder_is_reset_with_the_model(self):
        model = GRAMA(5, CHANNELS, 2, pe_channels=3)
        before = model.pe_encoder.first.weight.clone()

        model.reset_parameters()

        assert not torch.equal(model.pe_encoder.first.weight, before)


class TestSequences:
    @pytest.fixture
    def sequence(self, path):
        return torch.randn(4, 3, 5, dtype=torch.float64)

    def test_a_static_sequence_equals_static_features(self, path):
        model = GCN.model()
        static = path.x.unsqueeze(1).expand(4, 3, 5)

        assert torch.allclose(model(static, path.edge_index), GCN.run(model, path))

    def test_position_k_gets_snapshot_k(self, path, sequence):
        model = GCN.model(initial_residuals="zero", coefficients="naive", num_blocks=1)
        # only the oldest of the three elements counts, and no backbone
        model.blocks[0].ar_coefficients.weight.data = torch.tensor([0.0, 0.0, 1.0]).double()
        model.blocks[0].gain.data.zero_()

        out = model(sequence, path.edge_index)

        # f3 = f0, f4 = f1, f5 = f2, and f5 is read
        last = sequence[:, 2] @ model.embedding.weight[2] + model.embedding.bias[2]
        assert torch.allclose(out, model.head(last.relu()))

    def test_every_snapshot_matters(self, path, sequence):
        model = GCN.model(act="tanh")
        sequence.requires_grad_()

        (gradient,) = torch.autograd.grad(model(sequence, path.edge_index).square().sum(), sequence)

        assert (gradient.abs().sum((0, 2)) > 0).all()

    @pytest.mark.parametrize("backbone", ["gcn", "gatedgcn", "gps"])
    def test_the_sequence_may_come_first(self, path, sequence, backbone):
        case = BackboneCase("", lambda: backbone)
        last, first = (case.model(sequence_first=flag).eval() for flag in (False, True))

        got = first(sequence.transpose(0, 1), path.edge_index)

        assert torch.allclose(got, last(sequence, path.edge_index))

    def test_a_batch_equals_its_graphs(self, graphs, batch):
        model = GCN.model()
        sequences = [torch.randn(graph.num_nodes, 3, 5, dtype=torch.float64) for graph in graphs]

        together = model(torch.cat(sequences), batch.edge_index, batch=batch.batch)

        alone = [model(x, graph.edge_index) for x, graph in zip(sequences, graphs, strict=True)]
        assert torch.allclose(together, torch.cat(alone))

    def test_a_fault_names_the_node(self, path, sequence):
        sequence[2, 1, 0] = float("nan")

        with pytest.raises(ValueError, match="first in row 2"):
            GCN.model(sequence_first=True)(sequence.transpose(0, 1), path.edge_index)
