"""Views share their storage: reads see writes through any alias, and geometry equals CPU's."""

import copy

import pytest
import torch
from harness import agree
from torch import nn


def iota(device, *sizes, dtype=torch.float32):
    n = 1
    for s in sizes:
        n *= s
    return torch.arange(n).reshape(sizes).to(dtype).to(device)


# One line each: a view of a (4, 6) base. They are read, and written through.
VIEWS = {
    "select": lambda x: x[1],
    "select_last": lambda x: x[:, -1],
    "slice": lambda x: x[1:3],
    "slice_columns": lambda x: x[:, 2:5],
    "step": lambda x: x[::2],
    "step_columns": lambda x: x[:, 1::2],
    "step_uneven": lambda x: x[:, ::4],
    "both": lambda x: x[1:, ::3],
    "transpose": lambda x: x.t(),
    "transpose_slice": lambda x: x.t()[1:4],
    "permute_view": lambda x: x.view(2, 2, 6).permute(2, 0, 1),
    "flatten": lambda x: x.view(-1)[5:17],
    "diagonal": lambda x: x.diagonal(),
    "diagonal_offset": lambda x: x.diagonal(2),
    "narrow": lambda x: x.narrow(1, 3, 2),
    "as_strided": lambda x: x.as_strided((3, 2), (7, 2), 3),
    "as_strided_wrapping": lambda x: x.as_strided((3, 4), (5, 1), 2),
    "unsqueeze": lambda x: x.unsqueeze(1)[2],
    "scalar": lambda x: x[2, 3],
    "chunk": lambda x: x.chunk(3, 1)[1],
    "split": lambda x: x.split(2)[1],
    "unbind": lambda x: x.unbind(1)[4],
    "movedim": lambda x: x.view(4, 2, 3).movedim(0, 2)[1],
    "empty": lambda x: x[2:2],
    "unflatten": lambda x: x.unflatten(1, (3, 2))[:, 1],
    "unfold_apart": lambda x: x.unfold(1, 2, 3),
    "reshape": lambda x: x.reshape(3, 8)[:, 3:5],
    "squeeze": lambda x: x[:, 1:2].squeeze(1),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_read_and_write_through_view(view):
    def body(device):
        x = iota(device, 4, 6)
        v = view(x)
        before = v + 1
        v.mul_(-2)
        v.copy_(v.flip(0) + 100 if v.dim() else v + 100)
        return before, v, x, v.stride(), v.storage_offset()

    agree(body, strides=True)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int64, torch.bfloat16, torch.complex64])
def test_write_through_views_of_dtypes(dtype):
    def body(device):
        x = (iota(device, 4, 6) % 2).to(dtype)
        x[1:3, ::2] = 1
        x.t()[4].logical_not_() if dtype == torch.bool else x.t()[4].add_(1)
        x.view(-1)[7:9].zero_()
        return x

    agree(body)


def test_views_that_overlap_themselves_read():
    def body(device):
        x = iota(device, 10)
        return (
            x.unfold(0, 3, 2),
            x.unfold(0, 4, 1) * 2,
            x.as_strided((2, 3), (2, 1), 0),
            x[2:].as_strided((4,), (1,), 0),
            x.expand(3, 10) + 1,
            x[3].expand(2, 2),
            x[:1].expand(4)[1:].clone(),
        )

    agree(body, strides=False)


def test_as_strided_acts_on_the_storage():
    def body(device):
        x = iota(device, 5, dtype=torch.int64)
        a = x[2:]
        return a.as_strided((2,), (1,)), a.as_strided((4,), (1,), 0), a.storage_offset(), x[1, None]

    agree(body, strides=True)


def test_offsets_that_wrap_around_a_dim():
    """One geometry, offsets that need another plan: each answer is its own."""

    def body(device):
        x = iota(device, 4, 6)
        return [x.as_strided((2, 3), (6, 1), offset) for offset in range(15)]

    agree(body, strides=True)


def test_writes_at_offsets_that_wrap():
    def body(device):
        out = []
        for offset in (0, 2, 4, 5, 9):
            x = iota(device, 4, 6)
            x.as_strided((2, 3), (6, 1), offset).fill_(-1)
            out.append(x)
        return out

    agree(body)


def test_data_assignment():
    def body(device):
        x = torch.zeros(10, device=device)
        y = x.view(2, 5)
        x.data = x.data + 1
        a = y.clone()
        x2 = torch.zeros(10, device=device)
        y2 = x2.view(2, 5)
        x2.data.add_(1)
        x2.data += 1
        t = torch.zeros(80, device=device)
        s = t.data[:10].clone()
        t.data = s
        t.data.add_(1)
        return a, x, y2, t, s

    agree(body, strides=True)


def test_data_assignment_from_another_device():
    t = nn.Parameter(torch.arange(4.0))
    t.data = t.data.to("tpu")
    assert t.device.type == "tpu" and isinstance(t, nn.Parameter)
    t.data.add_(1)
    t.data = t.data.cpu()
    assert t.device.type == "cpu"
    torch.testing.assert_close(t.data, torch.arange(4.0) + 1)


