"""The report of a calibrated rounding: JSON, Markdown and pictures beside the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from edgelora.toolchain.card_words import plain_line
from edgelora.toolchain.quantisation.evaluation import Comparison

JSON_FILE = "quantisation.json"
MARKDOWN_FILE = "quantisation.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductReport:
    """One product."""

    name: str
    num_weights: int
    kind: str
    bits_per_weight: float
    divergence_at_4_bits: float
    """Nats a token when only this product is plainly rounded to 4 bit, summed over its matrices."""
    is_exact: bool
    """Kept as the source has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisationReport:
    """All there is to say of one rounding."""

    model_digest: str
    calibration: list[dict[str, object]]
    """Of each text: name, sha256, windows, tokens."""
    settings: dict[str, object]
    versions: dict[str, str]
    seconds: float
    peak_memory_bytes: int
    """Of the process, resident."""
    num_weights: int
    num_bytes: int
    size_budget_bytes: int | None
    predicted_divergence: float
    sensitivity: Mapping[str, float]
    """KL divergence in nats a token when one matrix alone is 4-bit, by Hugging Face name."""
    sensitivity_tokens: int
    products: list[ProductReport]
    held_out: Comparison

    @property
    def bits_per_weight(self) -> float:
        """Of all matrices together."""
        return 8 * self.num_bytes / self.num_weights

    def document(self) -> dict[str, object]:
        """What the JSON file holds."""
        return {
            **asdict(self),
            "bits_per_weight": round(self.bits_per_weight, 4),
            "times_smaller_than_16_bits": round(16 / self.bits_per_weight, 3),
        }


def report_files(report: QuantisationReport) -> dict[str, str]:
    """The files of a report: name -> text. There are no pictures without matplotlib."""
    pictures: dict[str, str] = {}
    if find_spec("matplotlib") is not None:
        from edgelora.toolchain.quantisation.plots import draw

        pictures = draw(report)
    return {
        JSON_FILE: json.dumps(report.document(), indent=2) + "\n",
        MARKDOWN_FILE: _markdown(report, list(pictures)),
        **pictures,
    }


def _markdown(report: QuantisationReport, pictures: list[str]) -> str:
    held_out = report.held_out
    rise = held_out.perplexity_after - held_out.perplexity_before
    lines = [
        "# Calibrated rounding",
        "",
        f"{report.num_weights:,} weights in {report.num_bytes:,} bytes: "
        f"{report.bits_per_weight:.2f} bits each, {16 / report.bits_per_weight:.2f} times smaller "
        "than 16 bits.",
        "",
        "| held out | before | after |",
        "|---|---|---|",
        f"| perplexity ({held_out.tokens:,} tokens) | {held_out.perplexity_before:.3f} | "
        f"{held_out.perplexity_after:.3f} ({rise:+.3f}) |",
        f"| KL divergence, nats | 0 | {held_out.divergence:.5f} |",
        "",
        "The predictions of the fp32 source are compared with those of the rounded weights, on "
        "windows of the calibration texts that were not calibrated on.",
        "",
        "## Calibration",
        "",
        "| text | windows | tokens each | sha256 |",
        "|---|---|---|---|",
        *(
            f"| {plain_line(str(one['name']))} | {one['windows']} | {one['tokens']} "
            f"| `{one['sha256']}` |"
            for one in report.calibration
        ),
        "",
        "## Products",
        "",
        f"Sensitivity is the KL divergence when only this product is 4-bit, over "
        f"{report.sensitivity_tokens} tokens.",
        "",
        "| product | weights | kind | bits | sensitivity |",
        "|---|---|---|---|---|",
        *(
            f"| {one.name} | {one.num_weights:,} | {one.kind}"
            f"{' (as it is)' if one.is_exact else ''} | {one.bits_per_weight} "
            f"| {one.divergence_at_4_bits:.6f} |"
            for one in report.products
        ),
        "",
        "## How it was made",
        "",
        f"- source: `{report.model_digest}`",
        *(f"- {name}: {plain_line(str(value))}" for name, value in report.settings.items()),
        *(f"- {name} {version}" for name, version in report.versions.items()),
        f"- time: {report.seconds:.0f} s, peak memory: {report.peak_memory_bytes / 1e9:.2f} GB",
        "",
    ]
    for picture in pictures:
        lines += [f"![{picture.removesuffix('.svg')}]({picture})", ""]
    return "\n".join(lines)
