"""How long, on what and how carefully a model is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

from torch_grama.nn.arguments import check_count, check_number, choose

PRECISIONS = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed"}


@dataclass(frozen=True)
class TrainerSettings:
    r"""How a model is trained.

    Args:
        max_epochs (int, optional): Most epochs. (default: :obj:`300`)
        min_epochs (int, optional): Fewest epochs, whatever validation says. (default: :obj:`1`)
        patience (int, optional): Epochs without a better validation metric after which the run
            stops; :obj:`None` for never. (default: :obj:`100`)
        batch_size (int, optional): Graphs per step, or starting nodes per step for ``"subgraphs"``,
            over all devices together. (default: :obj:`32`)
        accelerator (str, optional): ``"auto"`` (a CUDA device where there is one), ``"cpu"``,
            ``"gpu"`` or ``"cuda"``. (default: :obj:`"auto"`)
        devices (int, optional): Processes, one per device. (default: :obj:`1`)
        precision (str, optional): ``"32"``, ``"bf16"`` or ``"16"`` (mixed). (default: :obj:`"32"`)
        gradient_clip (float, optional): Largest norm of the gradient; :obj:`None` for no limit.
            (default: :obj:`None`)
        check_val_every (int, optional): Epochs between validations. (default: :obj:`1`)
        loader (str, optional): ``"full"`` (the whole graph in every step), ``"graphs"``
            (mini-batches of graphs), ``"subgraphs"`` (mini-batches of subgraphs of one large graph)
            or ``"auto"`` (the first for a node task on one graph, otherwise the second).
            (default: :obj:`"auto"`)
        shuffle (bool, optional): Whether the order of graphs is drawn anew each epoch;
            :obj:`None` for always but in forecasts, which keep the order of time.
            (default: :obj:`None`)
        num_workers (int, optional): Processes that prepare mini-batches of graphs.
            (default: :obj:`0`)
        num_neighbors (tuple of int, optional): Neighbours drawn per node and hop for
            ``"subgraphs"``; -1 for all. (default: :obj:`(10, 10)`)
        subgraph_sampler (str, optional): ``"torch"`` (plain), ``"pyg"`` (needs pyg-lib or
            torch-sparse) or ``"auto"`` (the latter where it can be). (default: :obj:`"auto"`)
        subgraph_evaluation (str, optional): How a large graph is validated and tested: ``"full"``
            or ``"subgraphs"``. (default: :obj:`"full"`)
        seed (int, optional): Seed of order, dropout and every other draw. (default: :obj:`0`)
        deterministic (bool, optional): Whether operations without a deterministic form are errors.
            (default: :obj:`False`)
        capture (bool or str, optional): Whether steps are recorded as CUDA graphs and replayed,
            which saves the time that a GPU waits for Python: ``"auto"`` for where it is possible
            and pays. (default: :obj:`"auto"`)
        save_every (float, optional): Least seconds between two checkpoints; the last is always
            written. (default: :obj:`30.0`)
    """

    max_epochs: int = 300
    min_epochs: int = 1
    patience: int | None = 100
    batch_size: int = 32
    accelerator: Literal["auto", "cpu", "gpu", "cuda"] = "auto"
    devices: int = 1
    precision: Literal["32", "bf16", "16"] = "32"
    gradient_clip: float | None = None
    check_val_every: int = 1
    loader: Literal["auto", "full", "graphs", "subgraphs"] = "auto"
    shuffle: bool | None = None
    num_workers: int = 0
    num_neighbors: tuple[int, ...] = (10, 10)
    subgraph_sampler: Literal["auto", "torch", "pyg"] = "auto"
    subgraph_evaluation: Literal["full", "subgraphs"] = "full"
    seed: int = 0
    deterministic: bool = False
    capture: bool | Literal["auto"] = "auto"
    save_every: float = 30.0

    def __post_init__(self) -> None:
        words = ("accelerator", "precision", "loader", "subgraph_sampler", "subgraph_evaluation")
        check_words("trainer", self, *words)
        for name in ("max_epochs", "batch_size", "devices", "check_val_every"):
            check_count(f"trainer.{name}", getattr(self, name))
        for name in ("min_epochs", "num_workers", "seed"):
            check_count(f"trainer.{name}", getattr(self, name), least=0)
        if self.patience is not None:
            check_count("trainer.patience", self.patience)
        if self.gradient_clip is not None:
            check_number("trainer.gradient_clip", self.gradient_clip, above=0.0)
        check_number("trainer.save_every", self.save_every)
        if self.min_epochs > self.max_epochs:
            raise ValueError(
                f"Expected 'trainer.min_epochs' to be at most 'trainer.max_epochs' (got "
                f"{self.min_epochs} and {self.max_epochs})"
            )
        if self.check_val_every > self.max_epochs:
            raise ValueError(
                f"Expected 'trainer.check_val_every' to be at most 'trainer.max_epochs', or no "
                f"epoch is validated (got {self.check_val_every} and {self.max_epochs})"
            )
        if self.patience is not None and self.patience < self.check_val_every:
            raise ValueError(
                f"Expected 'trainer.patience' to be at least 'trainer.check_val_every', or the run "
                f"ends before it is validated (got {self.patience} and {self.check_val_every})"
            )
        if not self.num_neighbors or any(
            isinstance(count, bool) or count == 0 or count < -1 for count in self.num_neighbors
        ):
            raise ValueError(
                "Expected 'trainer.num_neighbors' to be one whole number per hop, each positive or "
                f"-1 for all (got {self.num_neighbors})"
            )
        if self.capture not in (True, False, "auto"):
            raise ValueError(
                f"Expected 'trainer.capture' to be true, false or 'auto' (got {self.capture!r})"
            )
        if self.capture is True and self.accelerator == "cpu":
            raise ValueError(
                "Expected 'trainer.capture' only on a CUDA device (got accelerator='cpu'); set it "
                "to 'auto'"
            )


def check_words(section: str, settings: object, *names: str) -> None:
    r"""Raises where a field of settings is none of the words that its type lists."""
    kinds = get_type_hints(type(settings))
    for name in names:
        words = dict.fromkeys(get_args(kinds[name]))
        choose(f"{section}.{name}", getattr(settings, name), words)
