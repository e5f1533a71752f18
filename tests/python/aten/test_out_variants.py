"""out= arguments: resizing, casts, views, and the errors and warnings that CPU gives."""

import warnings

import pytest
import torch
from harness import agree


def test_out_is_filled_and_returned():
    def body(device):
        x = torch.arange(6.0, device=device).view(2, 3)
        out = torch.empty(2, 3, device=device)
        r = torch.mul(x, 2, out=out)
        s = torch.empty(3, device=device)
        torch.sum(x, 0, out=s)
        v, i = torch.empty(2, device=device), torch.empty(2, dtype=torch.int64, device=device)
        torch.max(x, 1, out=(v, i))
        m = torch.empty(2, 2, device=device)
        torch.mm(x, x.t(), out=m)
        return r is out, out, s, v, i, m

    agree(body)


def test_out_is_resized_with_a_warning():
    def body(device):
        x = torch.arange(6.0, device=device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out = torch.empty(2, device=device)
            torch.add(x, 1, out=out)
            empty = torch.empty(0, device=device)
            torch.add(x, 1, out=empty)
        texts = [str(w.message).split("\n")[0][:60] for w in caught]
        return out, empty, texts

    texts = agree(body)[2]
    assert len(texts) == 1 and "was resized" in texts[0]


def test_out_is_resized_again_when_cached():
    for n in (3, 5, 3, 5):
        out = torch.empty(0, device="tpu")
        torch.exp(torch.zeros(n, device="tpu"), out=out)
        assert out.tolist() == [1.0] * n


OUT_DTYPES = {
    "float_into_int": lambda x: torch.add(x, 1.5, out=torch.empty(4, dtype=torch.int32, device=x.device)),
    "float_into_double": lambda x: torch.add(x, 1.5, out=torch.empty(4, dtype=torch.float64, device=x.device)),
    "float_into_bf16": lambda x: torch.mul(x, 1.5, out=torch.empty(4, dtype=torch.bfloat16, device=x.device)),
    "bool_into_float": lambda x: torch.gt(x, 1, out=torch.empty(4, device=x.device)),
    "int_into_float": lambda x: torch.add(x.int(), 1, out=torch.empty(4, device=x.device)),
    "int_into_int8": lambda x: torch.add(x.int() * 100, 1, out=torch.empty(4, dtype=torch.int8, device=x.device)),
    "mm_wrong": lambda x: torch.mm(
        x.view(2, 2), x.view(2, 2), out=torch.empty(2, 2, dtype=torch.float64, device=x.device)
    ),
    "argmax_wrong": lambda x: torch.argmax(x, 0, out=torch.empty((), dtype=torch.int32, device=x.device)),
    # Kernels that want the dtype of the result, kernels that cast, and one that computes in the dtype of out.
    "triu_wider": lambda x: torch.triu(x.view(2, 2), out=torch.empty(0, dtype=torch.float64, device=x.device)),
    "cummax_wider": lambda x: torch.cummax(
        x,
        0,
        out=(torch.empty(0, dtype=torch.float64, device=x.device), torch.empty(0, dtype=torch.int64, device=x.device)),
    ),
    "round_into_complex": lambda x: torch.round(x, out=torch.empty(0, dtype=torch.complex64, device=x.device)),
    "all_into_int": lambda x: torch.all(x, out=torch.empty((), dtype=torch.int64, device=x.device)),
    "lu_solve_wider": lambda x: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(x.view(2, 2) + 2 * torch.eye(2, device=x.device)),
        x.view(2, 2),
        out=torch.empty(0, dtype=torch.float64, device=x.device),
    ),
    "cumsum_into_int": lambda x: torch.cumsum(x + 0.6, 0, out=torch.empty(4, dtype=torch.int64, device=x.device)),
    "complex_into_float": lambda x: torch.mul(x, 1j, out=torch.empty(4, device=x.device)),
    "sqrt_into_int": lambda x: torch.sqrt(x, out=torch.empty(4, dtype=torch.int64, device=x.device)),
    "gather_wrong": lambda x: torch.gather(
        x, 0, torch.tensor([1], device=x.device), out=torch.empty(1, dtype=torch.float64, device=x.device)
    ),
    "softmax_wrong": lambda x: torch.softmax(x, 0, out=torch.empty(4, dtype=torch.int32, device=x.device)),
    "in_place_int": lambda x: x.int().add_(1.5),
    "in_place_div_int": lambda x: x.int().div_(2),
    "in_place_bool": lambda x: (x > 1).add_(2),
    "in_place_double": lambda x: x.mul_(torch.ones(4, dtype=torch.float64, device=x.device)),
    "in_place_wider_shape": lambda x: x.add_(torch.ones(2, 4, device=x.device)),
}


