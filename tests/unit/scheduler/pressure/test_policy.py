"""The rules: what each level takes away, and that worse never takes less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.chassis.settings import ConfigError
from services.scheduler.places import PlaceLimits
from services.scheduler.pressure.device import Dimension, PressureLevel
from services.scheduler.pressure.policy import restrict
from services.scheduler.pressure.restrictions import RunShares
from services.scheduler.pressure.settings import PressureSettings
from services.scheduler.request import Priority
from tests.support.pressures import make_device, make_settings

UNKNOWN, NORMAL, ELEVATED, CRITICAL = PressureLevel
INTERACTIVE, BACKGROUND, BATCH = Priority
KNOWN = (NORMAL, ELEVATED, CRITICAL)
NOTHING = {
    "max_rank": None,
    "cap": None,
    "places": PlaceLimits(),
    "shares": RunShares(),
    "refused": set(),
}


def summary(restrictions):
    """The whole effect, in one comparable value."""
    ceiling, cap = restrictions.rank_ceiling, restrictions.output_cap
    return {
        "max_rank": ceiling[0] if ceiling else None,
        "cap": cap[0] if cap else None,
        "places": restrictions.places,
        "shares": restrictions.run_shares,
        "refused": {priority for priority in Priority if restrictions.refusal_of(priority)},
    }


def allows_no_more(worse, better):
    """Whether every single limit of `worse` is at least as tight."""

    def bound(value):
        return float("inf") if value is None else value

    return (
        bound(worse["max_rank"]) <= bound(better["max_rank"])
        and bound(worse["cap"]) <= bound(better["cap"])
        and worse["places"].share <= better["places"].share
        and bound(worse["places"].max_lower_running) <= bound(better["places"].max_lower_running)
        and worse["shares"].seqs <= better["shares"].seqs
        and worse["shares"].prefill <= better["shares"].prefill
        and worse["shares"].threads <= better["shares"].threads
        and worse["refused"] >= better["refused"]
    )


shares = st.floats(0.01, 1.0)


@st.composite
def settings_of_operators(draw):
    elevated_rank, elevated_tokens = draw(st.integers(1, 128)), draw(st.integers(1, 4096))
    meanings = st.sampled_from(["normal", "cautious", "elevated", "critical"])
    return make_settings(
        ELEVATED_MAX_RANK=elevated_rank,
        CRITICAL_MAX_RANK=draw(st.integers(1, elevated_rank)),
        CRITICAL_PLACES_SHARE=draw(shares),
        CRITICAL_PREFILL_SHARE=draw(shares),
        CRITICAL_THREADS_SHARE=draw(shares),
        BATTERY_ELEVATED_PLACES=draw(st.integers(1, 64)),
        BATTERY_ELEVATED_MAX_OUTPUT_TOKENS=elevated_tokens,
        BATTERY_CRITICAL_MAX_OUTPUT_TOKENS=draw(st.integers(1, elevated_tokens)),
        CAUTIOUS_PLACES_SHARE=draw(shares),
        TEMPERATURE_UNKNOWN=draw(meanings),
        MEMORY_UNKNOWN=draw(meanings),
        BATTERY_UNKNOWN=draw(meanings),
    )


def devices(levels):
    return st.fixed_dictionaries(
        {dimension.value: st.sampled_from(levels) for dimension in Dimension}
    )


@given(settings_of_operators(), devices(KNOWN), st.sampled_from(Dimension), st.data())
def test_a_worse_level_never_restricts_less(settings, levels, dimension, data):
    better = data.draw(st.sampled_from(KNOWN))
    worse = data.draw(st.sampled_from([level for level in KNOWN if level >= better]))
    before = restrict(make_device(**{**levels, dimension: better}), settings)
    after = restrict(make_device(**{**levels, dimension: worse}), settings)
    assert allows_no_more(summary(after), summary(before))


@given(settings_of_operators(), devices(list(PressureLevel)), devices(list(PressureLevel)))
def test_recovery_restores_exactly(settings, levels, bad):
    device = make_device(**levels)
    before = restrict(device, settings)
    restrict(make_device(**bad), settings)
    assert restrict(device, settings) == before


@given(settings_of_operators(), devices(list(PressureLevel)), st.sampled_from(Dimension))
def test_unknown_is_what_the_operator_takes_it_for(settings, levels, dimension):
    unknown = restrict(make_device(**{**levels, dimension: UNKNOWN}), settings)
    meaning = settings.unknown[dimension]
    if meaning == "cautious":
        calm = summary(restrict(make_device(**{**levels, dimension: NORMAL}), settings))
        assert allows_no_more(summary(unknown), calm)
        assert unknown.places.share <= settings.cautious_places_share
        assert unknown.run_shares.seqs <= settings.cautious_places_share
        for kept in ("max_rank", "cap", "refused"):
            assert summary(unknown)[kept] == calm[kept]
    else:
        taken_for = make_device(**{**levels, dimension: PressureLevel[meaning.upper()]})
        assert summary(unknown) == summary(restrict(taken_for, settings))


@pytest.mark.parametrize("dimension", Dimension)
@pytest.mark.parametrize("before", KNOWN)
@pytest.mark.parametrize("meaning", ["normal", "cautious", "elevated", "critical"])
def test_what_is_not_known_any_more_is_no_calmer_than_it_was(dimension, before, meaning):
    settings = make_settings(**{f"{dimension.name}_UNKNOWN": meaning})
    known = make_device(**{dimension: before})
    lost = make_device(**{dimension: UNKNOWN})
    never_known = summary(restrict(lost, settings))
    # Unknown twice, as the monitor repeats itself, and known again in the end.
    unknown = lost.after(lost.after(known))
    now = summary(restrict(unknown, settings))
    assert allows_no_more(now, summary(restrict(known, settings)))
    assert allows_no_more(now, never_known)
    assert [r.cause.level for r in restrict(unknown, settings).active] in ([], [UNKNOWN])
    assert restrict(make_device().after(unknown), settings).active == ()


@given(devices(list(PressureLevel)))
def test_every_rule_says_which_reading_holds_it(levels):
    device = make_device(since_s=7.0, **levels)
    for restriction in restrict(device, make_settings()).active:
        cause = restriction.cause
        state = device[cause.dimension]
        assert cause.rule == f"{cause.dimension}_{state.level.name.lower()}"
        assert (cause.reading, cause.since_s) == (state.reading, 7.0)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ({}, {}),
        ({"temperature": "ELEVATED"}, {"max_rank": 32}),
        (
            {"temperature": "CRITICAL"},
            {
                "max_rank": 16,
                "places": PlaceLimits(share=0.5),
                "shares": RunShares(seqs=0.5, prefill=0.5, threads=0.5),
            },
        ),
        ({"memory": "ELEVATED"}, {}),
        ({"memory": "CRITICAL"}, {"refused": {INTERACTIVE, BACKGROUND, BATCH}}),
        (
            {"battery": "ELEVATED"},
            {"cap": 256, "places": PlaceLimits(max_lower_running=2)},
        ),
        (
            {"battery": "CRITICAL"},
            {
                "cap": 64,
                "places": PlaceLimits(max_lower_running=2),
                "refused": {BACKGROUND, BATCH},
            },
        ),
        *(
            (
                {dimension: "UNKNOWN"},
                {"places": PlaceLimits(share=0.5), "shares": RunShares(seqs=0.5)},
            )
            for dimension in Dimension
        ),
        (
            {"temperature": "UNKNOWN", "memory": "UNKNOWN", "battery": "UNKNOWN"},
            {"places": PlaceLimits(share=0.5), "shares": RunShares(seqs=0.5)},
        ),
        (
            {"temperature": "ELEVATED", "battery": "ELEVATED", "memory": "UNKNOWN"},
            {
                "max_rank": 32,
                "cap": 256,
                "places": PlaceLimits(share=0.5, max_lower_running=2),
                "shares": RunShares(seqs=0.5),
            },
        ),
    ],
    ids=str,
)
def test_what_each_level_takes_away(levels, expected):
    assert summary(restrict(make_device(**levels), make_settings())) == {**NOTHING, **expected}


def test_the_strictest_of_two_rules_is_the_one_that_is_named():
    settings = make_settings(CAUTIOUS_PLACES_SHARE=0.25, MEMORY_UNKNOWN="critical")
    device = make_device(temperature="CRITICAL", memory="UNKNOWN", battery="CRITICAL")
    restrictions = restrict(device, settings)
    assert restrictions.refusal_of(INTERACTIVE).cause.rule == "memory_unknown"
    assert restrictions.rank_ceiling[1].rule == "temperature_critical"
    assert restrictions.output_cap[1].rule == "battery_critical"


@pytest.mark.parametrize(
    "wrong",
    [
        {"CRITICAL_MAX_RANK": 33},
        {"ELEVATED_MAX_RANK": 8, "CRITICAL_MAX_RANK": 16},
        {"BATTERY_CRITICAL_MAX_OUTPUT_TOKENS": 257},
        {"CRITICAL_THREADS_SHARE": 0},
        {"CAUTIOUS_PLACES_SHARE": 1.5},
        {"TEMPERATURE_UNKNOWN": "fine"},
        {"ELEVATED_MAX_RANK": 0},
    ],
    ids=str,
)
def test_settings_that_contradict_the_ladder_are_refused(wrong):
    with pytest.raises(ConfigError, match=list(wrong)[-1]):
        make_settings(**wrong)


def test_a_lower_elevated_limit_pulls_the_critical_default_with_it():
    settings = make_settings(ELEVATED_MAX_RANK=8, BATTERY_ELEVATED_MAX_OUTPUT_TOKENS=32)
    assert isinstance(settings, PressureSettings)
    assert settings.critical_max_rank == 8
    assert settings.battery_critical_max_output_tokens == 32
