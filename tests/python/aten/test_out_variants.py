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
