"""What is called: OpInfo's samples, and calls of lowerings that no sample reaches."""

from __future__ import annotations

import functools

import extra_calls
import torch
from aten_calls import entries, find_overload, foreach_arguments
from conformance.samples import arguments, samples_of, spread

from .recorder import call_with_gradient

_EXTRA = "extra "


def _entry_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


@functools.cache
def table():
    """{name: OpInfo, or the name of a lowering}."""
    return {_entry_name(op): op for op in entries()} | {_EXTRA + name: name for name in extra_calls.NAMES}


def bodies(name, dtype, limit):
    """Functions that make the entry's calls with tensors of `dtype` on the device, `limit` samples of them (0: all)."""
    entry = table()[name]
    if isinstance(entry, str):
        return [functools.partial(_call_extra, entry, dtype)]
    if dtype not in entry.supported_dtypes("cpu"):
        return []
    if name.startswith("_foreach"):
        samples = spread(entry.sample_inputs("cpu", dtype, noncontiguous=False, num_input_tensors=[3]), limit)
        return [functools.partial(_call_foreach, entry, sample) for sample in samples]
    differentiable = entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")
    samples = samples_of(entry, dtype, limit, requires_grad=differentiable)
    return [functools.partial(_call, entry, name, sample, differentiable) for sample in samples]


def _call_extra(name, dtype):
    overload = find_overload(name)
    overload(**extra_calls.arguments(name, overload, "tpu", dtype))


def _call_foreach(entry, sample):
    positional, named = arguments(entry.name, sample, "tpu")
    getattr(torch, entry.name)(*positional, **foreach_arguments(named))


def _call(entry, name, sample, differentiable):
    positional, named = arguments(name, sample, "tpu")
    call_with_gradient(entry, positional, named, differentiable)
