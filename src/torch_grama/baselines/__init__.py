"""The systems that GRAMA is compared with, all called alike."""

from torch_grama.baselines.cpgnn import CPGNN
from torch_grama.baselines.digl import DIGL
from torch_grama.baselines.drew import DRewGatedGCN, DRewGCN, DRewGIN
from torch_grama.baselines.fagcn import FAGCN
from torch_grama.baselines.fsgnn import FSGNN
from torch_grama.baselines.gbk_gnn import GBKGNN
from torch_grama.baselines.glognn import GloGNN
from torch_grama.baselines.gpr_gnn import GPRGNN
from torch_grama.baselines.graph_diffusion import GraphDiffusion
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.h2gcn import H2GCN
from torch_grama.baselines.jacobi_conv import JacobiConv
from torch_grama.baselines.mixhop import MixHop
from torch_grama.baselines.plain_mlp import MLP
from torch_grama.baselines.residual_mlp import ResNet
from torch_grama.baselines.sgc import SGC
from torch_grama.baselines.temporal_gcn import A3TGCN, TGCN
from torch_grama.baselines.training_hooks import AddsLoss, FitsLabels

__all__ = [
    "A3TGCN",
    "CPGNN",
    "DIGL",
    "FAGCN",
    "FSGNN",
    "GBKGNN",
    "GPRGNN",
    "H2GCN",
    "MLP",
    "SGC",
    "TGCN",
    "AddsLoss",
    "DRewGCN",
    "DRewGIN",
    "DRewGatedGCN",
    "FitsLabels",
    "GloGNN",
    "GraphDiffusion",
    "GraphHead",
    "JacobiConv",
    "MixHop",
    "ResNet",
]
