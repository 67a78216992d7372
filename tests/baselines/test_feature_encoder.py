import pytest
import torch

from torch_grama.baselines.layer_stack import FeatureEncoder


def test_nodes_and_edges_have_a_map_each():
    encoder = FeatureEncoder(3, 4, edge_dim=2)
    x, edge_attr = torch.randn(5, 3), torch.randn(6, 2)
    nodes, edges = encoder(x, edge_attr, 6)
    torch.testing.assert_close(nodes, x @ encoder.node_lin.weight.t() + encoder.node_lin.bias)
    torch.testing.assert_close(
        edges, edge_attr @ encoder.edge_lin.weight.t() + encoder.edge_lin.bias
    )
    assert str(encoder) == "FeatureEncoder(3, 4)"


def test_features_of_the_right_width_can_be_taken_as_they_are():
    encoder = FeatureEncoder(4, 4, pre_linear=False, edge_dim=4)
    x, edge_attr = torch.randn(5, 4), torch.randn(6, 4)
    nodes, edges = encoder(x, edge_attr, 6)
    assert nodes is x
    assert edges is edge_attr
    assert list(encoder.parameters()) == []


def test_edge_states_without_attributes_start_from_one_learned_vector():
    encoder = FeatureEncoder(3, 4, edge_states=True)
    _, edges = encoder(torch.randn(5, 3), None, 6)
    assert torch.equal(edges, encoder.initial_edge.expand(6, 4))
    edges.sum().backward()
    assert torch.equal(encoder.initial_edge.grad, torch.full((4,), 6.0))


def test_without_edge_states_attributes_are_left_aside():
    _, edges = FeatureEncoder(3, 4)(torch.randn(5, 3), torch.randn(6, 2), 6)
    assert edges is None


def test_missing_edge_attributes_are_an_error():
    encoder = FeatureEncoder(3, 4, edge_dim=2)
    with pytest.raises(ValueError, match=r"edge_dim=2\] \(got None\)"):
        encoder(torch.randn(5, 3), None, 6)
    with pytest.raises(ValueError, match=r"edge_dim=2\] \(got \[6, 3\]\)"):
        encoder(torch.randn(5, 3), torch.randn(6, 3), 6)
