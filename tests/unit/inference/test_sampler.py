"""How the next token is chosen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.inference.backends.numpy_sampling import finite_rows, sample_rows, top_indices
from services.inference.engine.sampler import PenalisedTokens, SequenceSampler
from services.inference.engine.sequence import SamplingParams


def row(*values):
    return np.array(values, dtype=np.float32)


def random_row(seed, size=1000):
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32) * 4


class Sampler:
    """One sequence's sampling, by the reference in numpy."""

    def __init__(self, prompt=(), logprobs=None, **params):
        self.sequence = SequenceSampler(SamplingParams(**params), prompt, logprobs)

    def sample(self, logits):
        (chosen,) = sample_rows(logits[None], [self.sequence.next_row()])
        return self.sequence.note(chosen)


def draws(logits, count=2000, **params):
    """Token ids drawn from the same row, each by a sequence of its own."""
    return [
        Sampler(temperature=1.0, seed=seed, **params).sample(logits).token_id
        for seed in range(count)
    ]


def test_greedy_takes_the_largest():
    assert Sampler().sample(row(0.1, 3.0, 2.9)).token_id == 1


def test_the_row_is_left_as_it_was():
    logits = random_row(0)
    before = logits.copy()
    each = Sampler([1, 2], 3, temperature=0.7, top_k=5, repetition_penalty=1.3, seed=1)
    for _ in range(3):
        each.sample(logits)
    np.testing.assert_array_equal(logits, before)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_a_row_that_is_no_number_is_found_and_only_that_one_F31_A15(value):
    logits = np.stack([random_row(seed) for seed in range(3)])
    logits[1, [7, 70]] = value
    assert finite_rows(logits).tolist() == [True, False, True]


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=400),
    st.integers(1, 30),
)
def test_top_indices_equal_a_full_stable_sort(values, count):
    logits = np.array(values, dtype=np.float32)
    expected = np.argsort(-logits, kind="stable")[:count]
    np.testing.assert_array_equal(top_indices(logits, count), expected)


def test_the_same_seed_draws_the_same_tokens_whatever_else_runs():
    rows = [random_row(seed) for seed in range(20)]
    alone = Sampler(temperature=1.0, seed=5)
    expected = [alone.sample(logits).token_id for logits in rows]
    mixed, mate = Sampler(temperature=1.0, seed=5), Sampler(temperature=1.0, seed=6)
    got = []
    for logits in rows:
        mate.sample(logits)
        got.append(mixed.sample(logits).token_id)
    assert got == expected
    other = Sampler(temperature=1.0, seed=7)
    assert [other.sample(logits).token_id for logits in rows] != expected


def test_no_seed_draws_one():
    rows = [random_row(seed) for seed in range(20)]
    first, second = Sampler(temperature=2.0), Sampler(temperature=2.0)
    assert [first.sample(r).token_id for r in rows] != [second.sample(r).token_id for r in rows]


def test_nothing_shared_is_seeded_T35():
    before = np.random.get_state()[1].tolist()
    Sampler(temperature=1.0, seed=1).sample(random_row(1))
    assert np.random.get_state()[1].tolist() == before


def test_draws_follow_the_softmax():
    logits = row(0.0, 1.0, 2.0)
    expected = np.exp(logits) / np.exp(logits).sum()
    shares = np.bincount(draws(logits), minlength=3) / 2000
    np.testing.assert_allclose(shares, expected, atol=0.04)


def test_draws_follow_the_softmax_of_a_large_vocabulary():
    logits = random_row(1, 1000)
    expected = np.exp(logits.astype(np.float64))
    expected /= expected.sum()
    shares = np.bincount(draws(logits, count=6000), minlength=1000) / 6000
    likely = np.argsort(-expected)[:5]
    np.testing.assert_allclose(shares[likely], expected[likely], atol=0.02)
    # Halves of the vocabulary, whatever their groups.
    assert shares[:500].sum() == pytest.approx(expected[:500].sum(), abs=0.03)


def test_a_token_without_weight_is_never_drawn():
    logits = np.full(600, -1e4, dtype=np.float32)
    logits[[3, 400]] = 0.0
    assert set(draws(logits, count=500)) == {3, 400}


def test_temperature_flattens():
    logits = row(0.0, 2.0)
    cold = [Sampler(temperature=0.5, seed=s).sample(logits).token_id for s in range(1000)]
    warm = [Sampler(temperature=2.0, seed=s).sample(logits).token_id for s in range(1000)]
    assert np.mean(cold) == pytest.approx(1 / (1 + np.exp(-4)), abs=0.04)
    assert np.mean(warm) == pytest.approx(1 / (1 + np.exp(-1)), abs=0.04)


