"""What a training run says about itself: the record `report.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

REPORT_FILE = "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFacts:
    """What was trained."""

    name: str
    base_model: str
    base_digest: str
    r: int
    alpha: float
    targets: list[str]
    dropout: float
    use_rslora: bool
    parameters: int
    weights_bytes: int
    weights_sha256: str
    licence: str
    """SPDX identifier, or `unknown`."""
    permissions: list[str]
    """What it may be used for, as declared, such as `commands: none`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """One version of the adapter, and how good it is."""

    name: str
    directory: str | None
    """Below the result, `.` for itself; None for what was measured and not kept."""
    rank: int
    """The largest of any module."""
    origin: str
    """`trained`, `cut` or `allocated`."""
    parameters: int
    weights_bytes: int
    weights_sha256: str
    relative_error: float | None
    """Norm of what cutting took from the updates, over their norm."""
    held_out_loss: float | None
    task: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """What it was trained on."""

    train_examples: int
    train_tokens: int
    train_loss_tokens: int
    """Tokens the assistant wrote: only they carry loss."""
    train_sha256: str
    test_examples: int
    test_loss_tokens: int
    test_sha256: str | None
    base_training_tokens: int | None
    data_share: float | None
    """train_tokens / base_training_tokens."""
    held_out_share: float = 0.0
    """Share of the training file that was kept as test data; 0 with a file of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """How it was trained."""

    epochs: float
    steps: int
    learning_rate: float
    schedule: str
    warmup_share: float
    weight_decay: float
    max_grad_norm: float
    batch_tokens: int
    seed: int
    precision: str
    threads: int
    wall_seconds: float
    loss_curve: list[tuple[int, float]]
    """(step, mean loss in nats since the entry before)."""
    held_out_curve: list[tuple[int, float]]
    """(step, held-out loss in nats); empty without early stopping."""
    device: str
    """What it computed on, for people."""
    two_core_seconds: float | None
    """The same steps on two processor threads of this machine: measured when it used two, else
    scaled by their number; None where CUDA computed."""
    gradient_checkpointing: bool
    early_stop: int | None
    stopped_early: bool
    best_step: int | None
    """The step whose state was kept; None for the last."""
    resumed_at: list[int]
    """Steps at which a later process went on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """Everything that `report.json` holds."""

    adapter: AdapterFacts
    data: DataFacts
    run: RunFacts
    held_out_loss: dict[str, float]
    """`base` and `adapter`, mean nats per assistant token in fp32; empty without test data."""
    task: dict[str, float] = field(default_factory=dict)
    """Further measures of the task, for example `base_exact_match` and `adapter_exact_match`."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of the packages that took part."""
    ranks: list[RankFacts] = field(default_factory=list)
    """The adapter itself and its versions, highest rank first; last what was only measured."""
    energy: dict[str, list[float]] = field(default_factory=dict)
    """As trained: share of the update's energy that each rank from 1 keeps, by kind of module."""

    def save(self, directory: Path) -> None:
        """Writes `report.json`."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        (directory / REPORT_FILE).write_text(text, encoding="utf-8")

    def loss_reduction(self) -> float | None:
        """Share by which the adapter lowers the held-out loss; None without test data."""
        if not self.held_out_loss:
            return None
        return 1 - self.held_out_loss["adapter"] / self.held_out_loss["base"]
