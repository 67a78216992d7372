"""How the influence of one node spreads, recurrence by recurrence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Module
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_grama.analysis._checks import check_count
from torch_grama.analysis.block_trace import encode_input, trace_blocks
from torch_grama.analysis.model_input import GraphLike, ModelInput, evaluation_mode, read_input

# Up to this many channels of a node are perturbed one by one; beyond, in random directions.
_EXACT_CHANNELS = 32

# Nodes and edges of the copies of a graph that are run at once.
_CHUNK_SIZE = 2**15


def influence_spread(
    model: Module,
    data: GraphLike | ModelInput,
    source: int | Sequence[int],
    *,
    num_probes: int | None = None,
    seed: int = 0,
) -> Tensor:
    r"""How strongly the state of every node depends on the input of one node, after each recurrence

    .. math::
        s_{t v} = \left\| \frac{\partial \mathbf{f}_v^{(t)}}{\partial \mathbf{x}_u} \right\|_F

    where :math:`u` is the source. Row 0 is the newest state that the first block is given, then
    follow the :math:`R` recurrences of each of :math:`S` blocks, with the states as a block hands
    them on. With a message-passing backbone influence travels one hop a recurrence; what is seen
    further away came through the coefficients, which depend on all nodes of a graph.

    The derivatives are taken in forward mode: one run of the model gives the response of all nodes
    at all recurrences to a change of one input channel. Small graphs are copied, so that many
    channels and sources go through in one run.

    Args:
        model (Module): A GRAMA model, or a module that holds one and is called alike.
        data (ModelInput or Data): One graph.
        source (int or sequence of int): The node, or several.
        num_probes (int, optional): Number of random directions in which the input of the source is
            changed, for an unbiased estimate of :math:`s^2`; :obj:`None` changes each channel by
            itself, which is exact, for up to 32 channels. (default: :obj:`None`)
        seed (int, optional): Seed of the directions. (default: :obj:`0`)

    Shapes:
        - **output:** :math:`(1 + S R, N)`, or :math:`(K, 1 + S R, N)` for :math:`K` sources

    Returns:
        Tensor: The norms, in float64.

    Raises:
        ValueError: If there is no GRAMA model inside, if there are several graphs, if a source is
            no node of the graph, or if the backbone has no forward-mode derivative.

    Example:
        >>> from torch_grama.nn import GRAMA
        >>> path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> model = GRAMA(3, 8, 2, seq_len=2, num_blocks=1, coefficients="naive")
        >>> spread = influence_spread(model, ModelInput(torch.randn(5, 3), path), source=0)
        >>> (spread > 0).int()
        tensor([[1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0],
                [1, 1, 1, 0, 0]], dtype=torch.int32)
    """
    if num_probes is not None:
        check_count("num_probes", num_probes, minimum=1)
    sources = [source] if isinstance(source, int) else list(source)
    with evaluation_mode(model):
        copier = _Copier(model, read_input(data), sources)
        spread = copier.spread(num_probes, seed)
    return spread[0] if isinstance(source, int) else spread


class _Copier:
    r"""Runs a model on copies of one graph, each with the input of one node changed."""

    def __init__(self, model: Module, inputs: ModelInput, sources: Sequence[int]) -> None:
        self.model, self.sources = model, sources
        self.encoded = encode_input(model, inputs)
        self.num_nodes = self.encoded.num_nodes
        if self.encoded.batch is not None and bool((self.encoded.batch > 0).any()):
            raise ValueError(
                "Expected one graph (got a batch of several); pass one of ModelInput.split()"
            )
        if not sources:
            raise ValueError("Expected at least one 'source' (got none)")
        wrong = [node for node in sources if not 0 <= node < self.num_nodes]
        if wrong:
            raise ValueError(
                f"Expected 'source' to be a node between 0 and {self.num_nodes - 1} "
                f"(got {wrong[0]})"
            )
        size = max(1, self.num_nodes + self.encoded.edge_index.size(1))
        self.num_copies = max(1, _CHUNK_SIZE // size)

    def spread(self, num_probes: int | None, seed: int) -> Tensor:
        r"""The norms ``[K, T, N]``."""
        directions = self._directions(num_probes, seed)  # [P, *channels]
        jobs = [(k, probe) for k in range(len(self.sources)) for probe in directions]
        squares: Tensor | None = None
        for start in range(0, len(jobs), self.num_copies):
            part = jobs[start : start + self.num_copies]
            found = self._respond([self.sources[k] for k, _ in part], [p for _, p in part])
            if squares is None:
                squares = found.new_zeros(len(self.sources), *found.shape[1:])
            squares.index_add_(0, torch.tensor([k for k, _ in part], device=found.device), found)
        assert squares is not None
        exact = num_probes is None and len(directions) == directions[0].numel()
        return (squares if exact else squares / len(directions)).sqrt()

    def _directions(self, num_probes: int | None, seed: int) -> Tensor:
        x = self.encoded.x
        shape = x.shape[1:]
        channels = shape.numel()
        if num_probes is None and channels <= _EXACT_CHANNELS:
            return torch.eye(channels, dtype=x.dtype, device=x.device).view(channels, *shape)
        count = num_probes or _EXACT_CHANNELS
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(2, (count, channels), generator=generator) * 2 - 1
        return signs.to(x).view(count, *shape)

    def _respond(self, sources: Sequence[int], probes: Sequence[Tensor]) -> Tensor:
        r"""Squared responses ``[C, T, N]`` of the states to one change in each copy."""
        copies = self._copy(len(sources))
        tangent = torch.zeros_like(copies.x)
        for index, (node, probe) in enumerate(zip(sources, probes, strict=True)):
            tangent[index * self.num_nodes + node] = probe
        rows = []
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            _plain_attention(),
            forward_ad.dual_level(),
        ):
            dual = forward_ad.make_dual(copies.x.clone(), tangent)
            try:
                traces = trace_blocks(self.model, replace(copies, x=dual))
            except (NotImplementedError, RuntimeError) as error:
                if "forward AD" not in str(error) and "jvp" not in str(error):
                    raise
                raise ValueError(
                    "Expected a backbone with forward-mode derivatives (got one with an operation "
                    "that has none); influence_by_distance does without"
                ) from error
            for states in [traces[0].given[-1:], *(trace.states for trace in traces)]:
                response = forward_ad.unpack_dual(states).tangent
                response = torch.zeros_like(states) if response is None else response
                rows.append(response.double().square().sum(-1))
        # [T, C N] -> [C, T, N]
        squares = torch.cat(rows)
        return squares.view(len(squares), len(sources), self.num_nodes).transpose(0, 1)

    def _copy(self, count: int) -> ModelInput:
        whole = self.encoded
        edges = whole.edge_index.size(1)
        device = whole.edge_index.device
        offset = torch.arange(count, device=device).repeat_interleave(edges) * self.num_nodes
        return ModelInput(
            torch.cat([whole.x] * count),
            whole.edge_index.repeat(1, count) + offset,
            _repeat(whole.edge_weight, count),
            _repeat(whole.edge_attr, count),
            torch.arange(count, device=device).repeat_interleave(self.num_nodes),
            count,
            _repeat(whole.pe, count),
        )


@contextmanager
def _plain_attention() -> Iterator[None]:
    r"""Fused attention kernels have no forward-mode derivative; the plain formula has."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def _repeat(values: Tensor | None, count: int) -> Tensor | None:
    return None if values is None else torch.cat([values] * count)