def test_detach_and_no_grad_views_share():
    def body(device):
        x = torch.zeros(4, device=device, requires_grad=True)
        d = x.detach()
        d[1] = 5
        with torch.no_grad():
            x[2:] += 2
        v0 = x._version
        d.add_(1)
        return x, d, x._version - v0, d.data_ptr() == x.data_ptr()

    agree(body)


def test_clone_is_independent():
    def body(device):
        x = iota(device, 3, 3)
        c, k, e = x.clone(), x.t().clone(), torch.empty_like(x)
        e.copy_(x)
        x.add_(10)
        c[0] = -1
        e.mul_(2)
        return x, c, k, e

    agree(body)


def test_assignment_then_use():
    def body(device):
        t = iota(device, 24)
        n = torch.empty(2, 12, device=device)
        n.zero_()
        n[0, :12] = t[:12]
        first = n.clone(), n.sum(0)
        n[:, 3] = t[5]
        n[1] += n[0]
        n[n.shape[0] - 1, 2:4] = 7
        return first, n

    agree(body)


def test_in_place_unary_at_offsets():
    def body(device):
        x = torch.linspace(-2, 2, 12).view(3, 4).to(device)
        x[1].tanh_()
        x[:, 2].neg_()
        x.diagonal().zero_()
        return x

    agree(body, tol=1e-6)


def test_autograd_through_slice_assignment():
    def body(device):
        w = torch.linspace(-1, 1, 12).view(3, 4).to(device).requires_grad_()
        x = iota(device, 2, 3) @ w
        x[:, :2] = 0
        x[0].mul_(3)
        x.sum().backward()
        v = torch.ones(4, device=device, requires_grad=True)
        y = (v * 2).as_strided((2, 2), (1, 1))
        y.sum().backward()
        return w.grad, v.grad

    agree(body, tol=1e-6)


def test_index_copy_and_out_view():
    def body(device):
        dest, src = torch.zeros(6, 4, 5, device=device), iota(device, 3, 4, 5)
        dest.index_copy_(0, torch.tensor([4, 0, 2], device=device), src)
        out = torch.empty(100, device=device)
        r = torch.index_select(src, 0, torch.tensor([2, 1, 0, 1, 2], device=device), out=out.view(5, 4, 5))
        return dest, r, out

    agree(body)


# --- views of another dtype


@pytest.mark.parametrize("to", [torch.int32, torch.int16, torch.uint8, torch.int64, torch.float64, torch.bfloat16])
def test_dtype_views(to):
    def body(device):
        x = iota(device, 4, 6) + 0.5
        v = x.view(to)
        r = v.clone()
        v[1:3].fill_(1) if to != torch.float64 else v[1:3].fill_(0.25)
        y = iota(device, 24)[2:10].view(to)
        return r, v, x, y, v.shape, v.stride(), v.storage_offset()

    agree(body, strides=True)


def test_dtype_view_of_a_slice_is_written_in_place():
    def body(device):
        x = iota(device, 8)
        x.view(torch.uint8)[4:8] = 0
        x[4:6].view(torch.int32)[1] = 0x3F800000
        b = torch.zeros(5, dtype=torch.bool, device=device)
        b.view(torch.uint8)[2] = 1
        bad = torch.zeros(3, 5, dtype=torch.uint8, device=device)
        try:
            bad.view(torch.int32)
            error = None
        except RuntimeError as e:
            error = str(e)
        return x, b, error

    agree(body)


def test_complex_views():
    def body(device):
        x = torch.tensor([[1.0, 2], [3, -4], [5, 6]], device=device)
        c = torch.view_as_complex(x)
        c[1] = 7 + 8j
        r = torch.view_as_real(c)
        r[2, 0] = -1
        c.imag.add_(10)
        c.real[0] = 99
        return x, c, r, c.real, c.imag

    agree(body, strides=True)


def test_conj_and_neg_views():
    def body(device):
        c = torch.tensor([1 + 2j, 3 - 4j, 5j], device=device)
        j = c.conj()
        bits = j.is_conj(), j.imag.is_neg()
        values = j * 2, j.imag + 1, j.clone(), j.imag.clone(), j.resolve_conj(), j[1:].sum()
        j[0] = 9 + 9j  # through the lazy bit
        j.imag[1] = 5
        j.mul_(1j)
        k = torch.zeros(3, dtype=torch.complex64, device=device)
        k.conj().copy_(c)
        k.imag.neg_()
        d = torch.empty(3, dtype=torch.complex64, device=device).copy_(c.conj())
        host = torch.empty(3, dtype=torch.complex64).copy_(c.conj())
        to_conj = torch.zeros(3, dtype=torch.complex64, device=device)
        to_conj.conj().copy_(torch.tensor([1j, 2.0, 3j]))
        adjoint = torch.complex(iota(device, 2, 3), iota(device, 2, 3)).mH
        return bits, values, c, j, k, d, host, to_conj, adjoint.contiguous(), adjoint @ adjoint.mH, c.conj().cpu()

    agree(body)


