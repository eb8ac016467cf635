"""The regressions of the test of known variables."""

import numpy as np

from ascribo.screening import regression


def test_scipy_is_not_asked_where_there_is_nothing_to_solve(monkeypatch):
    """scipy 1.12, the oldest that is allowed, refuses; `make lowest` showed it."""

    def refuses(*_, **__):
        raise ValueError("failed in converting 2nd argument")

    monkeypatch.setattr(regression.linalg, "cho_solve", refuses)
    assert regression._solve(None, np.zeros((0, 3), np.float32)).shape == (0, 3)
