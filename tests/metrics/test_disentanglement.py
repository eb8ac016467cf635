"""Disentanglement scores, on codes whose score is known."""

from functools import partial

import numpy as np
import pytest

from ascribo.metrics import disentanglement as d

SIZES = [3, 4, 5]
RNG = np.random.default_rng(0)
FACTORS = np.column_stack([RNG.integers(size, size=3000) for size in SIZES])
MIXED = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 1.0], [0.0, 1.0, 2.0]])
FEW = dict(train=400, test=400)
BETA = partial(d.beta_vae_score, sizes=SIZES, batch=32, **FEW)
FACTOR = partial(d.factor_vae_score, sizes=SIZES, batch=32, variance=2000, **FEW)


def noise(factors):
    return np.random.default_rng(len(factors)).normal(size=(len(factors), 4))


def test_beta_vae():
    assert BETA(lambda f: f[:, [2, 0, 1]] * [-1, 5, 0.1]) == 1.0
    assert BETA(noise) == pytest.approx(1 / 3, abs=0.08)
    assert BETA(lambda f: f @ MIXED) > 0.9  # a linear map does not hide which factor was kept
    assert 0.5 < BETA(lambda f: f[:, :1]) < 0.8  # knows the first factor, must guess between the others


def test_factor_vae():
    assert FACTOR(lambda f: f[:, [2, 0, 1]] * [-1.0, 5, 0.5]) == 1.0
    assert FACTOR(noise) == pytest.approx(1 / 3, abs=0.08)
    assert FACTOR(lambda f: f @ MIXED) < 0.95
    # two dimensions alone: the third factor is guessed right when a dimension happens to vary least
    assert FACTOR(lambda f: f[:, :2] * 1.0) < 0.8
    assert FACTOR(lambda f: np.zeros((len(f), 2))) == 0.0


def test_factor_vae_prunes_by_a_share_of_the_largest_spread_or_as_published():
    """Published: a standard deviation of 0.05 in the unit of the codes, which small codes do not have."""
    small = lambda f: 0.01 * f[:, [2, 0, 1]]  # noqa: E731
    assert FACTOR(small) == 1.0 and FACTOR(small, relative=False) == 0.0
    assert FACTOR(lambda f: 100 * small(f), relative=False) == 1.0
    wide = lambda f: f[:, [2, 0, 1]] * [1.0, 1.0, 100.0]  # noqa: E731
    assert FACTOR(wide, relative=False) == 1.0 and FACTOR(wide) < 0.9  # two are below 5% of the third


def test_counts_of_samples_are_parameters():
    few = FACTORS[:900]
    assert d.dci_scores(few, few, 600, test=300) == d.dci_scores(few, few)
    assert d.sap_score(few, few, 600, test=300) == d.sap_score(few, few)
    spoilt = few.copy()
    spoilt[700:] = spoilt[700:][::-1]
    assert d.dci_scores(spoilt, few, 600, test=100).informativeness == 1.0
    assert d.dci_scores(spoilt, few, 600).informativeness < 0.9
    assert d.sap_score(spoilt, few, 600, test=100) > d.sap_score(spoilt, few, 600) + 0.05


def test_factor_vae_leaves_out_dimensions_that_hardly_vary():
    def with_dead_one(factors):
        return np.column_stack([factors, 1e-4 * noise(factors)[:, 0]])

    assert FACTOR(with_dead_one) == 1.0


def test_mutual_information_gap():
    assert d.mutual_information_gap(FACTORS, FACTORS) > 0.98
    assert d.mutual_information_gap(noise(FACTORS), FACTORS) < 0.02
    assert d.mutual_information_gap(FACTORS[:, [0, 0, 1, 1, 2, 2]], FACTORS) == pytest.approx(0, abs=1e-9)
    # the first factor is in two dimensions, the others in one each
    assert d.mutual_information_gap(FACTORS[:, [0, 0, 1, 2]], FACTORS) == pytest.approx(2 / 3, abs=0.02)


def test_modularity():
    assert d.modularity_score(FACTORS[:, [0, 0, 1, 2]], FACTORS) > 0.98  # copies do no harm
    both = FACTORS[:, :2] @ [[1.0], [10.0]]
    same = FACTORS[:, [0, 0]]
    assert d.modularity_score(both, same) == pytest.approx(0, abs=1e-9)  # tells as much of one as of the other
    assert d.modularity_score(np.zeros((3000, 2)), FACTORS) == 0


def test_dci():
    small = np.random.default_rng(1).integers(2, size=(600, 3))  # two values each: few trees
    good = d.dci_scores(small[:, [2, 0, 1]], small)
    assert min(good) > 0.99
    bad = d.dci_scores(noise(small), small)
    assert bad.disentanglement < 0.3 and bad.completeness < 0.3 and bad.informativeness < 0.6
    # one dimension holds two factors: each factor is in one dimension, but that dimension is not of one factor
    found = d.dci_scores(np.column_stack([small @ [1, 3, 0], small[:, 2]]), small)
    assert found.completeness > 0.95 and found.informativeness > 0.95 and found.disentanglement < 0.75


def test_sap():
    binary = RNG.integers(2, size=(3000, 2))
    assert d.sap_score(binary, binary) == pytest.approx(0.5, abs=0.03)  # right against a guess
    assert d.sap_score(np.repeat(binary, 2, axis=1), binary) == pytest.approx(0, abs=1e-9)  # everything twice
    assert d.sap_score(np.column_stack([binary, np.zeros(3000)]), binary) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: BETA(lambda f: f[:-1]), "for 8192 rows|for \\d+ rows"),
        (lambda: d.beta_vae_score(noise, [3]), "two or more factors"),
        (lambda: d.mutual_information_gap(FACTORS[:-1], FACTORS), "expected \\(n, dimension\\)"),
        (lambda: d.mutual_information_gap(FACTORS[:, :1], FACTORS), "at least two"),
        (lambda: d.modularity_score(FACTORS, 0 * FACTORS), "one value only"),
        (lambda: d.sap_score(FACTORS, FACTORS, train=3000), "fewer than"),
        (lambda: d.dci_scores(FACTORS, FACTORS, 2000, test=1001), "test=1001: .* at most the 1000"),
    ],
)
def test_bad_input_is_refused_in_words(call, said):
    with pytest.raises(ValueError, match=said):
        call()
