"""Dtypes of results and values at their edges, as CPU has them."""

import pytest
import torch
from harness import agree
from torch.nn import functional as F


def test_integer_reductions_widen():
    def body(device):
        m = torch.tensor([[100, 3], [-7, 90]], dtype=torch.int8, device=device)
        b = torch.tensor([[200, 3], [7, 90]], dtype=torch.uint8, device=device)
        t = torch.tensor([True, True], device=device)
        return m.prod(1), b.cumprod(1), b.sum(), t.sum(), t.prod(), b.cumsum(0), t.to(torch.int32).sum(dtype=torch.int8)

    agree(body)


def test_promotion_with_scalars():
    def body(device):
        a = torch.arange(10, device=device).to(torch.bfloat16)
        h = torch.tensor(2.5, dtype=torch.float64, device=device)
        i = torch.arange(3, device=device)
        return (
            torch.pow(a, 3.0),
            a * 0.5,
            a * h,
            i / 2,
            torch.ones(2, dtype=torch.int32, device=device) + 1.5,
            i.to(torch.int8) + 1000,
            i.to(torch.uint8) - 1,
            i > 1.5,
            i.bool() + i.bool(),
            i * True,
            i + 1j,
            torch.tensor(3, device=device) * torch.ones(2, dtype=torch.int16, device=device),
            i // 2.0,
            2**i,
            a.half() + a,
            torch.tensor(1, dtype=torch.int32, device=device) + torch.tensor(2, dtype=torch.int8, device=device),
        )

    agree(body)


def test_promotion_table():
    kinds = [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int32,
        torch.int64,
        torch.bfloat16,
        torch.float16,
        torch.float32,
    ]

    def body(device):
        return [
            torch.ones(2, dtype=a, device=device) + torch.ones(2, dtype=b, device=device) for a in kinds for b in kinds
        ]

    agree(body)


def test_cat_promotes():
    def body(device):
        z = torch.cat([torch.ones(2, 3, dtype=torch.int64, device=device), torch.full((2, 1), 0.5, device=device)], 1)
        return z, torch.stack([torch.ones(2, dtype=torch.int32, device=device)] * 2)

    agree(body)


def test_int64_is_kept():
    def body(device):
        x = torch.tensor([2**40 + 1, -(2**40) - 3, 2**62], device=device)
        return (
            x,
            x * 2 - 1,
            x >> 3,
            x // 7,
            x % 1000,
            x.unsqueeze(0),
            torch.tensor([2**53 + 1], device=device).sum(),
            torch.arange(2**33, 2**33 + 3, device=device),
            x + (2**45 + 1),
            torch.full((2,), 2**53 + 1, device=device),
            x == 2**40 + 1,
            x.clamp(max=2**41 + 1),
            torch.iinfo(torch.int64).max - x[:1],
            x.max(),
        )

    agree(body)


def test_float64_is_kept():
    def body(device):
        x = torch.tensor([1.0, 1e-10], dtype=torch.float64, device=device)
        return (
            x.sum() - 1.0,
            x / 3,
            x * 0.1,
            x + 1e-17,
            torch.tensor(0.1, dtype=torch.float64, device=device).item(),
            torch.full((1,), 1 / 3, dtype=torch.float64, device=device),
            torch.linspace(0, 1, 3, dtype=torch.float64, device=device),
            torch.arange(0, 0.3, 0.1, dtype=torch.float64, device=device),
        )

    agree(body)


def test_scalar_values_are_exact():
    def body(device):
        a = torch.ones(2, device=device)
        return [
            (torch.add(a, a, alpha=lr), a * lr) for lr in (1e-9, 1e-8, 0.5, 1 / 3, 16777217, 1e38, -0.0, float("inf"))
        ]

    agree(body)


def test_casts():
    def body(device):
        t = torch.tensor([0.9, 1.5, 2.5, 200.7, 255.0], device=device)
        i = torch.tensor([-1, 256, 300, 70000], device=device)
        h = torch.linspace(-3, 3, 8).to(device)
        return (
            t.to(torch.uint8),
            t.to(torch.int32),
            (-t).to(torch.int32),
            i.to(torch.uint8),
            i.to(torch.int16),
            i.to(torch.bool),
            h.to(torch.float16),
            h.to(torch.bfloat16),
            h.to(torch.bool),
            h.double().to(torch.float32),
            torch.tensor([65520.0, 1e-8, 3.4e38], device=device).to(torch.float16),
            torch.tensor([3.4e38, 1.00390625], device=device).to(torch.bfloat16),
            torch.tensor([1 + 2j], device=device).to(torch.complex128),
            -torch.tensor([1, -2, 7], dtype=torch.int32, device=device),
        )

    agree(body)


