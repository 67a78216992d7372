"""Models made for series on the nodes of a graph."""

from __future__ import annotations

from functools import partial

from torch_grama.baselines.temporal_gcn import A3TGCN, TGCN
from torch_grama.experiments.model_entry import ModelEntry

FAMILY = "forecasting"
_entry = partial(ModelEntry, family=FAMILY)

ENTRIES: dict[str, ModelEntry] = {
    "a3t-gcn": _entry(
        build=A3TGCN,
        equation="y = W relu(sum_t softmax(a)_t H_t),  H_t the state of T-GCN at lag t",
        reference=(
            "Bai et al., A3T-GCN: Attention Temporal Graph Convolutional Network for Traffic "
            "Forecasting, 2021 (arXiv:2006.11583)"
        ),
        cost="L (N F^2 + E C)",
        source="torch_grama",
        takes_sequence=True,
        departures=(
            "As in PyTorch Geometric Temporal, which made the quoted numbers: every state starts "
            "from zero (carry_state=true passes it on, as the paper does) and the attention is one "
            "learned weight a lag, where the paper has a small network.",
            "Needs seq_len, the number of lags.",
        ),
    ),
    "t-gcn": _entry(
        build=TGCN,
        equation="H_t = GRU(A X_t U, H_(t-1)),  y = W relu(H_L)",
        reference=(
            "Zhao et al., T-GCN: A Temporal Graph Convolutional Network for Traffic Prediction, "
            "2019 (arXiv:1811.05320)"
        ),
        cost="L (N F^2 + E C)",
        source="torch_grama",
        takes_sequence=True,
        departures=(
            "One graph convolution before each gate, as in PyTorch Geometric Temporal; the paper "
            "has two.",
            "Each window starts from a zero state and is read in time; that library's example "
            "carries the state from window to window and reads the lags as channels.",
        ),
    ),
}
