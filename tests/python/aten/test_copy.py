"""Copies: to the device, back, within it, between devices, of every dtype and stride."""

import pytest
import torch
from harness import agree, compare, run_python

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
]


def sample(dtype):
    values = torch.tensor([[0, 1, 2], [3, 100, 7]])
    if dtype == torch.bool:
        return values % 2 == 1
    if dtype.is_complex:
        return torch.complex(values.double(), -values.double() / 3).to(dtype)
    return values.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype):
    x = sample(dtype)
    d = x.to("tpu")
    assert d.dtype == dtype and d.device == torch.device("tpu", 0)
    compare(d.view(torch.uint8) if dtype.itemsize == 1 else d, x.view(torch.uint8) if dtype.itemsize == 1 else x)
    compare(d.t().contiguous(), x.t().contiguous())
    compare(d[1, 1:], x[1, 1:])
    assert str(d[1, 0].item()) == str(x[1, 0].item())
    assert d.tolist() == x.tolist()
    y = torch.zeros_like(d)
    y[:, 1] = d[:, 2]
    assert y[:, 1].tolist() == d[:, 2].tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("to", [torch.float32, torch.int32, torch.bool, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_dtype_change(dtype, to):
    def body(device):
        x = sample(dtype).to(device)
        host_to_other = torch.zeros(2, 3, dtype=to, device=device).copy_(sample(dtype))
        back = torch.zeros(2, 3, dtype=to).copy_(x)
        return x.to(to), host_to_other, back

    agree(body)


def test_extreme_values():
    def body(device):
        big = torch.tensor([2**62, -(2**63), 2**63 - 1, 2**53 + 1]).to(device)
        unsigned = torch.tensor([2**64 - 1, 2**63, 1], dtype=torch.uint64).to(device)
        tiny = torch.tensor([1e-310, -0.0, float("inf"), float("-inf")], dtype=torch.float64).to(device)
        subnormal = torch.tensor([1e-45, 1e-40, -1e-42]).to(device)
        return big, unsigned, tiny, subnormal, subnormal.view(torch.int32), big[1].item(), unsigned[0].item()

    agree(body)


def test_nan_bits_are_kept():
    bits = torch.tensor([0x7FC00001, -0x3FFFFE, 0x7F800001], dtype=torch.int32)
    x = bits.view(torch.float32).to("tpu")
    assert x.view(torch.int32).tolist() == bits.tolist()
    assert x.cpu().view(torch.int32).tolist() == bits.tolist()
    assert x[1:].clone().cpu().view(torch.int32).tolist() == bits[1:].tolist()


STRIDES = {
    "transposed": lambda x: x.t(),
    "columns": lambda x: x[:, 1:4],
    "steps": lambda x: x[::2, ::3],
    "expanded": lambda x: x[0].expand(3, 6),
    "row": lambda x: x[2],
    "diagonal": lambda x: x.diagonal(),
    "windows": lambda x: x.unfold(1, 3, 1),
    "flipped": lambda x: x.flip(0),
    "empty": lambda x: x[1:1],
    "scalar": lambda x: x[1, 2],
}


@pytest.mark.parametrize("source", STRIDES.values(), ids=STRIDES.keys())
def test_strides(source):
    base = torch.arange(24.0).view(4, 6)
    host = source(base)
    moved = host.to("tpu")
    compare(moved, host)
    if not any(s == 0 for s in host.stride()) and host.numel():
        assert moved.stride() == host.to("cpu", copy=True).stride()
    device = source(base.to("tpu"))
    compare(device, host)
    assert device.cpu().is_contiguous() == host.clone().is_contiguous()
    # Into a part of a host tensor, and of a device tensor, from both sides.
    for target_device in ("cpu", "tpu"):
        for src in (host, device):
            room = torch.zeros([n + 2 for n in host.shape], device=target_device)
            room[tuple(slice(1, n + 1) for n in host.shape)].copy_(src)
            expected = torch.zeros([n + 2 for n in host.shape])
            expected[tuple(slice(1, n + 1) for n in host.shape)].copy_(host)
            compare(room, expected)


def test_broadcast_on_copy():
    def body(device):
        x = torch.zeros(3, 4, device=device)
        x.copy_(torch.arange(4.0))
        x[1:].copy_(torch.arange(2.0).view(2, 1).to(device))
        x[0, 0] = torch.tensor(5)
        x[2, 1:3] = torch.tensor([1.5, 2.5])
        h = torch.zeros(2, 4)
        h.copy_(x[1].to(device))
        return x, h

    agree(body)


def test_slices_leave_the_rest_alone():
    def body(device):
        d = torch.zeros(64, dtype=torch.int32, device=device)
        d[:9].copy_(torch.arange(9, dtype=torch.int32))
        d[20:29].copy_(d[:9])
        m = torch.zeros(8, dtype=torch.bool, device=device)
        m[2] = True
        host = torch.zeros(4, dtype=torch.int32)
        host[1:3].copy_(d[1:3])
        return d, m, host

    agree(body)


def test_host_memory_is_read_before_the_call_returns():
    """The source may be changed at once, non_blocking or not."""
    for non_blocking in (False, True):
        x = torch.ones(1 << 16)
        d = x.to("tpu", non_blocking=non_blocking)
        x.fill_(-1)
        y = torch.empty(1 << 16, device="tpu").copy_(x, non_blocking=non_blocking)
        x.fill_(7)
        assert d.sum().item() == 1 << 16 and y.sum().item() == -(1 << 16)


def test_host_copies_do_not_change_later():
    d = torch.arange(4.0, device="tpu")
    h, n, w = d.cpu(), d.to("cpu", non_blocking=True), torch.empty(4).copy_(d, non_blocking=True)
    d.add_(10)
    torch.tpu.synchronize()
    h.mul_(2)
    assert (h / 2).tolist() == n.tolist() == w.tolist() == [0, 1, 2, 3]
    assert d.tolist() == [10, 11, 12, 13]


def test_sharing_until_written():
    """Whole copies share the array; no write shows through."""
    a = torch.arange(4.0, device="tpu")
    b, c = a.clone(), torch.empty(4, device="tpu")
    c.copy_(a)
    view = b.view(2, 2)
    b.add_(1)
    c[0] = 9
    assert (a.tolist(), view.flatten().tolist(), c.tolist()) == ([0, 1, 2, 3], [1, 2, 3, 4], [9, 1, 2, 3])


def test_zero_dim_and_empty():
    def body(device):
        s = torch.tensor(3.5, device=device)
        e = torch.empty(0, 3, device=device)
        e2 = torch.empty(0, 3).to(device).copy_(e)
        return s, s.cpu(), s.item(), int(s), float(s), bool(s), e, e.cpu(), e2.sum(), e.t().contiguous(), s.view(1)[0]

    agree(body)


def test_pinned_memory():
    x = torch.arange(6.0).pin_memory()
    assert x.is_pinned() and x[2:].is_pinned() and not torch.arange(6.0).is_pinned()
    d = x.to("tpu", non_blocking=True)
    out = torch.empty(6, pin_memory=True)
    out.copy_(d, non_blocking=True)
    torch.tpu.synchronize()
    assert out.tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(2, pin_memory=True, device="tpu")
    with pytest.raises(RuntimeError, match="pin"):
        d.pin_memory()


def test_to_returns_self():
    x = torch.ones(2, device="tpu")
    assert x.to("tpu") is x and x.to("tpu:0") is x and x.tpu() is x and x.is_tpu
    assert x.to("tpu", copy=True) is not x
    assert x.to(torch.device("tpu")).device.index == 0
    assert torch.ones(2).tpu().device.type == "tpu"


def test_meta_tensors():
    m = torch.empty(2, 3, device="meta")
    assert torch.empty(2, 3, device="tpu").to("meta").shape == (2, 3)
    with pytest.raises(NotImplementedError):
        m.to("tpu")
    assert torch.empty_like(m, device="tpu").device.type == "tpu"
    module = torch.nn.Linear(2, 3, device="meta").to_empty(device="tpu")
    assert module.weight.device.type == "tpu"


def test_mixed_devices():
    x, h = torch.ones(3, device="tpu"), torch.ones(3)
    for call in (
        lambda: x + h,
        lambda: h + x,
        lambda: x.add_(h),
        lambda: torch.cat([x, h]),
        lambda: torch.mm(x.view(1, 3), h.view(3, 1)),
        lambda: torch.where(x > 0, x, h),
        lambda: torch.add(x, x, out=h),
        lambda: torch.nn.functional.linear(x, h.view(1, 3)),
    ):
        with pytest.raises(
            RuntimeError, match=r"[Ee]xpected all tensors to be on the same device.*tpu:0.*cpu|cpu.*tpu:0"
        ):
            call()
    assert (x + torch.tensor(2.0)).tolist() == [3, 3, 3]  # a zero-dimensional CPU tensor is a number
    assert (torch.tensor(2.0) * x).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="same device"):
        torch.equal(x, h)


def test_shape_errors():
    agree(lambda device: torch.zeros(2, 3, device=device).copy_(torch.zeros(4)))
    agree(lambda device: torch.zeros(2, 3).copy_(torch.zeros(4, device=device)))
    agree(lambda device: torch.zeros(2, device=device).item())


def test_wrong_index():
    for call in (
        lambda: torch.ones(2, device="tpu:7"),
        lambda: torch.ones(2).to("tpu:7"),
        lambda: torch.empty(2, device="tpu:1"),
        lambda: torch.zeros_like(torch.ones(1), device="tpu:3"),
    ):
        with pytest.raises(RuntimeError, match=r"tpu:\d.*1 tpu device|invalid device"):
            call()


def test_several_devices():
    run_python(
        """
        import torch
        assert torch.tpu.device_count() == 4
        x = torch.arange(6.0).view(2, 3)
        on = [x.to(f"tpu:{i}") for i in range(4)]
        for i, t in enumerate(on):
            assert t.device == torch.device("tpu", i)
            t.add_(i)
            assert (t * 2).device.index == i
        moved = on[1].to("tpu:3")
        on[1].zero_()
        assert moved.device.index == 3 and torch.equal(moved.cpu(), x + 1)
        on[2][:, 1:].copy_(on[3].t()[1:].t())          # parts, between devices
        assert torch.equal(on[2].cpu(), torch.cat([x[:, :1] + 2, x[:, 1:] + 3], 1))
        on[0].copy_(on[3].to(torch.float64))           # with another dtype
        assert torch.equal(on[0].cpu(), x + 3)
        c = torch.view_as_complex(torch.ones(3, 2, device="tpu:1")).conj()
        assert torch.equal(c.to("tpu:2").cpu(), torch.full((3,), 1 - 1j))
        a, b, c, d = on
        for call in (lambda: a + b, lambda: torch.cat(on), lambda: a.add_(c), lambda: torch.equal(a, b)):
            try:
                call()
                raise SystemExit("no error")
            except RuntimeError as e:
                assert "same device" in str(e), e
        s = torch.tensor(2.0, device="tpu:1")
        with torch.tpu.device(2):
            y = torch.ones(2, device="tpu")
            assert y.device.index == 2 and torch.tpu.current_device() == 2
            z = torch.ones(2, device="tpu:0") + 1
            assert z.device.index == 0
        assert torch.tpu.current_device() == 0
        torch.tpu.set_device("tpu:3")
        assert torch.zeros(1).to("tpu").device.index == 3 and torch.rand(1, device="tpu").device.index == 3
        assert torch.zeros_like(on[1]).device.index == 1 and torch.empty_like(on[1]).fill_(3).device.index == 1
        assert torch.zeros(1, device="tpu:0").device.index == 0   # index 0 is not "current"
        torch.manual_seed(3)
        a, b = torch.rand(4, device="tpu:0"), torch.rand(4, device="tpu:1")
        torch.manual_seed(3)
        assert torch.equal(b.cpu(), torch.rand(4, device="tpu:1").cpu())
        g = torch.Generator("tpu:2").manual_seed(5)
        assert g.device.index == 2 and torch.rand(2, device="tpu:2", generator=g).device.index == 2
        before = torch.tpu.memory_allocated(2)
        keep = torch.ones(1024, device="tpu:2") + 0
        torch.tpu.synchronize(2)
        assert torch.tpu.memory_allocated(2) - before >= 4096
        for i in range(4):
            torch.tpu.synchronize(i)
        net = torch.nn.Linear(3, 2).to("tpu:1")
        net(on[1]).sum().backward()
        assert net.weight.grad.device.index == 1
        try:
            torch.ones(1, device="tpu:4")
            raise SystemExit("no error")
        except RuntimeError as e:
            assert "tpu:4" in str(e), e
        torch.tpu.set_device(0)
        a, b = torch.ones(300, device="tpu:0"), torch.ones(300, device="tpu:1")
        for _ in range(3):
            a.add_(1); b.add_(a.to("tpu:1"))
        assert b[0].item() == 10.0
        """,
        TORCH_TPU_CPU_DEVICES=4,
    )
