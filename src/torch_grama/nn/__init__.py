"""GRAMA as PyTorch modules."""

from torch_grama.nn import functional
from torch_grama.nn.categorical_encoder import AtomEncoder, BondEncoder, CategoricalEncoder
from torch_grama.nn.coefficients import (
    ARMACoefficients,
    NaiveCoefficients,
    SelectiveCoefficients,
)
from torch_grama.nn.gated_gcn_conv import GatedGCNConv
from torch_grama.nn.gps_layer import GPSLayer
from torch_grama.nn.grama import GRAMA
from torch_grama.nn.grama_block import GRAMABlock
from torch_grama.nn.input_stage import InputStage
from torch_grama.nn.linear_backbone import LinearBackbone, LinearMap
from torch_grama.nn.position_encoder import PositionEncoder
from torch_grama.nn.rooted_gcn_conv import RootedGCNConv
from torch_grama.nn.sequence_embedding import SequenceEmbedding
from torch_grama.nn.standardize import Standardize

__all__ = [
    "GRAMA",
    "ARMACoefficients",
    "AtomEncoder",
    "BondEncoder",
    "CategoricalEncoder",
    "GPSLayer",
    "GRAMABlock",
    "GatedGCNConv",
    "InputStage",
    "LinearBackbone",
    "LinearMap",
    "NaiveCoefficients",
    "PositionEncoder",
    "RootedGCNConv",
    "SelectiveCoefficients",
    "SequenceEmbedding",
    "Standardize",
    "functional",
]
