"""How seconds grow with the batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from pssim.workload.scaling import fit_line


def test_two_batches_are_met_exactly() -> None:
    line = fit_line([1, 5], [3.0, 11.0])
    assert (line.fixed_s, line.per_sample_s) == pytest.approx((1.0, 2.0))
    assert line.at(10) == pytest.approx(21.0)


def test_no_time_stays_no_time() -> None:
    line = fit_line([1, 8], [0.0, 0.0])
    assert (line.fixed_s, line.per_sample_s) == (0.0, 0.0)


def test_more_than_proportional_growth_has_no_fixed_part() -> None:
    """A negative start-up time is not a time, so the line goes through zero."""
    line = fit_line([1, 2, 4], [1.0, 3.0, 9.0])
    assert line.fixed_s == 0.0
    assert line.per_sample_s > 1.0


def test_a_time_that_falls_with_the_batch_is_constant() -> None:
    assert fit_line([1, 8, 32], [3.0, 2.0, 1.0]).per_sample_s == 0.0


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e6, 1e300])
def test_the_unit_of_time_does_not_matter(scale: float) -> None:
    one, other = fit_line([1, 8], [1.0, 3.0]), fit_line([1, 8], [1.0 * scale, 3.0 * scale])
    assert other.at(20) == pytest.approx(scale * one.at(20), rel=1e-12)


@given(
    times=st.lists(st.floats(1.0, 500.0), min_size=3, max_size=3),
    batches=st.lists(st.integers(2, 100), min_size=2, max_size=2, unique=True),
)
def test_the_line_is_the_best_non_negative_one(times: list[float], batches: list[int]) -> None:
    """SciPy's non-negative least squares, on the same relative errors, does no better."""
    b = np.array([1, *sorted(batches)], dtype=float)
    t = np.array(times)
    _, best = nnls(np.column_stack([1 / t, b / t]), np.ones(3))
    line = fit_line([int(batch) for batch in b], times)
    ours = np.linalg.norm((line.fixed_s + line.per_sample_s * b) / t - 1)
    assert min(line.fixed_s, line.per_sample_s) >= 0.0
    assert ours <= best + 1e-9
