"""Series of adapters: bounded at every moment and over time, exact in their sum, never falling."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.inference.adapter_labels import BASE, MOST_LABELS, AdapterLabels
from services.inference.engine.shares import OTHER, AdapterShare, Row, Shares

HOUR_S = 3600.0


def digest(number):
    return f"sha256:{number:064x}"[:7] + f"{number * 2654435761 % 2**64:016x}" + "0" * 48


class Engine:
    """The engine's own account of who used it."""

    def __init__(self):
        self._shares = Shares(100, lambda _: 10)

    def run(self, *digests, step_s=0.01):
        self._shares.divide(
            step_s,
            [
                Row(digests=(each,) if each else (), num_tokens=1, is_prompt=False, has_output=True)
                for each in digests
            ],
        )

    @property
    def totals(self):
        return self._shares.totals()

    @property
    def step_s(self):
        return self._shares.step_s


def by_label(series):
    return {each.label: each.share for each in series}


def test_10000_adapters_have_a_bounded_number_of_series_at_once_and_in_a_day():
    engine, labels, chance = Engine(), AdapterLabels(), random.Random(5)
    seen, at_once = set(), 0
    for minute in range(24 * 60):
        for _ in range(20):
            # A few are used all day, others come and go, nearly all are seen once in a while.
            draw = chance.random()
            if draw < 0.3:
                number = chance.randrange(10)
            elif draw < 0.6:
                number = 100 + minute // 60 * 10 + chance.randrange(10)
            else:
                number = chance.randrange(10_000)
            engine.run(digest(number))
        series = by_label(labels.look(engine.totals, minute * 60.0))
        seen |= set(series)
        at_once = max(at_once, len(series))
    assert at_once <= MOST_LABELS + 2
    # One in five minutes takes the place of another at the most.
    assert len(seen) <= MOST_LABELS + 2 + 24 * 12
    busy = {digest(number)[7:19] for number in range(10)}
    assert busy <= set(by_label(labels.look(engine.totals, 24 * HOUR_S)))


@settings(max_examples=60, deadline=None)
@given(
    looks=st.lists(st.lists(st.integers(-1, 60), min_size=1, max_size=40), min_size=1, max_size=40),
    pause_s=st.sampled_from([1.0, 15.0, 400.0]),
)
def test_series_never_fall_and_tell_all_there_was(looks, pause_s):
    engine, labels = Engine(), AdapterLabels()
    before, gone = {}, 0.0
    for index, numbers in enumerate(looks):
        for number in numbers:
            engine.run("" if number < 0 else digest(number))
        series = by_label(labels.look(engine.totals, index * pause_s))
        for label, share in series.items():
            was = before.get(label, AdapterShare(label))
            assert share.step_s >= was.step_s
            assert share.num_output_tokens >= was.num_output_tokens
        gone += sum(share.step_s for label, share in before.items() if label not in series)
        told = sum(share.step_s for share in series.values())
        assert told + gone == pytest.approx(engine.step_s)
        before = series


def test_few_adapters_all_have_their_own_series_and_exact_figures():
    engine, labels = Engine(), AdapterLabels()
    for number in range(5):
        for _ in range(number + 1):
            engine.run(digest(number), "")
    series = by_label(labels.look(engine.totals, 0.0))
    assert len(series) == 5 + 2
    for number in range(5):
        assert series[digest(number)[7:19]].num_output_tokens == number + 1
    assert series[BASE].num_output_tokens == 15
    assert series[OTHER].num_output_tokens == 0


def test_one_that_is_clearly_busier_takes_a_place_after_a_while_and_no_sooner():
    engine, labels = Engine(), AdapterLabels()
    for number in range(MOST_LABELS):
        engine.run(digest(number), step_s=1.0 + number)
    first = by_label(labels.look(engine.totals, 0.0))
    newcomer = digest(500)
    engine.run(newcomer, step_s=1.5)  # not twice as busy as the least
    assert set(by_label(labels.look(engine.totals, 1.0))) == set(first)
    engine.run(newcomer, step_s=2.0)
    second = by_label(labels.look(engine.totals, 2.0))
    assert newcomer[7:19] in second
    assert digest(0)[7:19] not in second
    assert second[newcomer[7:19]].step_s == pytest.approx(2.0)
    assert second[OTHER].step_s == pytest.approx(1.5)
    other = digest(501)
    engine.run(other, step_s=50.0)
    assert other[7:19] not in by_label(labels.look(engine.totals, 200.0))
    assert other[7:19] in by_label(labels.look(engine.totals, 302.0))


def test_digests_that_begin_alike_never_make_two_series_of_one_name():
    engine, labels = Engine(), AdapterLabels()
    alike = ["sha256:" + "a" * 12 + str(n) * 52 for n in range(3)]
    engine.run(*alike)
    series = labels.look(engine.totals, 0.0)
    counts = Counter(each.label for each in series)
    assert max(counts.values()) == 1
    assert sum(each.share.step_s for each in series) == pytest.approx(engine.step_s)


def test_what_is_kept_is_bounded_by_what_the_engine_names():
    engine, labels = Engine(), AdapterLabels()
    for number in range(10_000):
        engine.run(digest(number))
        if number % 100 == 0:
            labels.look(engine.totals, float(number))
    assert len(labels._known) <= 1024
    assert len(labels._traffic) <= 1024
    assert len(labels._own) <= MOST_LABELS
