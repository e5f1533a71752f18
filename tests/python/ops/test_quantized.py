"""Products with quantized weights, and the observer of quantization-aware training."""

import pytest
import torch
from harness import agree

ROWS = [16, 48, 64, 100, 128]  # whole blocks of 64, what is left over, and both


@pytest.mark.parametrize("n", [n for n in ROWS if n % 16 == 0])
def test_int4_weights(n):
    def body(device, dtype):
        g = torch.Generator().manual_seed(n)
        weight = torch.randint(0, 16, (n, 64), generator=g, dtype=torch.int32)
        grid = torch.rand(2, n, 2, generator=g).to(dtype)
        packed = torch._convert_weight_to_int4pack_for_cpu(weight.to(device), 2)
        x = torch.randn(5, 64, generator=g).to(dtype)
        return packed.shape, torch._weight_int4pack_mm_for_cpu(x.to(device), packed, 32, grid.to(device))

    agree(body, torch.float32, tol=1e-4)
    agree(body, torch.bfloat16, tol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_int8_weights(dtype):
    def body(device):
        g = torch.Generator().manual_seed(0)
        x, scales = torch.randn(5, 64, generator=g).to(dtype), torch.rand(48, generator=g).to(dtype)
        weight = torch.randint(-128, 128, (48, 64), generator=g, dtype=torch.int8)
        return torch._weight_int8pack_mm(x.to(device), weight.to(device), scales.to(device))

    agree(body, tol=1e-4 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize("out_dtype", [None, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("by_row", [False, True], ids=["tensor", "row"])
def test_scaled_mm(out_dtype, by_row):
    if by_row and out_dtype != torch.bfloat16:
        pytest.skip("the CPU scales by rows into bfloat16 only")

    def body(device):
        g = torch.Generator().manual_seed(0)
        x, y = (torch.randn(16, 32, generator=g).to(torch.float8_e4m3fn).to(device) for _ in range(2))
        a, b = (torch.rand(16, 1, generator=g).to(device) for _ in range(2))
        if not by_row:
            a, b = a[0, 0], b[0, 0]
        bias = torch.ones(16, dtype=out_dtype or torch.float32).to(device) if out_dtype == torch.bfloat16 else None
        return torch._scaled_mm(x, y.t(), a, b.t(), bias=bias, out_dtype=out_dtype).float()

    agree(body, tol=1e-5 if out_dtype == torch.float32 else 1e-1 if out_dtype is None else 1e-2)


def test_scaled_mm_refuses_what_the_cpu_refuses():
    assert isinstance(
        agree(
            lambda d: torch._scaled_mm(torch.ones(4, 4, device=d), torch.ones(4, 4, device=d), *torch.ones(2, device=d))
        ),
        ValueError,
    )


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("rows", [False, True], ids=["tensor", "rows"])
@pytest.mark.parametrize("switches", [(1, 1), (1, 0), (0, 1), (0, 0)])
def test_moving_average_observer(symmetric, rows, switches):
    def body(device):
        g = torch.Generator().manual_seed(1)
        shape = (4,) if rows else (1,)
        low, high = torch.full(shape, float("inf"), device=device), torch.full(shape, float("-inf"), device=device)
        scale, zero = torch.ones(shape, device=device), torch.zeros(shape, dtype=torch.int32, device=device)
        observer, quantizer = (torch.tensor([s], device=device) for s in switches)
        results = []
        for step in range(3):
            x = (torch.randn(4, 9, generator=g) * (1 + step)).to(device).requires_grad_()
            y = torch.fused_moving_avg_obs_fake_quant(
                x, observer, quantizer, low, high, scale, zero, 0.1, -128, 127, 0, rows, symmetric
            )
            y.sum().backward()
            results += [y, x.grad, low.clone(), high.clone(), scale.clone(), zero.clone()]
        return results

    agree(body, tol=1e-5)


@pytest.mark.parametrize("values", [[0.0, 0.0], [1.0, 2.0], [-3.0, -1.0], [1e-6, -1e-6], [-1e-7, 3.0]])
def test_grid_of_extremes(values):
    def body(device):
        state = [torch.tensor([v], device=device) for v in (float("inf"), float("-inf"), 1.0)]
        zero, on = torch.zeros(1, dtype=torch.int32, device=device), torch.ones(1, device=device)
        x = torch.tensor(values, device=device)
        y = torch.fused_moving_avg_obs_fake_quant(x, on, on, *state, zero, 0.1, 0, 255, 0, False, False)
        return y, state, zero

    agree(body, tol=1e-6)
