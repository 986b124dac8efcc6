"""What the operator sets of the router."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from services.chassis.settings import Settings
from services.scheduler.routing.decision import RoutingRules

_MAX_TOP_K = 4
"""As many adapters as one request may name."""
_MAX_LOSS = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingSettings:
    """The router's file and the bounds of its decisions."""

    files: tuple[Path, ...]
    """ROUTER_FILE: a file of `edgelora router train`; while there is none, the package's own."""
    rules: RoutingRules
    """ROUTER_TOP_K (2): most adapters of a mix. ROUTER_MIN_SHARE (0.1): least share of the best
    adapter, below it the base model serves. ROUTER_MIN_MIX_SHARE (0.15): least share in a mix.
    ROUTER_MAX_QUALITY_LOSS (0.15): nats a token that a resident adapter may be worse than the best;
    0: the best is always loaded."""

    @classmethod
    def read(cls, settings: Settings) -> RoutingSettings:
        """Reads the settings; mistakes are kept for `settings.finish`."""
        file = settings.path("ROUTER_FILE", Path())
        return cls(
            files=() if file == Path() else (file,),
            rules=RoutingRules(
                top_k=settings.integer("ROUTER_TOP_K", 2, low=1, high=_MAX_TOP_K),
                min_share=settings.number("ROUTER_MIN_SHARE", 0.1, low=0.0, high=1.0),
                min_mix_share=settings.number("ROUTER_MIN_MIX_SHARE", 0.15, low=0.0, high=1.0),
                max_quality_loss=settings.number(
                    "ROUTER_MAX_QUALITY_LOSS", 0.15, low=0.0, high=_MAX_LOSS
                ),
            ),
        )
