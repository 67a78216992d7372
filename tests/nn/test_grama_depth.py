"""How a fresh model starts: it looks far, and neither states nor gradients explode or vanish."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv, GCNConv, GraphConv, SAGEConv, TransformerConv

from torch_grama.analysis import influence_by_distance
from torch_grama.nn import GRAMA, GatedGCNConv, GPSLayer, NormedConv, RootedGCNConv

CHANNELS, NODES = 32, 60
NAMES = ["gcn", "gatedgcn", "gin", "gps", "neighbor-sum"]
MODULES = {
    "GCNConv": lambda: GCNConv(CHANNELS, CHANNELS),
    "SAGEConv": lambda: SAGEConv(CHANNELS, CHANNELS),
    "GATv2Conv": lambda: GATv2Conv(CHANNELS, CHANNELS),
    "TransformerConv": lambda: TransformerConv(CHANNELS, CHANNELS),
    "RootedGCNConv": lambda: RootedGCNConv(CHANNELS),
    "GatedGCNConv without norm": lambda: GatedGCNConv(CHANNELS, norm=None),
    "GPSLayer with pre-norm": lambda: GPSLayer(
        CHANNELS, GCNConv(CHANNELS, CHANNELS), pre_norm=True
    ),
    # sums over neighbours multiply the scale by the degrees: they need the norm
    "normed sum": lambda: NormedConv(GraphConv(CHANNELS, CHANNELS), CHANNELS),
}
backbones = pytest.mark.parametrize("backbone", [*NAMES, *MODULES])


@pytest.fixture(scope="module")
def graph():
    """A random graph of average degree four."""
    generator = torch.Generator().manual_seed(7)
    edges = torch.randint(NODES, (2, 2 * NODES), generator=generator)
    return Data(
        x=torch.randn(NODES, 5, generator=generator),
        edge_index=torch.cat([edges, edges.flip(0)], 1),
    )


def fresh(backbone, seed, **options):
    torch.manual_seed(seed)
    module = backbone if backbone in NAMES else MODULES[backbone]()
    return GRAMA(5, CHANNELS, 2, backbone=module, **options)


def norm_of_gradients(block):
    gradients = [p.grad.flatten() for p in block.parameters() if p.grad is not None]
    return torch.cat(gradients).norm()


def scales(backbone, seed, graph, **options):
    """Of a fresh model: last state over embedding, and gradients of the first block over last."""
    model = fresh(backbone, seed, **options)
    read = []
    model.head.register_forward_pre_hook(lambda _, arguments: read.append(arguments[0]))
    model(graph.x, graph.edge_index).square().mean().backward()
    states = read[0].norm() / model.embedding(graph.x)[0][-1].norm()
    gradients = norm_of_gradients(model.blocks[0]) / norm_of_gradients(model.blocks[-1])
    return torch.stack([states, gradients]).detach()


@backbones
@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("coefficients", "seq_len", "num_blocks"),
    [
        *(("selective", 2, 2), ("naive", 2, 2), ("naive", 4, 16), ("selective", 32, 2)),
        *(
            pytest.param(*c, marks=pytest.mark.long)
            for c in [("selective", 4, 16), ("naive", 32, 2)]
        ),
    ],
)
def test_states_and_gradients_keep_their_scale(backbone, coefficients, seq_len, num_blocks, graph):
    options = {"seq_len": seq_len, "num_blocks": num_blocks, "coefficients": coefficients}
    states, gradients = scales(backbone, 0, graph, **options).log10().tolist()
    assert -2 < states < 2
    assert -4 < gradients < 4


@pytest.mark.parametrize("coefficients", ["selective", "naive"])
def test_the_form_of_the_paper_does_not(coefficients, graph):
    options = {"seq_len": 8, "num_blocks": 4, "coefficients": coefficients, "gain": None}
    states, _ = scales("GCNConv", 0, graph, **options)
    assert states > 1e2


def path(num_nodes):
    nodes = torch.arange(num_nodes - 1)
    edges = torch.stack([nodes, nodes + 1])
    return Data(x=torch.randn(num_nodes, 5), edge_index=torch.cat([edges, edges.flip(0)], 1))


@pytest.mark.no_cover
@pytest.mark.parametrize("coefficients", ["selective", "naive"])
# the layer of GPS adds the states itself and norms the sum, so that a node sees most of itself
@pytest.mark.parametrize("backbone", [name for name in NAMES if name != "gps"])
def test_a_fresh_model_looks_beyond_the_node(backbone, coefficients):
    model = fresh(backbone, 0, seq_len=8, num_blocks=2, coefficients=coefficients)
    assert influence_by_distance(model, path(10), exact=True).influence_range > 0.5
