"""Generated inputs of the benchmark scenes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Nodes, undirected edges, features and classes of Roman-empire, a long chain with shortcuts.
ROMAN_EMPIRE = (22_662, 32_927, 300, 18)


@dataclass(frozen=True)
class Problem:
    """Features, edges and labels; ``batch`` is None for one graph."""

    x: Tensor
    edge_index: Tensor
    y: Tensor
    num_classes: int
    batch: Tensor | None = None
    batch_size: int | None = None

    def to(self, device: torch.device) -> Problem:
        batch = None if self.batch is None else self.batch.to(device)
        return Problem(
            self.x.to(device),
            self.edge_index.to(device),
            self.y.to(device),
            self.num_classes,
            batch,
            self.batch_size,
        )


def chain(num_nodes: int, num_edges: int, num_features: int, num_classes: int) -> Problem:
    """A chain with random shortcuts up to ``num_edges`` undirected edges."""
    generator = torch.Generator().manual_seed(0)
    step = torch.arange(num_nodes - 1)
    shortcuts = torch.randint(num_nodes, (2, num_edges - step.numel()), generator=generator)
    edges = torch.cat([torch.stack([step, step + 1]), shortcuts], dim=1)
    return Problem(
        torch.randn(num_nodes, num_features, generator=generator),
        torch.cat([edges, edges.flip(0)], dim=1),
        torch.randint(num_classes, (num_nodes,), generator=generator),
        num_classes,
    )


def molecules(num_graphs: int = 128, mean_nodes: int = 150, num_features: int = 16) -> Problem:
    """A batch of trees with a few rings, about as many nodes and bonds as the peptides have."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(mean_nodes // 2, mean_nodes * 3 // 2, (num_graphs,), generator=generator)
    edges, offset = [], 0
    for size in sizes.tolist():
        node = torch.arange(1, size)
        reach = torch.randint(1, 5, (size - 1,), generator=generator)
        tree = torch.stack([node, (node - reach).clamp(min=0)])
        rings = torch.randint(size, (2, size // 30), generator=generator)
        both = torch.cat([tree, rings], dim=1) + offset
        edges.append(torch.cat([both, both.flip(0)], dim=1))
        offset += size
    return Problem(
        torch.randn(offset, num_features, generator=generator),
        torch.cat(edges, dim=1),
        torch.randint(10, (num_graphs,), generator=generator),
        10,
        torch.arange(num_graphs).repeat_interleave(sizes),
        num_graphs,
    )