# --- storages


def test_resize_keeps_data():
    def body(device):
        x = iota(device, 6)
        y = x[1:3]
        x.resize_(2, 2)
        shrunk = x.clone()
        x.resize_(3, 4)
        grown = x.view(-1)[:6].clone()
        x[0] = 1
        z = iota(device, 4)[2:]
        z.resize_(1)
        m = iota(device, 1, 2, 2, 3)
        m.resize_(1, 3, 2, 2, memory_format=torch.channels_last)
        return shrunk, grown, x[0], y, z, x.untyped_storage().nbytes(), m, m.stride()

    agree(body)


def test_resize_grown_view_writes_are_shared():
    def body(device):
        x = iota(device, 4)
        y = x.view(2, 2)
        x.resize_(8)
        x[:4] += 1
        x[4:] = 0
        return x, y

    agree(body)


def test_set():
    def body(device):
        x, y = iota(device, 6), iota(device, 3)
        y.set_(x)
        y[0] = 9
        z = torch.empty(0, device=device)
        z.set_(x.untyped_storage(), 2, (2, 2), (1, 2))
        z[0, 1] = -4
        e = iota(device, 2)
        e.set_()
        s = torch.empty(0, dtype=torch.float32, device=device).set_(x.untyped_storage())
        same = x.is_set_to(y), x.is_set_to(z)
        return x, y, z, e.shape, s, same, y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()

    agree(body)


def test_untyped_storage():
    def body(device):
        x = iota(device, 4, dtype=torch.int16)
        s = x.untyped_storage()
        sizes = s.nbytes(), s.size(), len(s), s.device.type == device
        other = s.clone()
        x.add_(1)
        y = torch.empty(0, dtype=torch.int16, device=device).set_(other)
        s.resize_(12)
        after = s.nbytes()
        fresh = torch.UntypedStorage(8, device=device)
        f = torch.empty(0, dtype=torch.int32, device=device).set_(fresh)
        f.fill_(3)
        s2 = torch.zeros(4, dtype=torch.int16, device=device).untyped_storage()
        s2.copy_(other)
        z = torch.empty(0, dtype=torch.int16, device=device).set_(s2)
        host = torch.empty(0, dtype=torch.int16).set_(other.cpu())
        return sizes, x, y, after, f, z, host, fresh.tolist(), s2.type(torch.CharStorage).tolist()

    agree(body)


def test_storage_resized_to_odd_bytes_keeps_them():
    def body(device):
        x = torch.arange(1, 9, dtype=torch.uint8).to(device).view(torch.int32)
        x.untyped_storage().resize_(6)
        return torch.empty(0, dtype=torch.uint8, device=device).set_(x.untyped_storage())

    agree(body)


def test_tied_weights():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(5, 4)
            self.o = nn.Linear(4, 5, bias=False)
            self.o.weight = self.e.weight

    def body(device):
        m = Model()
        with torch.no_grad():
            m.e.weight.copy_(torch.arange(20.0).view(5, 4))
        parameter = m.e.weight
        m = m.to(device)
        tied = m.o.weight is m.e.weight, m.e.weight is parameter
        with torch.no_grad():
            m.e.weight[0, 0] = 99
        c = copy.deepcopy(m)
        with torch.no_grad():
            c.e.weight.add_(1)
        m.load_state_dict(c.state_dict())
        back = copy.deepcopy(m).to("cpu")
        return tied, m.o.weight, c.o.weight is c.e.weight, c.o.weight, back.o.weight is back.e.weight

    agree(body)


# --- memory formats


def test_channels_last_is_kept():
    def body(device):
        x = iota(device, 2, 3, 4, 5).to(memory_format=torch.channels_last)
        b = torch.ones(1, 3, 1, 1, device=device)
        results = [
            x,
            x + 1,
            x * b,
            x.relu(),
            x.clone(),
            x.to(torch.float64),
            torch.empty_like(x).copy_(x),
            x.contiguous(),
            x.clone(memory_format=torch.contiguous_format),
            torch.zeros_like(x),
            x.to("cpu"),
            x.to("cpu").to(device),
            torch.where(x > 3, x, b),
            x[:, 1:],
            x[:, 1:] + 1,
            torch.nn.functional.max_pool2d(x, 2),
            x.sum(1, keepdim=True),
            torch.cat([x, x], 1),
            x.permute(0, 2, 3, 1).contiguous(),
        ]
        return results, [r.is_contiguous(memory_format=torch.channels_last) for r in results]

    agree(body, strides=True)


def test_channels_last_3d_and_module():
    def body(device):
        x = iota(device, 1, 2, 3, 3, 3).to(memory_format=torch.channels_last_3d)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            m = nn.Conv2d(3, 4, 3).to(device, memory_format=torch.channels_last)
        y = m(iota(device, 1, 3, 5, 5).to(memory_format=torch.channels_last))
        return x * 2, m.weight.stride(), y.stride(), y

    agree(body, strides=True, tol=1e-4)
