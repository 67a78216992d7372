"""Learned encodings of the eigenvectors of the Laplacian."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Linear, Module, ReLU, Sequential, TransformerEncoderLayer
from torch_geometric.nn.inits import reset

from torch_grama.baselines.global_attention import check_heads, reset_multihead
from torch_grama.nn.arguments import choose

METHODS = {"deep_set": "sum of an MLP", "transformer": "sum of a transformer"}


class LaplaceEncoder(Module):
    r"""Encodes the first eigenvectors and eigenvalues of a graph's Laplacian, as `"Rethinking
    Graph Transformers with Spectral Attention" <https://arxiv.org/abs/2106.03893>`_ does with a
    transformer over the frequencies and `"Recipe for a General, Powerful, Scalable Graph
    Transformer" <https://arxiv.org/abs/2205.12454>`_ with an MLP for each of them:

    .. math::
        \mathbf{p}_i = \sum_k \mathrm{ReLU}(\mathbf{W}_2 \, \mathrm{ReLU}(\mathbf{W}_1
        [v_{k,i}, \lambda_k])) \qquad \text{or} \qquad
        \mathbf{p}_i = \sum_k \mathrm{Transformer} \left( \{ \mathbf{W} [v_{k,i}, \lambda_k] \}_k
        \right)_k.

    An eigenvector is known up to its sign: in training, each frequency of a batch gets a random
    one.

    Args:
        channels (int): Width of the encoding.
        method (str, optional): ``"deep_set"`` or ``"transformer"``. (default: :obj:`"deep_set"`)
        heads (int, optional): Attention heads of the transformer. (default: :obj:`4`)
        num_layers (int, optional): Layers of the transformer. (default: :obj:`2`)
        feedforward_channels (int, optional): Inner width of its feed-forward part.
            (default: :obj:`2048`)

    Shapes:
        - **input:** eigenvectors :math:`(N, K)` and, for each node, the eigenvalues
          :math:`(N, K)` of its graph; NaN for frequencies that a small graph does not have
        - **output:** :math:`(N, F)`
    """

    def __init__(
        self,
        channels: int,
        method: str = "deep_set",
        heads: int = 4,
        num_layers: int = 2,
        feedforward_channels: int = 2048,
    ) -> None:
        super().__init__()
        choose("method", method, METHODS)
        self.method = method
        self.channels = channels
        if method == "deep_set":
            self.lin = Sequential(
                Linear(2, 2 * channels), ReLU(), Linear(2 * channels, channels), ReLU()
            )
            self.layers = Sequential()
        else:
            check_heads(channels, heads)
            self.lin = Sequential(Linear(2, channels))
            self.layers = Sequential(
                *(
                    TransformerEncoderLayer(channels, heads, feedforward_channels, batch_first=True)
                    for _ in range(num_layers)
                )
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Resets all learnable parameters of the module."""
        reset(self.lin)
        for layer in self.layers:
            assert isinstance(layer, TransformerEncoderLayer)
            reset(layer)
            reset_multihead(layer.self_attn)

    def forward(self, vectors: Tensor, values: Tensor) -> Tensor:
        r"""Returns one encoding a node."""
        if vectors.dim() != 2 or vectors.size() != values.size():
            raise ValueError(
                f"Expected eigenvectors and eigenvalues of one shape [num_nodes, frequencies] "
                f"(got {list(vectors.size())} and {list(values.size())})"
            )
        is_missing = torch.isnan(vectors) | torch.isnan(values)
        if self.training:
            sign = 1 - 2 * torch.randint(2, (vectors.size(1),), device=vectors.device)
            vectors = vectors * sign.to(vectors.dtype)
        # [N, K] and [N, K] -> [N, K, 2] -> [N, K, F]
        pairs = torch.stack([vectors, values], dim=-1).masked_fill(is_missing.unsqueeze(-1), 0.0)
        encoded: Tensor = self.lin(pairs)
        for layer in self.layers:
            encoded = layer(encoded, src_key_padding_mask=is_missing)
        return encoded.masked_fill(is_missing.unsqueeze(-1), 0.0).sum(dim=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.channels}, method={self.method!r})"
