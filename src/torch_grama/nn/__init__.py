"""GRAMA as PyTorch modules."""

from torch_grama.nn import functional
from torch_grama.nn.backbone import Backbone
from torch_grama.nn.coefficients import (
    ARMACoefficients,
    Coefficients,
    NaiveCoefficients,
    SelectiveCoefficients,
)
from torch_grama.nn.encoders import AtomEncoder, BondEncoder, CategoricalEncoder, PositionEncoder
from torch_grama.nn.engine.adjacency import LinearMap
from torch_grama.nn.feed_forward_conv import FeedForwardConv
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.gps_layer import GPSLayer
from torch_grama.nn.grama import GRAMA, Running
from torch_grama.nn.grama_block import GRAMABlock
from torch_grama.nn.grama_conv import GRAMAConv
from torch_grama.nn.linear_backbone import LinearBackbone
from torch_grama.nn.neighbor_convs import (
    GCN2Stack,
    NeighborSumConv,
    NormedConv,
    RootedGCNConv,
    build_gin_conv,
)
from torch_grama.nn.readout import Readout
from torch_grama.nn.recording import capture
from torch_grama.nn.sequence_embedding import SequenceEmbedding

__all__ = [
    "GRAMA",
    "ARMACoefficients",
    "AtomEncoder",
    "Backbone",
    "BondEncoder",
    "CategoricalEncoder",
    "Coefficients",
    "FeedForwardConv",
    "GCN2Stack",
    "GPSLayer",
    "GRAMABlock",
    "GRAMAConv",
    "GatedGCNConv",
    "LinearBackbone",
    "LinearMap",
    "NaiveCoefficients",
    "NeighborSumConv",
    "NormedConv",
    "PositionEncoder",
    "Readout",
    "RootedGCNConv",
    "Running",
    "SelectiveCoefficients",
    "SequenceEmbedding",
    "build_gin_conv",
    "capture",
    "functional",
]
