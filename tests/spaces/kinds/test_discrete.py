"""`Discrete`: positives share the label, each time step that has it as often."""

import numpy as np
import pandas as pd
import pytest

from ascribo.spaces.kinds.discrete import Discrete
from ascribo.spaces.pairs import Pairs
from tests.spaces.given import rows, table, uniform


def test_discrete_positives_are_uniform_within_the_label():
    labels = np.array(list("abbbbcccc") + [None] * 3 + list("aaaaab"))
    pairs = Pairs({"s": Discrete("s", 1)}, table(s=labels), np.zeros(18, int))
    reference, positive, _ = rows(pairs, pairs.draw(np.random.default_rng(2), 100, 200), "s")
    assert (labels[reference] == labels[positive]).all()
    for label in "abc":
        members = np.flatnonzero(labels == label)
        assert uniform(positive[labels[reference] == label], members) > 1e-3
    assert not np.isin([9, 10, 11], reference).any() and not np.isin([9, 10, 11], positive).any()


def test_any_kind_of_value_is_a_label():
    for values in ([1.5, 2.5, 1.5, 2.5], [True, False, True, False], pd.Categorical(list("abab")), list("abab")):
        pairs = Pairs({"s": Discrete("s", 1)}, table(s=values), np.zeros(4, int))
        reference, positive, _ = rows(pairs, pairs.draw(np.random.default_rng(0), 5, 20), "s")
        assert (reference % 2 == positive % 2).all()


def test_labels_that_are_missing_everywhere_are_refused():
    with pytest.raises(ValueError, match="missing everywhere"):
        Pairs({"s": Discrete("s", 1)}, table(s=[None, None, None]), np.zeros(3, int))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Discrete(["a", "b"], 1), "name of one variable"),
        (lambda: Discrete("s", 0), "dim must be an integer of at least 1"),
        (lambda: Discrete("s", 1, nuisance="yes"), "nuisance='yes'"),
    ],
)
def test_a_bad_description_is_refused_when_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()
