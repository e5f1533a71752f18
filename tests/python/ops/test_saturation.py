"""Functions that end in a constant or in their argument: exactly there where that is the nearest number, as on CPU."""

import math

import pytest
import torch
import torch.nn.functional as F

ENDS = [4.0, 6.0, 10.0, 1e4, 3e38, math.inf, math.nan, 0.0]
VALUES = torch.tensor([*ENDS, *(-x for x in ENDS)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("function", [torch.erf, torch.erfc, torch.tanh, torch.sigmoid, torch.special.ndtr])
def test_limits_are_reached(function, dtype):
    x = VALUES.to(dtype)
    expected = function(x)
    actual = function(x.to("tpu")).cpu()
    exact = expected.abs().frac().eq(0) | expected.isnan()
    torch.testing.assert_close(actual[exact], expected[exact], rtol=0, atol=0, equal_nan=True)
    signed = exact & ~x.isnan()
    assert torch.equal(torch.signbit(actual)[signed], torch.signbit(expected)[signed])
    torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_large_values_is_the_value(approximate):
    x = torch.tensor([6.5, 10.0, 1e4, 1e30])
    assert torch.equal(F.gelu(x.to("tpu"), approximate=approximate).cpu(), x)


def test_errors_of_gelu_do_not_add_up():
    x = torch.linspace(-1, 1, 64)
    y, exact = x.to("tpu"), x.double()
    for _ in range(100):
        x, y, exact = F.gelu(x) + 0.5, F.gelu(y) + 0.5, F.gelu(exact) + 0.5
    assert (y.cpu() - exact).abs().max() <= 2 * (x - exact).abs().max()