@pytest.mark.parametrize("case", OUT_DTYPES.values(), ids=OUT_DTYPES.keys())
def test_out_dtypes(case):
    for _ in range(2):  # the second call has its program cached
        agree(lambda device: case(torch.arange(4.0).to(device)))


def test_out_views():
    def body(device):
        x = torch.arange(6.0, device=device).view(2, 3)
        base = torch.zeros(4, 6, device=device)
        torch.add(x, 1, out=base[1:3, ::2])
        torch.mm(x, x.t(), out=base.t()[4:6, :2])
        torch.cumsum(x, 1, out=base[:2, 3:])
        channels = torch.empty(1, 2, 2, 2, device=device).to(memory_format=torch.channels_last)
        torch.neg(torch.arange(8.0, device=device).view(1, 2, 2, 2), out=channels)
        return base, channels, channels.stride()

    agree(body)


def test_out_requires_no_grad():
    agree(
        lambda device: torch.add(torch.ones(2, device=device), 1, out=torch.ones(2, device=device, requires_grad=True))
    )


def test_out_of_other_device():
    x = torch.ones(2, device="tpu")
    with pytest.raises(RuntimeError, match="same device"):
        torch.add(x, x, out=torch.empty(2))
    with pytest.raises(RuntimeError):
        torch.add(torch.ones(2), torch.ones(2), out=torch.empty(2, device="tpu"))


def test_factory_out():
    def body(device):
        a = torch.empty(0, dtype=torch.int32, device=device)
        torch.arange(1, 10, 3, out=a)
        b = torch.empty(4, device=device)
        torch.linspace(0, 1, 4, out=b)
        c = torch.zeros(6, device=device)
        torch.arange(3.0, out=c[::2])
        d = torch.zeros(2, 2, device=device)
        torch.eye(2, out=d)
        torch.full((2,), 3.0, out=c[:2])
        return a, b, c, d

    agree(body, tol=1e-6)


RESIZED = {
    "transposed": lambda x, out: torch.add(x.t(), x.t(), out=out),
    "triangular": lambda x, out: torch.linalg.inv(x, out=out),
    "fourier": lambda x, out: torch.fft.fft(x, dim=0, out=out.to(torch.complex64)),
    "reflectors": lambda x, out: torch.geqrf(x, out=(out, torch.empty(0, device=x.device))),
    "parts": lambda x, out: torch.split_with_sizes_copy(x, [1, 2], out=[out, torch.empty(0, device=x.device)]),
    "range": lambda x, out: torch.arange(4, out=out),
    "evenly spaced": lambda x, out: torch.linspace(0, 1, 3, out=out),
    "masked": lambda x, out: torch.masked_select(x, x > 1, out=out),
    "histogram": lambda x, out: torch.histogram(x, 3, out=(out, torch.empty(0, device=x.device))),
    "narrow": lambda x, out: torch.narrow_copy(x, 0, 0, 2, out=out),
}


@pytest.mark.parametrize("name", RESIZED)
@pytest.mark.parametrize("size", [(0,), (3, 1)])
def test_resized_out_has_the_strides_and_warning_of_the_cpu(name, size):
    def body(device):
        x = (torch.arange(9.0).view(3, 3) + 5 * torch.eye(3)).to(device)
        out = torch.zeros(size, device=device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = RESIZED[name](x, out)
        return result, out, any("resized" in str(w.message) for w in caught)

    agree(body, tol=1e-5, strides=True)


@pytest.mark.parametrize("name", ["add_", "atan2_", "lt_", "fmod_", "xlogy_", "clamp_max_"])
@pytest.mark.parametrize("rows", [0, 2])
def test_in_place_results_do_not_grow(name, rows):
    agree(lambda device: getattr(torch.ones(rows, 1, device=device), name)(torch.ones(rows, 3, device=device)))


def test_out_on_another_device_is_refused():
    x = torch.ones(3, 3, device="tpu")
    for call in (torch.nonzero, torch.cholesky, lambda x, out: torch.masked_select(x, x > 0, out=out)):
        out = torch.empty(0, dtype=torch.int64 if call is torch.nonzero else torch.float32)
        with pytest.raises(RuntimeError, match="same device"):
            call(x, out=out)


def test_zero_dimensional_out_on_another_device_is_refused():
    x = torch.arange(5.0, device="tpu")
    with pytest.raises(RuntimeError, match="same device"):
        torch.mode(x, out=(torch.zeros(()), torch.zeros((), dtype=torch.int64)))
    with pytest.raises(RuntimeError, match="same device"):
        torch.sum(x, 0, out=torch.zeros(()))