def test_a_temperature_near_zero_is_greedy_and_does_not_overflow():
    logits = random_row(3)
    assert Sampler(temperature=1e-300, seed=0).sample(logits).token_id == logits.argmax()


def test_top_k_keeps_the_k_likeliest():
    logits = random_row(4)
    assert set(draws(logits, top_k=3)) <= set(np.argsort(-logits)[:3].tolist())
    assert set(draws(row(1, 1, 1), top_k=50, count=200)) == {0, 1, 2}


def test_min_p_keeps_what_is_likely_beside_the_best():
    logits = np.log(row(0.5, 0.3, 0.15, 0.05))
    assert set(draws(logits, min_p=0.5)) == {0, 1}


def test_top_p_keeps_the_nucleus():
    logits = np.log(row(0.05, 0.5, 0.15, 0.3))
    assert set(draws(logits, top_p=0.6)) == {1, 3}
    assert set(draws(logits, top_p=0.4)) == {1}
    assert set(draws(logits, top_p=0.99)) == {0, 1, 2, 3}


def nucleus_by_full_sort(logits, top_p):
    shares = np.exp(logits.astype(np.float64) - logits.max())
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")
    reached = np.searchsorted(np.cumsum(shares[order]), top_p)
    return set(order[: reached + 1].tolist())


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.3, 0.7, 0.95]))
def test_top_p_never_leaves_the_nucleus_of_a_full_sort(seed, top_p):
    logits = random_row(seed, 300)
    assert set(draws(logits, count=40, top_p=top_p)) <= nucleus_by_full_sort(logits, top_p)


def test_truncations_combine():
    logits = np.log(row(0.4, 0.3, 0.2, 0.1))
    assert set(draws(logits, top_k=3, top_p=0.75, min_p=0.1)) == {0, 1}


def test_repetition_penalty_counts_the_prompt_and_both_signs():
    each = Sampler([0], repetition_penalty=2.0)
    assert each.sample(row(3.0, 2.0)).token_id == 1  # 3 / 2 < 2
    assert each.sample(row(-0.5, -0.9)).token_id == 0  # both doubled: -1.0 > -1.8
    assert Sampler([0], repetition_penalty=2.0).sample(row(-0.5, -0.9)).token_id == 1


def test_presence_and_frequency_penalties_count_the_output_only():
    assert Sampler([0], presence_penalty=2.0).sample(row(1.0, 0.5)).token_id == 0
    presence = Sampler(presence_penalty=1.0)
    assert [presence.sample(row(1.5, 1.0)).token_id for _ in range(4)] == [0, 1, 0, 0]
    frequency = Sampler(frequency_penalty=1.0)
    assert [frequency.sample(row(1.5, 1.0)).token_id for _ in range(4)] == [0, 1, 0, 1]


def test_logprobs_are_those_of_the_model_before_everything_else():
    logits = random_row(9)
    each = Sampler([3], 4, temperature=0.3, top_k=2, repetition_penalty=1.9, seed=2)
    token = each.sample(logits)
    reference = logits.astype(np.float64)
    reference -= np.log(np.exp(reference).sum())
    assert token.logprob.token_id == token.token_id
    assert token.logprob.logprob == pytest.approx(reference[token.token_id], abs=1e-5)
    assert [index for index, _ in token.logprob.top] == np.argsort(-logits)[:4].tolist()
    for index, logprob in token.logprob.top:
        assert logprob == pytest.approx(reference[index], abs=1e-5)


def test_zero_logprobs_gives_the_chosen_token_alone():
    assert Sampler(logprobs=0).sample(row(1, 2)).logprob.top == ()
    assert Sampler().sample(row(1, 2)).logprob is None


@given(st.lists(st.integers(0, 9), max_size=40), st.lists(st.integers(0, 30), max_size=60))
def test_penalised_tokens_are_each_there_once_with_their_count_in_the_output(prompt, output):
    tokens = PenalisedTokens(prompt)
    for token_id in output:
        tokens.add(token_id)
    ids, counts = tokens.arrays()
    assert ids.tolist() == list(dict.fromkeys([*prompt, *output]))
    assert counts.tolist() == [output.count(token_id) for token_id in ids]


def test_rows_of_a_batch_are_sampled_each_by_itself():
    rows = np.stack([random_row(seed) for seed in range(4)])
    rows[2, 5] = np.nan
    settings = [Sampler(temperature=0.9, seed=seed).sequence.next_row() for seed in range(4)]
    alone = [sample_rows(rows[n : n + 1], settings[n : n + 1])[0] for n in range(4)]
    assert sample_rows(rows, settings) == alone
    assert [chosen is None for chosen in alone] == [False, False, True, False]
