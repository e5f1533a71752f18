"""Errors that come later than the call name the line of Python that made it."""

import contextlib
import inspect
import sys
import threading

import pytest
import torch
from harness import run_python
from torch import nn

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="lines are recorded where the interpreter's frames are known: CPython 3.11"
)
EagerMode = torch.tpu.EagerMode


@pytest.fixture(autouse=True, params=[EagerMode.FUSED, EagerMode.STRICT], ids=["fused", "strict"])
def mode(request):
    with torch.tpu.set_eager_mode(request.param):
        yield request.param


def place(text):
    """Where `text` stands in this file, in the function that calls, as messages have it."""
    caller = inspect.currentframe().f_back
    lines, first = inspect.getsourcelines(caller.f_code)
    number = first + next(i for i, line in enumerate(lines) if text in line)
    return f"({__file__}:{number}, in {caller.f_code.co_qualname})"


def one():
    return torch.tensor([1], device="tpu")


def test_bounds_are_reported_with_the_line():
    x = torch.arange(5.0, device="tpu")
    y = x.index_select(0, one() + 6)
    z = y + 1
    with pytest.raises(IndexError) as error:
        z.cpu()
    assert f"index_select {place('x.index_select')}" in str(error.value)


def test_lines_of_a_loop_are_told_apart():
    x = torch.arange(5.0, device="tpu")
    for i in range(4):
        x = x + 1
        if i == 2:
            x = x.index_select(0, one() + 8)
    with pytest.raises(IndexError) as error:
        x.cpu()
    assert place("one() + 8") in str(error.value)


def test_the_user_s_line_is_named_and_not_pytorch_s():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(4, 2)

        def forward(self, tokens):
            return self.embedding(tokens)

    model = Model().to("tpu")
    with pytest.raises(IndexError) as error:
        model(one() + 7).cpu()
    assert "in test_the_user_s_line_is_named_and_not_pytorch_s.<locals>.Model.forward)" in str(error.value)


def test_failed_runs(mode):
    if mode is EagerMode.STRICT:
        pytest.skip("named at the call, by its traceback")
    a, b = (torch.ones(1 << 22, device="tpu") for _ in range(2))
    huge = a[:, None] * b  # 64 TiB
    lost = huge.sum() + 1
    with pytest.raises(torch.OutOfMemoryError) as error:
        lost.item()
    assert f"aten::mul.Tensor {place('a[:, None]')}" in str(error.value)
    with contextlib.suppress(torch.OutOfMemoryError):  # where the run was still in flight it is told once more
        torch.tpu.synchronize()


def test_backward():
    x = torch.arange(5.0, device="tpu").requires_grad_()
    index = one()
    y = x.index_select(0, index)
    torch.tpu.synchronize()
    index.data.fill_(9)  # past autograd's version check
    with pytest.raises(IndexError, match=r"\(in the backward pass: IndexSelectBackward0\)"):
        y.sum().backward()
        x.grad.cpu()


def test_backward_written_in_python():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            return gradient.index_select(0, one() + 9).expand(5)

    x = torch.ones(5, device="tpu", requires_grad=True)
    with pytest.raises(IndexError, match=r"in test_backward_written_in_python.<locals>.Bad.backward\)"):
        Bad.apply(x).sum().backward()
        x.grad.cpu()


def test_code_that_is_gone_and_threads_that_come_and_go():
    """A function's code is freed, and its memory used again, long before the error is told."""

    def work(i):
        names = {"torch": torch, "one": one}
        exec(compile(f"def f(x):\n  return x.index_select(0, one() + {i})", f"made_{i}.py", "exec"), names)
        y.append(names["f"](torch.arange(100.0, device="tpu")))
        names.clear()  # frees f at once

    for i in range(150):
        y = []
        thread = threading.Thread(target=work, args=(i,))
        thread.start()
        thread.join()
        if i < 99:
            assert y[0].item() == i + 1
        else:
            with pytest.raises(IndexError, match=rf"\(made_{i}.py:2, in f\)"):
                y[0].cpu()


def test_switched_off():
    run_python(
        """
        import torch
        try:
            torch.arange(5.0, device="tpu").index_select(0, torch.tensor([7], device="tpu")).cpu()
        except IndexError as e:
            assert "index_select (found on the device" in str(e), e
        """,
        TORCH_TPU_RECORD_LINES=0,
    )
