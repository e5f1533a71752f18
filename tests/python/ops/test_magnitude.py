"""Absolute values of complex numbers: the nearest float, and the same one wherever it is taken."""

import itertools
import math

import torch

PARTS = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 3e38, 1e-30]


def numbers():
    torch.manual_seed(0)
    special = torch.tensor([complex(*parts) for parts in itertools.product(PARTS, PARTS)])
    return torch.cat([special, 5 * torch.randn(4000, dtype=torch.complex64)])


def test_nearest_float():
    x = numbers()
    expected = x.abs()
    torch.testing.assert_close(x.to("tpu").abs().cpu(), expected, rtol=0, atol=0, equal_nan=True)
    norms = torch.linalg.vector_norm(x.to("tpu")[:, None], math.inf, dim=1)
    torch.testing.assert_close(norms.cpu(), expected, rtol=0, atol=0, equal_nan=True)


def test_gradient_finds_the_element_that_is_the_norm():
    # The norm is complex128's, the magnitudes that the gradient compares it with are complex64's.
    def gradient(device):
        x = torch.view_as_complex(torch.linspace(-9, 9, 200).view(100, 2)).to(device).requires_grad_()
        parts = [part for part in x.view(20, 5)]
        sum(n.real for n in torch._foreach_norm(parts, -math.inf, dtype=torch.complex128)).backward()
        return x.grad.cpu()

    torch.testing.assert_close(gradient("tpu"), gradient("cpu"))
