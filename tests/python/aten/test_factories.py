"""Factories: values, dtypes, strides, devices and errors."""

import pytest
import torch
from harness import agree, count_programs

FACTORIES = {
    "zeros": lambda d: torch.zeros(2, 3, device=d),
    "ones_int": lambda d: torch.ones(2, dtype=torch.int16, device=d),
    "full": lambda d: torch.full((2,), 3, device=d),
    "full_bool": lambda d: torch.full((2,), True, device=d),
    "full_float": lambda d: torch.full((1, 3, 1), 2.5, device=d) + torch.arange(4.0, device=d),
    "full_complex": lambda d: torch.full((2,), 1 + 2j, device=d),
    "full_0d": lambda d: torch.full((), 7.0, device=d),
    "arange": lambda d: torch.arange(5, device=d),
    "arange_step": lambda d: torch.arange(1, 10, 3, device=d),
    "arange_float": lambda d: torch.arange(0.5, 2, 0.25, device=d),
    "arange_down": lambda d: torch.arange(5, 0, -2, device=d),
    "arange_empty": lambda d: torch.arange(3, 3, device=d),
    "arange_big": lambda d: torch.arange(2**33, 2**33 + 3, device=d),
    "arange_whole_parts": lambda d: torch.arange(-0.9, 2.1, 2.0, dtype=torch.int64, device=d),
    "arange_bf16": lambda d: torch.arange(5, dtype=torch.bfloat16, device=d),
    "linspace": lambda d: torch.linspace(-1, 1, 7, device=d),
    "linspace_one": lambda d: torch.linspace(2, 5, 1, device=d),
    "linspace_int": lambda d: torch.linspace(0, 10, 5, dtype=torch.int64, device=d),
    "logspace": lambda d: torch.logspace(0, 2, 3, device=d),
    "eye": lambda d: torch.eye(3, 2, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 4, -1, device=d),
    "triu_indices": lambda d: torch.triu_indices(3, 4, 1, device=d),
    "tensor": lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
    "tensor_nested": lambda d: torch.tensor([torch.tensor(1.5), 2], device=d),
    "as_tensor": lambda d: torch.as_tensor([True, False], device=d),
    "scalar_tensor": lambda d: torch.scalar_tensor(3, device=d),
    "new": lambda d: torch.zeros(2, dtype=torch.int32, device=d).new_tensor([1, 2, 3]),
    "new_full": lambda d: torch.zeros(2, dtype=torch.int32, device=d).new_full((2,), 5),
    "zeros_like": lambda d: torch.zeros_like(torch.empty(2, 3, device=d).t()),
    "ones_like_dtype": lambda d: torch.ones_like(torch.empty(2, device=d), dtype=torch.bool),
    "full_like": lambda d: torch.full_like(torch.empty(2, device=d, dtype=torch.int64), 4),
    "complex": lambda d: torch.complex(torch.ones(2, device=d), torch.zeros(2, device=d)),
    "polar": lambda d: torch.polar(torch.ones(1, device=d), torch.zeros(1, device=d)),
    "meshgrid": lambda d: torch.meshgrid(torch.arange(2, device=d), torch.arange(3, device=d), indexing="ij")[0],
    "window": lambda d: torch.hann_window(5, device=d),
    "one_hot": lambda d: torch.nn.functional.one_hot(torch.tensor([0, 2], device=d), 3),
    "heaviside": lambda d: torch.where(torch.arange(3, device=d) > 1, 2.0, torch.tensor(0.0, device=d)),
}


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES.keys())
def test_factory(make):
    t = agree(make, tol=1e-6, strides=True)
    assert t.device == torch.device("tpu", 0)


ERRORS = {
    "negative": lambda d: torch.zeros(-1, device=d),
    "arange_sign": lambda d: torch.arange(0, 5, -1, device=d),
    "arange_zero": lambda d: torch.arange(0, 5, 0, device=d),
    "linspace_steps": lambda d: torch.linspace(0, 1, -1, device=d),
    "eye": lambda d: torch.eye(-1, device=d),
    "strided": lambda d: torch.empty_strided((2,), (1, 1), device=d),
    "channels_last": lambda d: torch.empty(2, 3, device=d, memory_format=torch.channels_last),
    "ragged": lambda d: torch.tensor([[1], [2, 3]], device=d),
    "overflow": lambda d: torch.tensor(300, dtype=torch.uint8, device=d),
    "randperm": lambda d: torch.randperm(-1, device=d),
    "randint": lambda d: torch.randint(5, 5, (2,), device=d),
    "full": lambda d: torch.full((2,), "a", device=d),
    "normal": lambda d: torch.empty(2, device=d).normal_(0, -1),
    "bernoulli": lambda d: torch.empty(2, device=d).bernoulli_(2.0),
    "exponential": lambda d: torch.empty(2, device=d).exponential_(0),
    "geometric": lambda d: torch.empty(2, device=d).geometric_(1.5),
    "cauchy": lambda d: torch.empty(2, device=d).cauchy_(0, 0),
    "log_normal": lambda d: torch.empty(2, device=d).log_normal_(0, 0),
    "random": lambda d: torch.empty(2, device=d).random_(0),
    "normal_like": lambda d: torch.normal(torch.zeros(2, device=d), -1.0),
    "uniform": lambda d: torch.empty(2, device=d).uniform_(2, 1),
}


@pytest.mark.parametrize("make", ERRORS.values(), ids=ERRORS.keys())
def test_errors(make):
    error = agree(make)
    assert isinstance(error, Exception)


def test_empty_layouts():
    def body(device):
        e = torch.empty(2, 3, 4, 5, device=device, memory_format=torch.channels_last)
        s = torch.empty_strided((2, 3), (1, 2), device=device)
        gap = torch.empty_strided((2, 3), (10, 2), device=device)
        z = torch.empty_strided((3,), (0,), device=device)
        return [(t.shape, t.stride(), t.untyped_storage().nbytes()) for t in (e, s, gap, z)], gap.fill_(2).sum()

    agree(body)


def test_unwritten_memory_can_be_used():
    x = torch.empty(3, device="tpu")
    assert torch.equal(x.cpu(), x.cpu())
    x[1] = 5
    assert x[1].item() == 5


def test_new_zeros_need_no_program():
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    with count_programs() as programs:
        x = torch.zeros(13, 17, device="tpu")
        views = [torch.zeros_like(x.t()), torch.empty(29, device="tpu")[3:7].zero_()]
        assert torch.tpu.memory_allocated() - before >= 4 * 13 * 17
    assert programs.value == 0
    assert not x.any() and not any(v.any() for v in views)
    x += 1
    x.zero_()
    assert not x.any()
    agree(lambda device: torch.empty(1, device=device).expand(3).zero_())


def test_default_device():
    with torch.device("tpu"):
        x = torch.ones(2)
        m = torch.nn.Linear(2, 2)
    assert x.device.type == "tpu" and m.weight.device.type == "tpu"
    torch.set_default_device("tpu")
    try:
        assert torch.rand(2).device.type == "tpu" and torch.tensor(1).device.type == "tpu"
        assert torch.randperm(4).device.type == "tpu"
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"
