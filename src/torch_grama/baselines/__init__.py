"""The models that GRAMA is compared with; all have the same call."""

from torch_grama.baselines.antisymmetric import ADGN, SWAN
from torch_grama.baselines.class_scores import CPGNN, GloGNN
from torch_grama.baselines.diffusion import DGC, GRAND, GraphCON
from torch_grama.baselines.digl import DIGL, GraphDiffusion
from torch_grama.baselines.drew import DRewGatedGCN, DRewGCN, DRewGIN
from torch_grama.baselines.edge_attention import GT, GATSep
from torch_grama.baselines.exphormer import Exphormer
from torch_grama.baselines.gmn import GMN
from torch_grama.baselines.goat import GOAT
from torch_grama.baselines.gps import GPS, GPSMamba, GraphMamba, Transformer
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.grit import GRIT
from torch_grama.baselines.mamba_block import BidirectionalMamba, MambaBlock
from torch_grama.baselines.message_passing import ARMA, GAT, GCN, GIN, GINE, GatedGCN, GraphSAGE
from torch_grama.baselines.mlp import MLP, ResNet
from torch_grama.baselines.multi_hop import FSGNN, H2GCN, MixHop
from torch_grama.baselines.nagphormer import NAGphormer
from torch_grama.baselines.polynomial import GCNII, GPRGNN, SGC, JacobiConv
from torch_grama.baselines.recurrences import MPSSM, SONAR
from torch_grama.baselines.san import SAN
from torch_grama.baselines.selective_scan import selective_scan
from torch_grama.baselines.temporal_gcn import A3TGCN, TGCN
from torch_grama.baselines.tuned import (
    TunedGAT,
    TunedGatedGCN,
    TunedGCN,
    TunedNeighborSum,
    TunedSAGE,
)
from torch_grama.baselines.weighed_edges import FAGCN, GBKGNN, CoGNN

__all__ = [
    "A3TGCN",
    "ADGN",
    "ARMA",
    "CPGNN",
    "DGC",
    "DIGL",
    "FAGCN",
    "FSGNN",
    "GAT",
    "GBKGNN",
    "GCN",
    "GCNII",
    "GIN",
    "GINE",
    "GMN",
    "GOAT",
    "GPRGNN",
    "GPS",
    "GRAND",
    "GRIT",
    "GT",
    "H2GCN",
    "MLP",
    "MPSSM",
    "SAN",
    "SGC",
    "SONAR",
    "SWAN",
    "TGCN",
    "BidirectionalMamba",
    "CoGNN",
    "DRewGCN",
    "DRewGIN",
    "DRewGatedGCN",
    "Exphormer",
    "GATSep",
    "GPSMamba",
    "GatedGCN",
    "GloGNN",
    "GraphCON",
    "GraphDiffusion",
    "GraphHead",
    "GraphMamba",
    "GraphSAGE",
    "JacobiConv",
    "MambaBlock",
    "MixHop",
    "NAGphormer",
    "ResNet",
    "Transformer",
    "TunedGAT",
    "TunedGCN",
    "TunedGatedGCN",
    "TunedNeighborSum",
    "TunedSAGE",
    "selective_scan",
]
