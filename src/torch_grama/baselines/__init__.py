"""The systems that GRAMA is compared with, all called alike."""

from torch_grama.baselines.adgn import ADGN
from torch_grama.baselines.arma import ARMA
from torch_grama.baselines.co_gnn import CoGNN
from torch_grama.baselines.dgc import DGC
from torch_grama.baselines.gat import GAT
from torch_grama.baselines.gated_gcn import GatedGCN
from torch_grama.baselines.gcn import GCN
from torch_grama.baselines.gcnii import GCNII
from torch_grama.baselines.gin import GIN, GINE
from torch_grama.baselines.grand import GRAND
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_sage import GraphSAGE
from torch_grama.baselines.graphcon import GraphCON
from torch_grama.baselines.swan import SWAN
from torch_grama.baselines.tuned_gat import TunedGAT
from torch_grama.baselines.tuned_gated_gcn import TunedGatedGCN
from torch_grama.baselines.tuned_gcn import TunedGCN
from torch_grama.baselines.tuned_sage import TunedSAGE

__all__ = [
    "ADGN",
    "ARMA",
    "DGC",
    "GAT",
    "GCN",
    "GCNII",
    "GIN",
    "GINE",
    "GRAND",
    "SWAN",
    "CoGNN",
    "GatedGCN",
    "GraphCON",
    "GraphHead",
    "GraphSAGE",
    "TunedGAT",
    "TunedGCN",
    "TunedGatedGCN",
    "TunedSAGE",
]
