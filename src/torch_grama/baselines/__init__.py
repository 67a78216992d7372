"""The systems that GRAMA is compared with, all called alike."""

from torch_grama.baselines.adgn import ADGN
from torch_grama.baselines.arma import ARMA
from torch_grama.baselines.co_gnn import CoGNN
from torch_grama.baselines.cpgnn import CPGNN
from torch_grama.baselines.dgc import DGC
from torch_grama.baselines.digl import DIGL
from torch_grama.baselines.drew import DRewGatedGCN, DRewGCN, DRewGIN
from torch_grama.baselines.exphormer import Exphormer
from torch_grama.baselines.fagcn import FAGCN
from torch_grama.baselines.fsgnn import FSGNN
from torch_grama.baselines.gat import GAT
from torch_grama.baselines.gated_gcn import GatedGCN
from torch_grama.baselines.gbk_gnn import GBKGNN
from torch_grama.baselines.gcn import GCN
from torch_grama.baselines.gcnii import GCNII
from torch_grama.baselines.gin import GIN, GINE
from torch_grama.baselines.glognn import GloGNN
from torch_grama.baselines.gmn import GMN
from torch_grama.baselines.goat import GOAT
from torch_grama.baselines.gpr_gnn import GPRGNN
from torch_grama.baselines.gps import GPS
from torch_grama.baselines.gps_mamba import GPSMamba
from torch_grama.baselines.grand import GRAND
from torch_grama.baselines.graph_diffusion import GraphDiffusion
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_mamba import GraphMamba
from torch_grama.baselines.graph_sage import GraphSAGE
from torch_grama.baselines.graphcon import GraphCON
from torch_grama.baselines.gt import GT
from torch_grama.baselines.h2gcn import H2GCN
from torch_grama.baselines.jacobi_conv import JacobiConv
from torch_grama.baselines.laplace_encoder import LaplaceEncoder
from torch_grama.baselines.mamba_block import BidirectionalMamba, MambaBlock
from torch_grama.baselines.mixhop import MixHop
from torch_grama.baselines.nagphormer import NAGphormer
from torch_grama.baselines.plain_mlp import MLP
from torch_grama.baselines.residual_mlp import ResNet
from torch_grama.baselines.san import SAN
from torch_grama.baselines.selective_scan import selective_scan, selective_scan_reference
from torch_grama.baselines.sgc import SGC
from torch_grama.baselines.swan import SWAN
from torch_grama.baselines.temporal_gcn import A3TGCN, TGCN
from torch_grama.baselines.transformer import Transformer
from torch_grama.baselines.tuned_gat import TunedGAT
from torch_grama.baselines.tuned_gated_gcn import TunedGatedGCN
from torch_grama.baselines.tuned_gcn import TunedGCN
from torch_grama.baselines.tuned_sage import TunedSAGE

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
    "GT",
    "H2GCN",
    "MLP",
    "SAN",
    "SGC",
    "SWAN",
    "TGCN",
    "BidirectionalMamba",
    "CoGNN",
    "DRewGCN",
    "DRewGIN",
    "DRewGatedGCN",
    "Exphormer",
    "GPSMamba",
    "GatedGCN",
    "GloGNN",
    "GraphCON",
    "GraphDiffusion",
    "GraphHead",
    "GraphMamba",
    "GraphSAGE",
    "JacobiConv",
    "LaplaceEncoder",
    "MambaBlock",
    "MixHop",
    "NAGphormer",
    "ResNet",
    "Transformer",
    "TunedGAT",
    "TunedGCN",
    "TunedGatedGCN",
    "TunedSAGE",
    "selective_scan",
    "selective_scan_reference",
]
