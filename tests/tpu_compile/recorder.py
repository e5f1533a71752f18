"""The TPU programs of calls that are made on the device at hand."""

from __future__ import annotations

import contextlib
import warnings

import torch
from conformance.samples import tensors

import torch_tpu


def programs_of(body):
    """Runs `body()` and returns the programs that it built, as dicts: op, lowering, types, nbytes, text, error.

    Programs that this process has built before are missing. Where `body` raises, what came before counts.
    """
    torch_tpu._C.set_tpu_program_recording(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body()
            torch.tpu.synchronize()
    except Exception:
        pass
    finally:
        torch_tpu._C.set_tpu_program_recording(False)
        with contextlib.suppress(Exception):
            torch.tpu.synchronize()
    return torch_tpu._C.take_tpu_programs()


def call_with_gradient(function, arguments, named, differentiable):
    """Calls it, and its backward where the results ask for one."""
    outputs = function(*arguments, **named)
    outputs = [t for t in tensors(outputs) if t.requires_grad]
    leaves = [t for t in tensors([*arguments, named]) if t.requires_grad]
    if differentiable and outputs and leaves:
        torch.autograd.grad(outputs, leaves, [torch.ones_like(t) for t in outputs], allow_unused=True)
