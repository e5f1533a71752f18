"""Matrix products whose operand was changed in place: the same memory, other contents."""

import pytest
import torch


@pytest.mark.parametrize("m, k, n", [(1024, 384, 1536), (1024, 1536, 384), (64, 64, 64), (8, 1024, 256)])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_after_in_place_update(m, k, n, transposed):
    # XLA's CPU backend packed the right operand once for each address (XNNPACK), and read the old one ever after.
    weight = torch.randn((n, k) if transposed else (k, n))
    x = torch.randn(m, k)
    device_weight, device_x = weight.to("tpu"), x.to("tpu")
    for step in range(3):
        expected = x @ (weight.t() if transposed else weight)
        result = device_x @ (device_weight.t() if transposed else device_weight)
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-3, msg=f"step {step}")
        weight.mul_(0.5).add_(step)
        device_weight.mul_(0.5).add_(step)


def test_convolution_after_in_place_update():
    weight, x = torch.randn(16, 8, 3, 3), torch.randn(4, 8, 16, 16)
    device_weight, device_x = weight.to("tpu"), x.to("tpu")
    for _ in range(3):
        expected = torch.nn.functional.conv2d(x, weight)
        torch.testing.assert_close(
            torch.nn.functional.conv2d(device_x, device_weight).cpu(), expected, rtol=1e-4, atol=1e-3
        )
        weight.mul_(-0.5)
        device_weight.mul_(-0.5)
