"""What may enter a model: encoded categories and positions, edge attributes, sequences."""

import pytest
import torch
from backbone_cases import BY_NAME, CASES, CHANNELS, BackboneCase
from torch.nn import Module
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

from torch_grama.nn import GRAMA, AtomEncoder, BondEncoder, PositionEncoder

GCN, GATED, GPS = (BY_NAME[name] for name in ("gcn", "gatedgcn", "gps"))


class Molecules(Module):
    """A model behind encoders, as a user puts them together."""

    def __init__(self, backbone):
        super().__init__()
        self.atoms, self.bonds = AtomEncoder(6), BondEncoder(3)
        self.model = GRAMA(-1, CHANNELS, 2, backbone=backbone, edge_dim=3, readout="graph")

    def forward(self, x, edge_index, edge_attr):
        return self.model(self.atoms(x), edge_index, edge_attr=self.bonds(edge_attr))


class TestEncoders:
    @pytest.mark.parametrize("backbone", ["gatedgcn", "gin", "gps", "neighbor-sum"])
    def test_are_trained_before_a_model(self, backbone):
        edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]])
        model = Molecules(backbone)
        atoms = torch.stack([torch.randint(size, (4,)) for size in model.atoms.sizes], dim=1)
        bonds = torch.stack([torch.randint(size, (8,)) for size in model.bonds.sizes], dim=1)
        model(atoms, edge_index, bonds).sum().backward()
        assert model.model.in_channels == 6
        assert all(p.grad.abs().sum() > 0 for p in model.atoms.parameters())
        assert all(p.grad.abs().sum() > 0 for p in model.bonds.parameters())

    @pytest.mark.parametrize(
        ("transform", "name"),
        [
            (AddRandomWalkPE(walk_length=3), "random_walk_pe"),
            (AddLaplacianEigenvectorPE(k=2, is_undirected=True), "laplacian_eigenvector_pe"),
        ],
        ids=["random walk", "laplacian"],
    )
    def test_positions_of_pyg_stand_beside_the_features(self, path, transform, name):
        data = transform(Data(x=path.x.float(), edge_index=path.edge_index))
        encoder = PositionEncoder(data[name].size(1), 4)
        model = GRAMA(9, CHANNELS, 2)
        outs = [
            model(torch.cat([data.x, encoder(pe)], dim=1), data.edge_index)
            for pe in (data[name], data[name].square())
        ]
        assert outs[0].size() == (4, 2)
        assert not torch.allclose(*outs)


class TestEdgeAttributes:
    @pytest.mark.parametrize(
        "case", [case for case in CASES if case.edge_dim], ids=lambda case: case.name
    )
    def test_are_used(self, case, path):
        model = case.model().eval()
        expected = case.run(model, path)
        path.edge_attr = path.edge_attr + torch.randn(6, 3, dtype=torch.float64)
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

    def test_the_word_for_attention_uses_edge_weights(self, path):
        model = GPS.model().eval()
        weighted = GPS.run(model, path, edge_weight=path.edge_weight)
        assert not torch.allclose(weighted, GPS.run(model, path))


class TestSequences:
    def test_the_blocks_follow_what_the_embedding_makes_of_it(self, path):
        model, sequence = GCN.model(), torch.randn(4, 3, 5, dtype=torch.float64)
        states, residuals = model.embedding(sequence)
        for block in model.blocks:
            states, residuals = block(states, residuals, path.edge_index)
        assert torch.allclose(model(sequence, path.edge_index), model.head(states[-1]))

    def test_a_batch_equals_its_graphs(self, graphs, batch):
        model = GCN.model()
        sequences = [torch.randn(graph.num_nodes, 3, 5, dtype=torch.float64) for graph in graphs]
        together = model(torch.cat(sequences), batch.edge_index, batch=batch.batch)
        alone = [model(x, graph.edge_index) for x, graph in zip(sequences, graphs, strict=True)]
        assert torch.allclose(together, torch.cat(alone))
