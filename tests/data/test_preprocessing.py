"""Bins, square roots, smoothing and z-scores against what they are by definition."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascribo.data import binning, preprocessing
from ascribo.data.binning import average_samples, check_intervals, count_events, make_bins
from ascribo.data.preprocessing import Treatment, find_interval, smooth, treat
from ascribo.data.recording import Recording
from ascribo.support.stored_parameters import decode, encode

RNG = np.random.default_rng(0)


def direct(values, width, epochs):
    """Each step as a weighted mean of the steps of its epoch, written out."""
    out = np.empty_like(values, dtype=float)
    for t in range(len(values)):
        lag = np.arange(len(values)) - t
        weight = np.exp(-0.5 * (lag / width) ** 2) * (np.abs(lag) <= int(4 * width + 0.5)) * (epochs == epochs[t])
        out[t] = weight @ values / weight.sum()
    return out


# Bins


@given(st.lists(st.floats(0, 10), max_size=60), st.floats(0.05, 3))
def test_counts_are_those_of_a_histogram(times, size):
    times = np.sort(times)
    bins = make_bins(np.array([[0.0, int(10 / size) * size]]), size)
    edges = np.append(bins.start, bins.stop[-1])
    counts = count_events([times], bins)(0, len(bins))
    np.testing.assert_array_equal(counts[:, 0], np.histogram(times, edges)[0])


def test_counts_in_several_intervals_and_in_chunks():
    intervals = np.array([[0.0, 3.0], [3.0, 5.5], [7.0, 9.0]])
    times = [np.sort(RNG.choice(np.arange(0, 10, 0.125), 40)) for _ in range(3)]  # many fall on the edges
    bins = make_bins(intervals, 0.25)
    assert bins.interval.tolist() == [0] * 12 + [1] * 10 + [2] * 8
    rows = count_events(times, bins)
    whole = rows(0, len(bins))
    parts = np.concatenate([rows(a, min(a + 4, len(bins))) for a in range(0, len(bins), 4)])
    np.testing.assert_array_equal(parts, whole)
    expected = [np.histogram(t, np.arange(0, 5.5 + 0.1, 0.25))[0] for t in times]
    np.testing.assert_array_equal(whole[:22].T, expected)
    inside = [((t >= 7) & (t <= 9)).sum() for t in times]
    np.testing.assert_array_equal(whole[22:].sum(0), inside)


def test_what_is_left_at_the_end_of_an_interval_is_not_counted():
    bins = make_bins(np.array([[0.0, 2.5]]), 1.0)
    assert count_events([np.array([0.5, 2.0, 2.4])], bins)(0, 2).ravel().tolist() == [1, 0]


def test_a_last_bin_that_rounding_cuts_short_is_kept():
    assert len(make_bins(np.array([[0.1, 0.4]]), 0.1)) == 3  # 0.4 - 0.1 is less than 0.3
    assert len(make_bins(np.array([[0.0, 0.29]]), 0.1)) == 2


def test_bins_longer_than_every_epoch_are_refused():
    with pytest.raises(ValueError, match=r"bin_size=2 s is longer than the longest epoch, 1\.5 s"):
        make_bins(np.array([[0.0, 1.0], [2.0, 3.5]]), 2.0)


def test_means_of_samples_in_bins(monkeypatch):
    time = np.sort(RNG.uniform(0, 20, 300))
    time = time[(time < 8) | (time > 9.5)]
    values = RNG.normal(size=(len(time), 3))
    rows, held = average_samples(values, time, make_bins(np.array([[0.0, 12.0], [13.0, 20.0]]), 0.5))
    whole = rows(0, len(held))
    for k in range(len(held)):
        inside = (time >= held.start[k]) & (time < held.stop[k])
        np.testing.assert_allclose(whole[k], values[inside].mean(0), rtol=1e-5)
    assert not np.isin([8.0, 8.5, 9.0], held.start).any()  # no samples, no bin
    monkeypatch.setattr(binning, "ENTRIES_TREATED_AT_ONCE", 10)
    rows, _ = average_samples(values, time, make_bins(np.array([[0.0, 12.0], [13.0, 20.0]]), 0.5))
    np.testing.assert_array_equal(np.concatenate([rows(0, 7), rows(7, len(held))]), whole)


@pytest.mark.parametrize(
    ("intervals", "message"),
    [
        ([[0, 2], [1, 3]], r"0-2 s and 1-3 s overlap"),
        ([[2, 1]], "ends before it starts"),
        ([[0, np.nan]], "NaN"),
        ([0, 1], r"shape \(2,\)"),
        (np.empty((0, 2)), r"shape \(0, 2\)"),
    ],
)
def test_bad_intervals_are_refused(intervals, message):
    with pytest.raises(ValueError, match=message):
        check_intervals(intervals)


# Smoothing


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.floats(0.2, 6),
    st.sampled_from([0, 64]),
    st.sampled_from([3, 40, 2**22]),
)
def test_smoothing_is_a_normalised_sum_within_epochs(lengths, width, largest, chunk):
    """Directly or by Fourier transform, whole or in chunks."""
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    values = np.random.default_rng(sum(lengths)).normal(size=(len(epochs), 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preprocessing, "DIRECT", largest)
        patch.setattr(preprocessing, "ENTRIES_TREATED_AT_ONCE", chunk)
        np.testing.assert_allclose(smooth(values, width, epochs), direct(values, width, epochs), atol=2e-6)


def test_smoothing_keeps_a_constant_and_other_epochs():
    values = np.full((30, 1), 3.0)
    np.testing.assert_allclose(smooth(values, 5.0), 3.0, rtol=1e-6)
    epochs = np.repeat([0, 1], 15)
    values[15:] = 100.0
    np.testing.assert_allclose(smooth(values, 5.0, epochs), values, rtol=1e-6)


def test_too_little_smoothing_is_refused():
    with pytest.raises(ValueError, match=r"smooth=0.1 s does nothing at time steps of 1 s: expected at least 0.25"):
        smooth(np.ones((4, 1)), 0.1)


def test_the_interval_of_uneven_time_steps_is_refused():
    assert find_interval(np.array([0, 0.1, 0.2, 9, 9.1]), np.array([0, 0, 0, 1, 1])) == pytest.approx(0.1)
    with pytest.raises(ValueError, match=r"0\.1 s apart, but 1 of them are not \(one is 8\.8 s\)"):
        find_interval(np.array([0, 0.1, 0.2, 9, 9.1]), np.zeros(5))
    with pytest.raises(ValueError, match="no epoch has two time steps"):
        find_interval(np.array([0.0, 1.0]), np.array([0, 1]))


# Transforms


def test_root_comes_before_smoothing_and_z_score_after():
    counts, epochs = RNG.poisson(2, (50, 3)).astype(float), np.repeat([0, 1], 25)
    rows = lambda a, b: counts[a:b]  # noqa: E731
    root, _ = treat(rows, 3, epochs, Treatment(smooth=0.2, transform="sqrt"), 0.1)
    np.testing.assert_allclose(root, direct(np.sqrt(counts), 2.0, epochs), rtol=1e-5)
    scored, learnt = treat(rows, 3, epochs, Treatment(smooth=0.2, transform="zscore"), 0.1)
    smoothed = direct(counts, 2.0, epochs)
    np.testing.assert_allclose(scored, (smoothed - smoothed.mean(0)) / smoothed.std(0), atol=1e-5)
    np.testing.assert_allclose(learnt.mean, smoothed.mean(0), rtol=1e-5)


def test_new_data_are_scored_with_the_old_statistics():
    old, new = RNG.normal(3, 2, (100, 2)), RNG.normal(-1, 5, (40, 2))
    _, learnt = treat(lambda a, b: old[a:b], 2, np.zeros(100), Treatment(transform="zscore"))
    scored, again = treat(lambda a, b: new[a:b], 2, np.zeros(40), learnt)
    np.testing.assert_allclose(scored, (new - old.mean(0)) / old.std(0), rtol=1e-4)
    assert again == learnt
    with pytest.raises(ValueError, match="learnt from 2 channels, and there are 1"):
        treat(lambda a, b: new[a:b, :1], 1, np.zeros(40), learnt)


def test_a_channel_that_never_changes_is_zero_after_z_score():
    scored, _ = treat(lambda a, b: np.full((b - a, 1), 7.0), 1, np.zeros(9), Treatment(transform="zscore"))
    np.testing.assert_array_equal(scored, 0)


def test_the_root_of_negative_numbers_is_refused():
    with pytest.raises(ValueError, match="some channels are negative"):
        treat(lambda a, b: -np.ones((b - a, 1)), 1, np.zeros(3), Treatment(transform="sqrt"))


# The record itself


def test_a_treatment_goes_through_json_unchanged():
    _, learnt = treat(lambda a, b: RNG.normal(size=(b - a, 4)), 4, np.zeros(50), Treatment(None, None, "zscore"))
    for plan in (Treatment(), Treatment(0.1, 0.25, "sqrt", True), learnt):
        assert decode(json.loads(json.dumps(encode(plan)))) == plan


def test_treatment_of_some_channels():
    plan = Treatment(transform="zscore", mean=[1, 2, 3], spread=[4, 5, 6])
    assert plan.take([2, 0]) == Treatment(transform="zscore", mean=(3.0, 1.0), spread=(6.0, 4.0))
    assert Treatment(0.1).take([2, 0]) == Treatment(0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bin_size": 0}, "bin_size=0: expected a positive number of seconds"),
        ({"bin_size": "0.1"}, "bin_size='0.1'"),
        ({"smooth": np.inf}, "smooth=inf"),
        ({"smooth": True}, "smooth=True"),
        ({"transform": "log"}, "transform='log': expected 'sqrt', 'zscore' or None"),
        ({"mean": [0.0], "spread": [1.0]}, "belong to transform='zscore'"),
        ({"mean": [0.0], "transform": "zscore"}, "pass both"),
    ],
)
def test_impossible_treatments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Treatment(**arguments)


# Recordings


def test_a_recording_is_treated_within_its_epochs():
    counts, epochs = RNG.poisson(2, (60, 3)), np.repeat([0, 1], 30)
    recording = Recording(counts, {"x": np.arange(60)}, epochs=epochs, time=np.arange(60) / 10)
    treated = recording.treat(smooth=0.2, transform="sqrt")
    np.testing.assert_allclose(treated.X, direct(np.sqrt(counts), 2.0, epochs), rtol=1e-5)
    assert treated.treatment == Treatment(smooth=0.2, transform="sqrt")
    assert treated.variables is recording.variables and recording.treatment is None
    with pytest.raises(ValueError, match=r"treated already: square root, smoothed over 0\.2 s"):
        treated.treat(smooth=0.2)


def test_a_recording_of_counts_takes_the_treatment_of_events_of_the_same_bins():
    counts = Recording(RNG.poisson(2, (60, 3)), time=np.arange(60) / 10)
    plan = Treatment(bin_size=0.1, transform="sqrt", counts_events=True)
    treated = counts.treat(plan)
    assert treated.treatment == plan
    np.testing.assert_allclose(treated.X, np.sqrt(counts.X), rtol=1e-6)
    with pytest.raises(ValueError, match=r"bins of 0\.2 s.*time steps of 0\.1 s"):
        counts.treat(Treatment(bin_size=0.2))
    with pytest.raises(ValueError, match="either a treatment or"):
        counts.treat(plan, smooth=0.2)


def test_bins_that_memory_cannot_hold_are_refused(monkeypatch):
    monkeypatch.setattr(binning, "physical_memory", lambda: 2**35)
    with pytest.raises(ValueError, match=r"bin_size=1e-05 s makes 1e\+09 bins of 10000 s, .* Is bin_size in"):
        binning.make_bins(np.array([[0.0, 1e4]]), 1e-5)
    hour = np.array([[0.0, 20_000.0]])
    assert len(binning.make_bins(hour, 0.1, 2000)) == 200_000
    with pytest.raises(ValueError, match=r"2e\+07 bins of 20000 s, with 2,000 channels 161 GB, more than memory"):
        binning.make_bins(hour, 0.001, 2000)


@pytest.mark.parametrize("size", [1e-7, 1e-9, 1e-300])
def test_bins_that_are_shorter_than_what_lies_between_intervals_are_refused(size):
    with pytest.raises(ValueError, match=r"expected at least 1e-05 s\. Is bin_size in seconds"):
        binning.make_bins(np.array([[0.0, 5.0]]), size)
    bins = binning.make_bins(np.array([[0.0, 0.0123], [1.0, 1.01]]), 1e-5)
    assert (bins.centre <= np.where(bins.interval == 0, 0.0123, 1.01)).all()


@pytest.mark.parametrize("width", [1e4, 1e12, 1e308])
def test_a_gaussian_that_is_far_wider_than_the_recording_is_refused(width):
    counts = Recording(RNG.poisson(2, (60, 3)), time=np.arange(60) / 10)
    with pytest.raises(ValueError, match=r"times as long as the longest epoch, 6 s: .* Is smooth in seconds"):
        counts.treat(smooth=width)


def test_a_gaussian_that_is_wider_than_an_epoch_ends_with_it():
    X, epochs = RNG.normal(size=(200, 2)), np.repeat([0, 1], [130, 70])
    apart = np.abs(np.arange(200)[:, None] - np.arange(200))
    for width in (40.0, 300.0):
        weight = np.exp(-0.5 * (apart / width) ** 2) * (epochs[:, None] == epochs) * (apart <= int(4 * width + 0.5))
        expected = weight @ X / weight.sum(1, keepdims=True)
        np.testing.assert_allclose(smooth(X, width, epochs), expected, atol=1e-5)
