"""Lazily conjugated, negated and zero tensors: bits of a view that kernels have to honor."""

import pytest
import torch
from harness import agree, compare


def sample(device, *sizes):
    """The same numbers on every device."""
    numbers = torch.randn(*sizes, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
    return numbers.to(device)


# PyTorch's conjugate fallback steps aside for these ops: BLAS has a flag for it.
PRODUCTS = {
    "mm": lambda a: torch.mm(a.conj(), a),
    "mm of both": lambda a: torch.mm(a.conj(), a.mH),
    "addmm": lambda a: torch.addmm(a.conj(), a.conj(), a),
    "bmm": lambda a: torch.bmm(a[None].conj(), a[None]),
    "baddbmm": lambda a: torch.baddbmm(a[None].conj(), a[None], a[None].conj()),
    "dot": lambda a: torch.dot(a[0].conj(), a[1]),
    "vdot": lambda a: torch.vdot(a[0].conj(), a[1]),
}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_products_read_conjugated_arguments(product):
    agree(lambda device: product(sample(device, 3, 3)), tol=1e-5)


def test_bits_are_part_of_the_key():
    def run(device):
        a = sample(device, 3, 3)
        return [torch.mm(x, a) for x in (a, a.conj(), a)]

    agree(run, tol=1e-5)


def test_writes_through_lazy_views():
    def run(device):
        x = sample(device, 4, 4)
        x.conj().mul_(2j)
        x.conj().imag.add_(1)
        first = x.clone()
        torch.mm(first, first, out=x.conj())
        return first, x

    agree(run, tol=1e-5)


def test_zero_tensors_without_memory():
    def run(device):
        zeros = torch._efficientzerotensor((2, 3), device=device)
        ones = torch.ones(2, 3, device=device)
        return zeros._is_zerotensor(), zeros + 1, zeros.clone(), ones.copy_(zeros), zeros * 2

    agree(run)


def test_kernels_that_take_zero_tensors_as_they_are():
    def run(device):
        zeros, ones = torch._efficientzerotensor((3,), device=device), torch.ones(3, device=device)
        results = [torch.ops.aten.mul.Scalar(zeros, 2), torch.dot(zeros, ones), torch.vdot(ones, zeros)]
        return torch.ops.aten.add.Scalar(zeros, 2), *(ones[0] + r for r in results)

    agree(run)


def test_gradient_of_zero():
    x = torch.randn(3, device="tpu", requires_grad=True)
    x.sgn().sum().backward()
    compare(x.grad, torch.zeros(3))