def test_gather_is_bit_exact():
    def body(device):
        w = torch.arange(4096.0, device=device).view(2048, 2) + 0.25
        i = torch.tensor([0, 257, 1023, 2047], device=device)
        j = torch.tensor([1, 0, 1, 0], device=device)
        return w.index_select(0, i), F.embedding(i, w), torch.gather(w, 0, i.view(2, 2)), w[i, j], w[-1, -2]

    agree(body)


def test_default_dtype_is_followed():
    def body(device):
        torch.set_default_dtype(torch.float64)
        try:
            x = torch.arange(3, device=device)
            return x / 2, torch.ones(2, device=device), x * 1.5, torch.full((1,), 0.1, device=device), x.sqrt()
        finally:
            torch.set_default_dtype(torch.float32)

    agree(body, tol=1e-15)
    agree(lambda device: torch.arange(3, device=device) / 2)


def test_dtypes_that_the_device_lacks():
    for make in (
        lambda: torch.empty(2, dtype=torch.bits8, device="tpu"),
        lambda: torch.empty(2, dtype=torch.bits8).to("tpu"),
    ):
        with pytest.raises((TypeError, RuntimeError), match=r"tpu.*Bits8|Bits8.*tpu"):
            make()
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to("tpu")
    assert torch.ones(1, device="tpu").item() == 1


def test_host_access():
    def body(device):
        t = torch.arange(6, device=device).view(2, 3).t()
        return (
            t.tolist(),
            bool((t > -1).all()),
            int(t[2, 1]),
            float(t.float().mean()),
            t.cpu().numpy().tolist(),
            t.numpy(force=True).tolist(),
            [int(v) for v in t[0]],
            f"{t[0, 1].item()} {t[0, 1]}",
            [4, 5, 6][t[0, 0]],
            len(t),
            5 in t,
            torch.tensor([1.5, 2.5], device=device).tolist(),
            torch.tensor([1 + 2j], device=device).tolist(),
        )

    agree(body)


FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_float8_conversions(dtype):
    edges = [
        0.0,
        -0.0,
        float("inf"),
        -float("inf"),
        float("nan"),
        448,
        449,
        464,
        465,
        480,
        240,
        248,
        57344,
        61440,
        65536,
    ]
    powers = [s * 1.5**m * 2.0**e for e in range(-20, 17) for m in (0, 1) for s in (1, -1)]
    values = torch.tensor(edges + powers)

    def body(device, source):
        converted = values.to(source).to(device).to(dtype)
        return converted.float(), torch.arange(256, dtype=torch.uint8).view(dtype).to(device).to(source)

    for source in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        agree(body, source)
    agree(lambda d: torch.tensor([0, 1, 3, 1000], device=d).to(dtype).float())


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.complex64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["abs", "ceil", "floor", "frac", "round", "trunc"])
def test_roundings_take_what_the_cpu_takes(name, dtype):
    agree(lambda d: getattr(torch, name)(torch.ones(3, dtype=dtype, device=d)))

    def in_place(device):
        tensors = [torch.ones(n, dtype=dtype, device=device) for n in (2, 3)]
        getattr(torch, f"_foreach_{name}_")(tensors)
        return tensors

    agree(in_place)
    agree(lambda d: getattr(torch, f"_foreach_{name}")([torch.ones(3, dtype=dtype, device=d)]))


def test_scattered_copies_keep_gaps():
    def body(device):
        x = torch.arange(60.0, device=device).view(6, 10)[::2, 1:8:3]
        y = torch.ones(3, device=device)
        wide = torch.arange(3.0, device=device).expand(3, 3)
        results = [
            torch.select_scatter(x, y, 0, 1),
            torch.slice_scatter(x, y[:, None], 1, 2, None),
            torch.diagonal_scatter(x, y),
            torch.select_scatter(wide, y, 1, -1),
            x,
        ]
        return results, [r.stride() for r in results]  # the CPU copies what is before the view, too

    agree(body)
    agree(lambda d: torch.select_scatter(torch.zeros(4, 6, device=d)[:, ::2], torch.ones(5, device=d), 0, 1))
