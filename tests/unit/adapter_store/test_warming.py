"""A defect of the forecast costs warm-ups, and no request."""

import asyncio

from services.adapter_store.bases import ServedBases
from services.adapter_store.residency import Residency, WorkerReport
from services.adapter_store.warming import SWITCHED_OFF, Warming
from services.chassis.sealing import Sealer


class BrokenForecast:
    def __getattr__(self, name):
        def fail(*_arguments, **_options):
            raise ZeroDivisionError

        return fail


class NoAdapters:
    def pinned(self):
        return []


def warming(forecast) -> Warming:
    return Warming(
        forecast,
        bases=ServedBases(),
        registry=NoAdapters(),
        residency=Residency(),
        flash=None,
        arrivals=None,
        changing=asyncio.Lock(),
        sealer=Sealer(b"k" * 32),
        boot_clock_s=lambda: 0.0,
    )


REPORT = WorkerReport(
    worker="w", incarnation=1, reported_at_s=0.0, slots={}, refused=frozenset(), num_slots=4
)


def test_forecast_that_fails_is_left_out_from_then_on():
    for call in (
        lambda each: each.note_use("a", "", "d"),
        lambda each: each.note_deletion("a", "d"),
        lambda each: each.wishes(REPORT),
    ):
        broken = warming(BrokenForecast())
        assert not call(broken)
        assert broken.wishes(REPORT) == []
        assert broken.state("a") == SWITCHED_OFF


async def test_forecast_whose_own_work_fails_ends_alone_and_says_so():
    broken = warming(BrokenForecast())
    await broken.run()
    assert broken.state("a") == SWITCHED_OFF
