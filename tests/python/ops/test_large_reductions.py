"""Reductions of large arrays, which run in steps on CPU targets."""

import pytest
import torch
from harness import agree

SHAPES = {
    (5003,): (0,),
    (37, 131): (0,),
    (131, 37): (1,),
    (257, 129): (0, 1),
    (3, 7001): (1,),
    (6, 17, 5, 23): (0, 2, 3),
    (6, 5, 17, 23): (1, 3),
    (8, 128, 96): (0, 1),
    (8, 128, 384): (0, 1, 2),
    (64, 3, 64): (0, 2),
    (300, 2, 4, 4): (0, 2, 3),
}
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
    x = (torch.rand(shape) / 8).to(dtype)  # float16 holds the sums
    actual, exact = x.to("tpu").sum(dims).cpu(), x.double().sum(dims)
    torch.testing.assert_close(actual.double(), exact, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_many_small_terms_are_not_lost():
    x = torch.full((1024, 1024), 2.0**-24)
    x[0, 0] = 1
    assert abs(x.to("tpu").sum().item() - x.double().sum().item()) < 1e-4


@cases
def test_positions_of_extremes(shape, dims):
    def body(device):
        x = (torch.arange(torch.Size(shape).numel()) * 7919 % 13).float().view(shape).to(device)
        y = x.clone()
        y.view(-1)[1501] = torch.nan
        picked = [f(t, dims[0]) for t in (x, y) for f in (torch.max, torch.min, torch.argmax, torch.argmin)]
        return [tuple(p) if isinstance(p, tuple) else p for p in picked], x.median(dims[0])[0], x.argmax()

    agree(body)


def test_batch_statistics():
    def body(device):
        torch.manual_seed(0)
        x = (torch.randn(16, 8, 32, 32) + 100).to(device).requires_grad_()
        norm = torch.nn.BatchNorm2d(8).to(device)
        y = norm(x)
        y.square().mean().backward()
        return y.detach(), norm.running_mean, norm.running_var, norm.weight.grad

    agree(body, tol=1e-4)
