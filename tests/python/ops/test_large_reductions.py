"""Reductions of several dimensions of large arrays, which run as steps of elementwise ops on CPU targets."""

import pytest
import torch
from harness import agree

SHAPES = {(37, 131): (0, 1), (6, 17, 5, 23): (0, 2, 3), (8, 128, 96): (0, 1), (64, 3, 64): (0, 2)}
cases = pytest.mark.parametrize(("shape", "dims"), SHAPES.items())


@cases
@pytest.mark.parametrize("position", [0, 1501, -1])
def test_nan_wins(shape, dims, position):
    def body(device):
        x = torch.ones(shape)
        x.view(-1)[position] = torch.nan
        x = x.to(device)
        return x.amax(dims), x.amin(dims), x.sum(dims), x.max()

    agree(body)


@cases
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_exact_dtypes(shape, dims, dtype):
    def body(device):
        x = (torch.arange(torch.Size(shape).numel()) * 7919 % 251).to(dtype).view(shape).to(device)
        return x.sum(dims), x.amax(dims), x.amin(dims), x.prod(), x.any(), x.all()

    agree(body)


@cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_sums_are_as_exact_as_pairwise_ones(shape, dims, dtype):
    torch.manual_seed(0)
    x = torch.rand(shape).to(dtype)
    actual, exact = x.to("tpu").sum(dims).cpu(), x.double().sum(dims)
    torch.testing.assert_close(actual.double(), exact, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_many_small_terms_are_not_lost():
    x = torch.full((1024, 1024), 2.0**-24)
    x[0, 0] = 1
    assert abs(x.to("tpu").sum().item() - x.double().sum().item()) < 1e-6


def test_batch_statistics():
    def body(device):
        torch.manual_seed(0)
        x = (torch.randn(16, 8, 32, 32) + 100).to(device).requires_grad_()
        norm = torch.nn.BatchNorm2d(8).to(device)
        y = norm(x)
        y.square().mean().backward()
        return y.detach(), norm.running_mean, norm.running_var, norm.weight.grad

    agree(body, tol=1e-4)
