"""The pictures of a classifier's training: SVG, the same bytes for the same figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgelora.toolchain.classification.report import ClassifierReport
from edgelora.toolchain.picture_style import STYLE

LOSS, SCOPE = "loss.svg", "scope.svg"
_TRAINING, _VALIDATION = "#c2410c", "#1d4ed8"


def draw_classifier(report: ClassifierReport, directory: Path) -> list[str]:
    """Draws the loss and, each where it was measured, what other thresholds would give.

    Returns the names of the files.
    """
    # Imported only now: the benchmark that trains has it, the processes it measures have not.
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        names = []
        if report.loss_curve:
            names.append(_draw(directory / LOSS, _loss, report))
        if report.trade_off:
            names.append(_draw(directory / SCOPE, _scope, report))
    return names


def _draw(target: Path, fill: Any, report: ClassifierReport) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    fill(figure.subplots(), report)
    figure.savefig(target, format="svg", metadata={"Date": None})
    return target.name


def _loss(axes: Any, report: ClassifierReport) -> None:
    axes.plot(*zip(*report.loss_curve, strict=True), color=_TRAINING)
    axes.set(xlabel="step", ylabel="training loss, nats a text", ylim=(0, None))


def _scope(axes: Any, report: ClassifierReport) -> None:
    in_scope, found = zip(*report.trade_off, strict=True)
    axes.plot(found, in_scope, color=_VALIDATION, label="other thresholds")
    chosen = report.measures["validation"]
    axes.plot(
        [chosen["out_of_scope_recall"]],
        [chosen["in_scope"]],
        "o",
        color=_TRAINING,
        label="the one chosen",
    )
    axes.set(
        xlabel="found of the validation texts without a label",
        ylabel="right in scope",
        xlim=(0, 1.02),
        ylim=(max(0, chosen["in_scope"] - 0.2), 1),
    )
    axes.legend(frameon=False)
