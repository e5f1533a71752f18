"""Fake quantization, observers, integer products; quantized dtypes are refused by name."""

import pytest
import torch
from harness import agree


def sample(device):
    torch.manual_seed(0)
    return (torch.randn(4, 6) * 3).to(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_fake_quantize(dtype):
    def body(d):
        x = sample(d).to(dtype).requires_grad_()
        out = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -16, 15)
        out.sum().backward()
        return out, x.grad

    agree(body)


def test_fake_quantize_by_tensors():
    def body(d):
        scale, zero = torch.tensor([0.1], device=d), torch.tensor([2], dtype=torch.int32, device=d)
        x = sample(d).requires_grad_()
        out = torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)
        out.sum().backward()
        return out, x.grad

    agree(body)


@pytest.mark.parametrize("axis", [0, 1])
def test_fake_quantize_channels(axis):
    def body(d):
        x = sample(d).requires_grad_()
        n = x.shape[axis]
        scale = torch.linspace(0.05, 0.2, n).to(d)
        zero = torch.arange(n, dtype=torch.int32, device=d)
        out = torch.fake_quantize_per_channel_affine(x, scale, zero, axis, -8, 7)
        out.sum().backward()
        return out, x.grad

    agree(body)


def test_learnable():
    def body(d):
        results = []
        for channels in (False, True):
            x = sample(d).requires_grad_()
            n = x.shape[0] if channels else 1
            scale = torch.full((n,), 0.1, device=d, requires_grad=True)
            zero = torch.full((n,), 2.3, device=d, requires_grad=True)
            if channels:
                out = torch._fake_quantize_learnable_per_channel_affine(x, scale, zero, 0, 0, 255, 0.5)
            else:
                out = torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 255, 0.5)
            out.square().sum().backward()
            results += [out, x.grad, scale.grad, zero.grad]
        return results

    agree(body, tol=1e-4)


@pytest.mark.parametrize("name", ["MinMaxObserver", "MovingAverageMinMaxObserver", "PerChannelMinMaxObserver"])
def test_observers(name):
    def body(d):
        observer = getattr(torch.ao.quantization, name)().to(d)
        observer(sample(d))
        observer(sample(d) * 2)
        return observer.calculate_qparams()

    agree(body, tol=1e-6)


@pytest.mark.parametrize("per_channel", [False, True])
def test_fused_observer(per_channel):
    def body(d):
        n = 4 if per_channel else 1
        low, high = torch.full((n,), float("inf"), device=d), torch.full((n,), float("-inf"), device=d)
        scale, zero = torch.ones(n, device=d), torch.zeros(n, dtype=torch.int32, device=d)
        on = torch.ones(1, dtype=torch.int64, device=d)
        results = []
        for step in range(3):
            x = (sample(d) * (step + 1)).requires_grad_()
            out = torch.fused_moving_avg_obs_fake_quant(
                x, on, on, low, high, scale, zero, 0.1, -128, 127, 0, per_channel, True
            )
            out.sum().backward()
            results += [out, x.grad, low.clone(), high.clone(), scale.clone(), zero.clone()]
        return results

    agree(body, tol=1e-5)


def test_module():
    def body(d):
        fake = torch.ao.quantization.FusedMovingAvgObsFakeQuantize().to(d)
        out = fake(sample(d))
        return out, fake.scale, fake.zero_point

    agree(body, tol=1e-5)


def test_integer_product():
    def body(d):
        a = (torch.arange(32 * 16, device=d).reshape(32, 16) % 255 - 127).to(torch.int8)
        return torch._int_mm(a, a.t().contiguous())

    agree(body)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.quantize_per_tensor(sample("tpu"), 0.1, 0, torch.qint8),
        lambda: torch.quantize_per_channel(
            sample("tpu"), torch.ones(4, device="tpu"), torch.zeros(4, device="tpu"), 0, torch.qint8
        ),
        lambda: torch.quantize_per_tensor(sample("cpu"), 0.1, 0, torch.qint8).to("tpu"),
    ],
)
def test_quantized_dtypes_are_refused(make):
    with pytest.raises(NotImplementedError, match="fake_quantize"):
        make()
