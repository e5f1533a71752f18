"""Errors that only values show: found on the device, raised where the values are read or the device is synchronized."""

import pytest
import torch
from harness import agree

import torch_tpu  # noqa: F401

DIVISIONS = {
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "div_floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "floor_divide_": lambda x, y: x.clone().floor_divide_(y),
    "remainder_of_number": lambda x, y: torch.remainder(5, y),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("divide", DIVISIONS.values(), ids=DIVISIONS.keys())
def test_integer_division_by_zero(divide, dtype):
    def body(device, divisors):
        return divide(torch.tensor([7, 3], dtype=dtype, device=device), torch.tensor(divisors, device=device).to(dtype))

    raised = agree(body, [2, 0])
    assert isinstance(raised, RuntimeError) and "ZeroDivisionError" in str(raised)
    agree(body, [2, 5])  # the same program, and the error is gone


@pytest.mark.parametrize("divide", [lambda x: x // 0, lambda x: x % 0, lambda x: torch.fmod(x, 0)])
def test_integer_division_by_the_number_zero(divide):
    raised = agree(lambda d: divide(torch.arange(3, device=d)))
    assert isinstance(raised, RuntimeError)
    agree(lambda d: divide(torch.arange(3, device=d)[:0]))  # nothing is divided
    agree(lambda d: divide(torch.arange(3.0, device=d)))


def test_extremes_of_integer_division():
    # Processors trap here, and so do some of the CPU's kernels.
    lowest = -(2**63)
    x, y = torch.tensor([lowest, -7, 7], device="tpu"), torch.tensor([-1, 2, -2], device="tpu")
    expected = {
        "floor_divide": [lowest, -4, -4],
        "div_trunc": [lowest, -3, -3],
        "remainder": [0, 1, -1],
        "fmod": [0, -1, 1],
    }
    for name, values in expected.items():
        assert DIVISIONS[name](x, y).tolist() == values


def test_the_error_is_raised_at_the_synchronization():
    torch.tensor([1], device="tpu") // torch.tensor([0], device="tpu")
    with pytest.raises(RuntimeError, match=r"floor_divide.*TORCH_TPU_LAUNCH_BLOCKING"):
        torch.tpu.synchronize()
    torch.tpu.synchronize()


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "matrix_rank", "pinv", "cond"])
def test_decompositions_of_nan(name):
    raised = agree(lambda d: getattr(torch.linalg, name)(torch.full((3, 3), float("nan"), device=d)))
    assert isinstance(raised, torch.linalg.LinAlgError) and "non-finite" in str(raised)


@pytest.mark.parametrize("name", ["eig", "eigvals"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_eigenvalues_of_what_is_not_finite(name, value):
    # PyTorch's own eigvals crashes on NaN with MKL; eig raises this.
    with pytest.raises(RuntimeError, match=r"torch\.linalg\.eig: input tensor should not contain infs or NaNs"):
        getattr(torch.linalg, name)(torch.full((2, 3, 3), value, device="tpu")).__getitem__(0)[0].cpu()


def test_inverse_of_a_singular_factor():
    raised = agree(lambda d: torch.cholesky_inverse(torch.diag(torch.tensor([1.0, 0, 2], device=d))))
    assert isinstance(raised, torch.linalg.LinAlgError)
    agree(lambda d: torch.cholesky_inverse(torch.diag(torch.tensor([1.0, 4, 2], device=d))))


def test_lu_without_pivoting():
    for f in (torch.linalg.lu, torch.linalg.lu_factor, torch.linalg.lu_factor_ex):
        assert isinstance(agree(lambda d, f=f: f(torch.eye(3, device=d), pivot=False)), RuntimeError)


@pytest.mark.parametrize("lengths", [[1, 2], [5, -1], [2, 3]])
def test_lengths_of_segments(lengths):
    body = lambda d, n: torch.segment_reduce(torch.arange(4.0, device=d), "sum", lengths=torch.tensor(n, device=d))
    assert isinstance(agree(body, lengths), RuntimeError)
    agree(body, [1, 3])

    def gradient(d):
        x = torch.arange(4.0, device=d, requires_grad=True)
        torch.segment_reduce(x, "max", lengths=torch.tensor([1, 3], device=d)).sum().backward()
        return x.grad

    agree(gradient)


def test_false_times_what_is_not_a_number():
    def body(d):
        b = torch.tensor([False, True, False, False], device=d)
        x = torch.tensor([float("nan"), float("nan"), float("inf"), -1.0], device=d)
        product = b * x
        return product, torch.addcmul(torch.zeros_like(x), b.float(), x), torch.signbit(product[3])

    agree(body)
