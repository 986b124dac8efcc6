"""Trains the router's network on texts, their losses, and what each adapter's card says."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn import functional

from edgelora.routing.router_file import RouterFile
from edgelora.toolchain.batches import learning_rate_share
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.progress import progress_bar
from edgelora.toolchain.router_draws import Draw, RoutedTexts, TextPool
from edgelora.toolchain.router_targets import TargetRules
from edgelora.toolchain.router_twin import Dropout, NetworkShape, RouterTwin

_WARMUP_SHARE = 0.05
_WEIGHT_DECAY = 0.3
_MAX_GRAD_NORM = 1.0
_STRANGE_SHARE = 0.4
"""Of the adapters, shown as if training had never seen them."""
_DROPOUT = Dropout(ngrams=0.2, positions=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """The settings of a router's training."""

    steps: int = 2000
    learning_rate: float = 1e-2
    seed: int = 0
    shape: NetworkShape = field(default_factory=NetworkShape)
    rules: TargetRules = field(default_factory=TargetRules)

    def check(self) -> None:
        """Raises ToolchainError for the first setting that cannot work."""
        if not 1 <= self.steps <= 1_000_000:
            raise ToolchainError(f"steps is {self.steps}: it must be 1 to 1,000,000")
        if not 0 < self.learning_rate <= 1:
            raise ToolchainError("learning_rate must be above 0 and at most 1")


def fit_router(data: RoutedTexts, options: FitOptions) -> tuple[RouterFile, float]:
    """Trains a router; returns it and the mean loss (Kullback-Leibler, nats) of the last tenth.

    Adapters are left out at random, prototypes are made of other texts than those to be routed, and
    device and residency are drawn: so an adapter that was never seen is routed by its card.
    Raises ToolchainError when it diverges. The same seed gives the same router on one machine.
    """
    options.check()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        order = np.random.default_rng(options.seed)
        pool = TextPool(data, options.shape.num_buckets, options.rules, order)
        twin = RouterTwin(options.shape, torch.from_numpy(pool.rarity))
        losses = _train(twin, pool, options)
    last = float(np.mean(losses[-max(1, options.steps // 10) :]))
    return RouterFile(twin.weights(), options.rules.temperature), last


def _train(twin: RouterTwin, pool: TextPool, options: FitOptions) -> list[float]:
    """Returns the loss of every step."""
    optimizer = torch.optim.AdamW(
        twin.parameters(), lr=options.learning_rate, weight_decay=_WEIGHT_DECAY
    )
    losses: list[float] = []
    with progress_bar("Training the router", options.steps) as bar:
        for step in range(options.steps):
            share = learning_rate_share(step, options.steps, _WARMUP_SHARE, "cosine")
            for group in optimizer.param_groups:
                group["lr"] = options.learning_rate * share
            draw = pool.draw()
            logs = functional.log_softmax(_scores(twin, draw), 1)
            loss = functional.kl_div(logs, draw.targets, reduction="batchmean")
            if not bool(torch.isfinite(loss)):
                raise ToolchainError("training diverged: lower the learning rate")
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(twin.parameters(), _MAX_GRAD_NORM)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(float(loss.detach()))
            bar.advance(1, f"loss {np.mean(losses[-50:]):.3f}")
    return losses


def _scores(twin: RouterTwin, draw: Draw) -> torch.Tensor:
    vectors = twin.vectors([*draw.texts, *draw.examples], _DROPOUT)
    texts = vectors[: len(draw.texts)]
    examples = vectors[len(draw.texts) :].reshape(draw.num_adapters, -1, vectors.shape[1])
    # What nobody learned to place lies anywhere among what was learned.
    strange = torch.rand(draw.num_adapters + 1) < _STRANGE_SHARE
    texts = torch.where(strange[draw.columns][:, None], _anywhere(texts, texts), texts)
    examples = torch.where(strange[:-1, None, None], _anywhere(texts, examples), examples)
    # Mixtures of two domains stand for texts of none: Zhan et al., "Out-of-Scope Intent Detection
    # with Self-Supervision and Discriminative Training" (arXiv:2106.08616), section 3.2.
    share = draw.mix[:, None]
    mixed = share * texts[draw.pairs[:, 0]] + (1 - share) * texts[draw.pairs[:, 1]]
    return twin.scores(
        torch.cat([texts, functional.normalize(mixed, dim=1)]),
        examples,
        draw.overlap,
        draw.device,
        draw.resident,
        _DROPOUT,
    )


def _anywhere(texts: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Vectors between two texts each, in the shape of `like`; nothing is learned from them."""
    known = texts.detach()
    places = torch.randint(len(known), (2, *like.shape[:-1]))
    return functional.normalize(known[places[0]] + known[places[1]], dim=-1)
