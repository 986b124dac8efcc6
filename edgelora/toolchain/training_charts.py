"""The pictures of a training run: SVG, the same bytes for the same figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from edgelora.toolchain.picture_style import STYLE
from edgelora.toolchain.training_report import TrainingReport

LOSS, QUALITY, ENERGY = "loss.svg", "quality.svg", "energy.svg"
_COLOURS = ("#c2410c", "#1d4ed8", "#475569")


def draw_training(report: TrainingReport, directory: Path) -> list[str]:
    """Draws the loss, the quality by rank where it was measured, and the singular values' energy.

    Returns the names of the files.
    """
    names = []
    with mpl.rc_context(STYLE):
        names.append(_draw(directory / LOSS, lambda axes: _loss(axes, report)))
        if any(one.held_out_loss is not None for one in report.ranks):
            names.append(_draw(directory / QUALITY, lambda axes: _quality(axes, report)))
        names.append(_draw(directory / ENERGY, lambda axes: _energy(axes, report)))
    return names


def _draw(target: Path, fill: Any) -> str:
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    fill(figure.subplots())
    figure.savefig(target, format="svg", metadata={"Date": None})
    return target.name


def _loss(axes: Any, report: TrainingReport) -> None:
    run = report.run
    axes.plot(*zip(*run.loss_curve, strict=True), color=_COLOURS[0], label="training")
    if run.held_out_curve:
        points = zip(*run.held_out_curve, strict=True)
        axes.plot(*points, color=_COLOURS[1], marker="o", label="held out")
    elif report.held_out_loss:
        last = report.held_out_loss["adapter"]
        axes.axhline(last, color=_COLOURS[1], linestyle="--", label="held out, at the end")
    axes.set(xlabel="step", ylabel="loss, nats a token", ylim=(0, None))
    axes.legend(frameon=False)


def _quality(axes: Any, report: TrainingReport) -> None:
    names = [one.name for one in report.ranks]
    losses = [one.held_out_loss for one in report.ranks]
    axes.bar(names, losses, color=_COLOURS[1], width=0.5)
    for index, loss in enumerate(losses):
        axes.annotate(f"{loss:.3f}", (index, loss), ha="center", va="bottom")
    axes.set(ylabel="held-out loss, nats a token", ylim=(0, None))


def _energy(axes: Any, report: TrainingReport) -> None:
    for index, (kind, shares) in enumerate(report.energy.items()):
        axes.plot(range(1, len(shares) + 1), shares, label=kind, color=f"C{index}")
    axes.set(xlabel="rank", ylabel="share of the update's energy", ylim=(0, 1.02))
    axes.legend(frameon=False)
