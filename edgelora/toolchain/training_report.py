"""What a training run says about itself: `report.json` and the card `README.md`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

REPORT_FILE = "report.json"
CARD_FILE = "README.md"


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

    def save(self, directory: Path) -> None:
        """Writes `report.json`."""
        text = json.dumps(asdict(self), indent=2) + "\n"
        (directory / REPORT_FILE).write_text(text, encoding="utf-8")

    def loss_reduction(self) -> float | None:
        """Share by which the adapter lowers the held-out loss; None without test data."""
        if not self.held_out_loss:
            return None
        return 1 - self.held_out_loss["adapter"] / self.held_out_loss["base"]


def write_card(report: TrainingReport, directory: Path, description: str) -> None:
    """Writes the card: what the adapter is for, how it was made, what was measured."""
    adapter, data, run = report.adapter, report.data, report.run
    share = (
        "unknown"
        if data.data_share is None
        else f"{100 * data.data_share:.1e} % of the base's {data.base_training_tokens:.0e} tokens"
    )
    lines = [
        "---",
        f"base_model: {adapter.base_model}",
        "library_name: peft",
        "license: apache-2.0",
        "---",
        "",
        f"# {adapter.name}",
        "",
        description,
        "",
        "| | |",
        "|---|---|",
        f"| base model | {adapter.base_model} ({adapter.base_digest[:19]}...) |",
        f"| LoRA | r={adapter.r}, alpha={adapter.alpha:g}"
        f"{', rsLoRA' if adapter.use_rslora else ''}, on {', '.join(adapter.targets)} |",
        f"| size | {adapter.parameters} parameters, {adapter.weights_bytes / 1e6:.2f} MB (fp16) |",
        f"| training data | {data.train_examples} examples, {data.train_tokens} tokens, "
        f"{data.train_loss_tokens} of them written by the assistant; {share} |",
        f"| training | {run.epochs:g} epochs, {run.steps} steps, peak learning rate "
        f"{run.learning_rate:g} ({run.schedule}), seed {run.seed}, {run.precision}, "
        f"{run.wall_seconds:.0f} s on {run.threads} threads |",
    ]
    if report.held_out_loss:
        lines.append(
            f"| held-out loss ({data.test_examples} examples) | base "
            f"{report.held_out_loss['base']:.3f}, adapter {report.held_out_loss['adapter']:.3f} "
            f"({100 * (report.loss_reduction() or 0):.0f} % lower) |"
        )
    for name, value in report.task.items():
        lines.append(f"| {name.replace('_', ' ')} | {100 * value:.1f} % |")
    lines += ["", "The whole record is in `report.json`.", ""]
    (directory / CARD_FILE).write_text("\n".join(lines), encoding="utf-8")
