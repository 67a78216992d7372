"""The systems that GRAMA is compared with, all called alike."""

from torch_grama.baselines.exphormer import Exphormer
from torch_grama.baselines.gmn import GMN
from torch_grama.baselines.goat import GOAT
from torch_grama.baselines.gps import GPS
from torch_grama.baselines.gps_mamba import GPSMamba
from torch_grama.baselines.graph_head import GraphHead
from torch_grama.baselines.graph_mamba import GraphMamba
from torch_grama.baselines.gt import GT
from torch_grama.baselines.laplace_encoder import LaplaceEncoder
from torch_grama.baselines.mamba_block import BidirectionalMamba, MambaBlock
from torch_grama.baselines.nagphormer import NAGphormer
from torch_grama.baselines.san import SAN
from torch_grama.baselines.selective_scan import selective_scan, selective_scan_reference
from torch_grama.baselines.transformer import Transformer

__all__ = [
    "GMN",
    "GOAT",
    "GPS",
    "GT",
    "SAN",
    "BidirectionalMamba",
    "Exphormer",
    "GPSMamba",
    "GraphHead",
    "GraphMamba",
    "LaplaceEncoder",
    "MambaBlock",
    "NAGphormer",
    "Transformer",
    "selective_scan",
    "selective_scan_reference",
]
