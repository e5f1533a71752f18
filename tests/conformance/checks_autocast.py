"""Autocast: PyTorch's lists of operators that run in lower precision, in float32 or in the widest type given."""

from __future__ import annotations

import functools

import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists, TestAutocast

from .outcome import Tally, attempt, error_difference
from .samples import map_nested

# List: (module with the operators, the type they compute in; None is autocast's own)
_LISTS = {
    "torch_fp16": (torch, None),
    "torch_fp32": (torch, torch.float32),
    "torch_need_autocast_promote": (torch, torch.float32),
    "torch_expect_builtin_promote": (torch, torch.float32),
    "methods_expect_builtin_promote": (None, torch.float32),
    "methods_fp16": (None, None),
    "methods_fp32": (None, torch.float32),
    "nn_fp16": (torch._C._nn, None),
    "nn_fp32": (torch._C._nn, torch.float32),
    "linalg_fp16": (torch._C._linalg, None),
    "banned": (torch._C._nn, None),
}


@functools.cache
def _lists(device):
    torch.manual_seed(0)
    return AutocastTestLists(device)


def names():
    """Names of all entries that other devices than CUDA have."""
    return [
        f"{name}.{i}.{entry[0]}"
        for name in _LISTS
        for i, entry in enumerate(getattr(_lists("cpu"), name))
        # A third element that is neither options nor a dtype says "skip".
        if len(entry) < 3 or isinstance(entry[2], (dict, torch.dtype))
        if not entry[0].startswith("cudnn") and (_LISTS[name][0] is not None or hasattr(torch.Tensor, entry[0]))
    ]


class _Case(TestAutocast):
    def runTest(self):
        """Only its assertions are used."""


def autocast(name, dtype):
    list_name, index, _ = name.split(".")
    module, compute = _LISTS[list_name]
    op, args, *rest = getattr(_lists("tpu"), list_name)[int(index)]
    # The lists are written for float16.
    args = map_nested(lambda v: v.to(dtype) if getattr(v, "dtype", None) == torch.float16 else v, args)
    out_type, options = None, {}
    for extra in rest:
        if isinstance(extra, torch.dtype):
            out_type = extra
        elif isinstance(extra, dict):
            options = extra
    tally = Tally()
    if list_name == "banned":
        with torch.autocast("tpu", dtype=dtype):
            _, error = attempt(lambda: getattr(module, op)(*args))
        tally.record("" if isinstance(error, RuntimeError) else error_difference(RuntimeError("banned"), error))
        return {"autocast": tally}
    _, error = attempt(
        lambda: _Case()._run_autocast_outofplace(
            op, args, compute or dtype, "tpu", out_type, module, options, amp_dtype=dtype
        )
    )
    tally.record(error_difference(None, error))
    return {"autocast": tally}
