"""The models that GRAMA is compared with; all have the same call."""

from torch_grama.baselines.antisymmetric import ADGN, SWAN
from torch_grama.baselines.class_scores import CPGNN, GloGNN
from torch_grama.baselines.diffusion import DGC, GRAND, GraphCON
from torch_grama.baselines.drew import DRewGatedGCN, DRewGCN, DRewGIN
from torch_grama.baselines.gps import GPS, Transformer
from torch_grama.baselines.graph_mamba import GMN, GPSMamba, GraphMamba
from torch_grama.baselines.graph_model import GraphHead
from torch_grama.baselines.grit import GRIT
from torch_grama.baselines.large_graphs import GOAT, NAGphormer
from torch_grama.baselines.mamba_block import BidirectionalMamba, MambaBlock, selective_scan
from torch_grama.baselines.message_passing import ARMA, GAT, GCN, GIN, GINE, GatedGCN, GraphSAGE
from torch_grama.baselines.multi_hop import DIGL, FSGNN, H2GCN, GraphDiffusion, MixHop
from torch_grama.baselines.platonov import GT, MLP, GATSep, ResNet
from torch_grama.baselines.polynomial import GCNII, GPRGNN, SGC, JacobiConv
from torch_grama.baselines.recurrences import A3TGCN, MPSSM, SONAR, TGCN
from torch_grama.baselines.scored_edges import SAN, Exphormer
from torch_grama.baselines.tuned import (
    TunedGAT,
    TunedGatedGCN,
    TunedGCN,
    TunedNeighborSum,
    TunedSAGE,
)
from torch_grama.baselines.weighed_edges import FAGCN, GBKGNN, CoGNN

# fmt: off
__all__ = [
    "A3TGCN", "ADGN", "ARMA", "CPGNN", "DGC", "DIGL", "FAGCN", "FSGNN", "GAT", "GBKGNN", "GCN",
    "GCNII", "GIN", "GINE", "GMN", "GOAT", "GPRGNN", "GPS", "GRAND", "GRIT", "GT", "H2GCN", "MLP",
    "MPSSM", "SAN", "SGC", "SONAR", "SWAN", "TGCN", "BidirectionalMamba", "CoGNN", "DRewGCN",
    "DRewGIN", "DRewGatedGCN", "Exphormer", "GATSep", "GPSMamba", "GatedGCN", "GloGNN", "GraphCON",
    "GraphDiffusion", "GraphHead", "GraphMamba", "GraphSAGE", "JacobiConv", "MambaBlock", "MixHop",
    "NAGphormer", "ResNet", "Transformer", "TunedGAT", "TunedGCN", "TunedGatedGCN",
    "TunedNeighborSum", "TunedSAGE", "selective_scan",
]
