"""Incomplete gamma functions against arbitrary precision: the CPU's own lose digits where results are small."""

import mpmath
import pytest
import torch

# Shape and argument of each branch: tiny, series, fraction, Stirling's range, the uniform expansion.
POINTS = [
    *((1e-10, 0.5), (1e-5, 1e-3), (0.3, 1.0), (1.05, 0.2), (2.5, 1.0), (19.9, 12.0), (0.5, 3.0), (5.0, 9.0)),
    *((19.0, 40.0), (20.5, 22.0), (300.0, 280.0), (9000.0, 9100.0)),
]


@pytest.mark.parametrize("upper", [False, True])
def test_relative_errors(upper):
    a, x = torch.tensor(POINTS, dtype=torch.float64).unbind(1)
    function = torch.special.gammaincc if upper else torch.special.gammainc
    with mpmath.workdps(60):
        exact = [mpmath.gammainc(s, *((t, mpmath.inf) if upper else (0, t)), regularized=True) for s, t in POINTS]
        exact = torch.tensor([float(e) for e in exact], dtype=torch.float64)
    torch.testing.assert_close(function(a.to("tpu"), x.to("tpu")).cpu(), exact, rtol=2e-12, atol=0)
