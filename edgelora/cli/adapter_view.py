"""Adapters as lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgelora.cli.output import printable

_COLUMNS = (
    ("aliases", "<24"),
    ("digest", "<19"),
    ("state", "<18"),
    ("task", "<8"),
    ("rank", ">4"),
    ("MB", ">7"),
    ("on flash", ">8"),
    ("description", ""),
)
"""Fixed, so that a line can be printed before the next one is known."""
_SHORT_DIGEST = 19
"""`sha256:` and 12 digits: enough to tell adapters apart in a table."""
_FORMS = {
    "exact": "the original weights",
    "encoded_3": "encoded at about 3.2 bits",
    "encoded_4": "encoded at about 4.5 bits",
    "encoded_8": "encoded at about 8 bits",
}
_TASKS = {
    "generate": ("generate", "generates text"),
    "classify": ("classify", "classifies text"),
    "encode": ("embed", "embeds text"),
}
"""In a table, and on an adapter's own page."""
_MAX_LABELS = 20
_STAGES = ("remote", "fetch", "check", "decode", "prove")


def list_heading() -> str:
    """Over the lines of `list_line`."""
    return _line([name for name, _ in _COLUMNS])


def list_line(adapter: Mapping[str, Any]) -> str:
    """One adapter, from its `adapter_document`."""
    return _line(
        [
            ", ".join(adapter["aliases"]) or _version_of(adapter) or "-",
            adapter["digest"][:_SHORT_DIGEST],
            _state(adapter),
            _TASKS[_task(adapter)][0],
            str(adapter["rank"]),
            f"{adapter['size_bytes'] / 1e6:.1f}",
            f"{adapter['flash_bytes'] / 1e6:.1f}" if adapter["is_on_flash"] else "-",
            printable(" ".join(adapter["description"].split())),
        ]
    )


def detail_rows(adapter: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Everything about one adapter, from its `adapter_details`, as (field, value)."""
    generations = adapter["generations"]
    rows = [
        ("digest", adapter["digest"]),
        (
            "aliases",
            ", ".join(f"{name} (generation {generations[name]})" for name in sorted(generations)),
        ),
        ("state", _state(adapter)),
        ("task", _TASKS[_task(adapter)][1]),
        *_label_rows(adapter),
        ("description", adapter["description"]),
        *_prompt_rows(adapter["example_prompts"]),
        ("base model", adapter["base_digest"]),
        ("rank, alpha", f"{adapter['rank']}, {adapter['alpha']:g}"),
        ("lower-rank version of", adapter["version_of_digest"]),
        ("target modules", ", ".join(adapter["target_modules"])),
        ("parameters", f"{adapter['num_parameters']:,}"),
        ("original size", _mb(adapter["size_bytes"])),
        ("on flash", _on_flash(adapter)),
        *_certificate_rows(adapter["certificate"]),
        ("certificate", adapter["certificate_digest"]),
        ("source", adapter["source"]),
        ("replaced", adapter["parent_digest"]),
        ("registered at", adapter["registered_at"]),
        *_usage_rows(adapter["usage"]),
    ]
    return [(name, value or None) for name, value in rows]


def _task(adapter: Mapping[str, Any]) -> str:
    return "classify" if adapter["is_classifier"] else str(adapter["task"])


def _label_rows(adapter: Mapping[str, Any]) -> list[tuple[str, str]]:
    labels = adapter["labels"]
    if not labels:
        return []
    named = ", ".join(labels[:_MAX_LABELS])
    if len(labels) > _MAX_LABELS:
        named += f" and {len(labels) - _MAX_LABELS} more"
    scope = "can be told" if adapter["knows_out_of_scope"] else "can not be told"
    return [(f"labels ({len(labels)})", named), ("out of scope", scope)]


def _prompt_rows(prompts: Sequence[str]) -> list[tuple[str, str]]:
    return [
        ("" if index else "example prompts", " ".join(prompt.split()))
        for index, prompt in enumerate(prompts)
    ]


def _certificate_rows(certificate: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if certificate is None:
        return []
    document = certificate["document"] or {}
    form = _FORMS.get(certificate["form"], certificate["form"])
    if certificate["bits_per_parameter"]:
        form += f" ({certificate['bits_per_parameter']:.2f} a parameter, scales included)"
    elif document.get("why_exact"):
        form += f": {document['why_exact']}"
    rows = [("serving form", form)]
    if certificate["mean_kl"] is not None:
        rows.append(
            (
                "measured loss",
                f"mean KL {certificate['mean_kl']:.2g} nats, largest {certificate['max_kl']:.2g}; "
                f"same likeliest token {_percent(certificate['top1_agreement'])}",
            )
        )
    elif certificate["form"] != "exact":
        rows.append(("measured loss", document.get("why_not_measured") or "not measured"))
    task = (document.get("measurement") or {}).get("task")
    if task is not None:
        before = task["tokens_right"]
        after = before - task["tokens_lost"] + task["tokens_gained"]
        rows.append(
            (
                "its own probe",
                f"{before} of {task['divergence']['positions']} tokens right before encoding, "
                f"{after} after; whole answers {_percent(task['before'])}, "
                f"{_percent(task['after'])} after",
            )
        )
    return rows


def _usage_rows(usage: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if usage is None:
        return []
    rows = [
        (
            "requests found it",
            f"in memory {usage['num_memory_hits']}, on flash {usage['num_flash_hits']}, "
            f"at its remote {usage['num_remote_hits']}",
        ),
        (
            "loads",
            f"{usage['num_loads']}, of these {usage['num_warm_ups']} ahead of use, "
            f"{usage['num_wasted_warm_ups']} of those for nothing",
        ),
    ]
    if "last_load" in usage:
        rows.append(("last load", stages_text(usage["last_load"])))
    rows.append(
        (
            "bytes moved",
            f"{_mb(usage['flash_bytes_read'])} from flash, "
            f"{_mb(usage['remote_bytes_read'])} from its remote",
        )
    )
    return rows


def stages_text(stages: Mapping[str, float], num_loads: int = 1) -> str:
    """The milliseconds of each stage of a load, the mean of several."""
    return ", ".join(f"{name} {stages[f'{name}_s'] * 1e3 / num_loads:.1f} ms" for name in _STAGES)


def _version_of(adapter: Mapping[str, Any]) -> str:
    """What a lower-rank version is shown as, for want of a name."""
    digest = adapter["version_of_digest"]
    return f"version of {digest.removeprefix('sha256:')[:12]}" if digest else ""


def _state(adapter: Mapping[str, Any]) -> str:
    return f"{adapter['state']}{', pinned' if adapter['is_pinned'] else ''}"


def _on_flash(adapter: Mapping[str, Any]) -> str:
    size = _mb(adapter["flash_bytes"])
    return size if adapter["is_on_flash"] else f"no: {size} come from its remote at the next use"


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _line(cells: Sequence[str]) -> str:
    padded = (f"{cell:{form}}" for cell, (_, form) in zip(cells, _COLUMNS, strict=True))
    return "  ".join(padded).rstrip()
