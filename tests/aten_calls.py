"""The ATen calls behind PyTorch's OpInfo samples, as they arrive below autograd on the CPU."""

from __future__ import annotations

import functools
import warnings

import torch
from conformance.samples import map_nested, samples_of, tensors
from torch.testing._internal import common_methods_invocations as catalog
from torch.utils._python_dispatch import TorchDispatchMode

# Ops whose kernels have names of their own on other devices than the CPU: whose calls they get.
OVERRIDEABLE = {
    "convolution": "convolution_overrideable",
    "convolution_backward": "convolution_backward_overrideable",
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_fused_attention_overrideable",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "_scaled_dot_product_fused_attention_overrideable_backward",
}


def overload_name(function):
    """ "add.Tensor", "relu": as the table of lowerings has it."""
    name, _, overload = str(function).removeprefix("aten.").rpartition(".")
    return name if overload == "default" else f"{name}.{overload}"


def find_overload(name):
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def copied(value):
    """`value` with copies of its tensors, the same views of storages of their own. Views of one storage stay that."""
    known, storages = {}, {}

    def copy(v):
        if not isinstance(v, torch.Tensor) or v.layout != torch.strided:
            return v
        if id(v) not in known:
            source, storage = v.detach(), v.untyped_storage()
            if storage._cdata not in storages:
                storages[storage._cdata] = storage.clone()
            fresh = torch.empty(0, dtype=v.dtype).set_(
                storages[storage._cdata], source.storage_offset(), source.shape, source.stride()
            )
            fresh = torch._C._set_conj(fresh, True) or fresh if source.is_conj() else fresh
            known[id(v)] = (fresh, v)
        return known[id(v)][0]

    return map_nested(copy, value)


class Recorder(TorchDispatchMode):
    """Hands each call's function and arguments to `on_call`, before it runs."""

    def __init__(self, on_call):
        super().__init__()
        self.on_call = on_call

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.on_call(function, args, kwargs or {})
        return function(*args, **(kwargs or {}))


def entries():
    lists = [
        catalog.op_db,
        catalog.foreach_unary_op_db,
        catalog.foreach_binary_op_db,
        catalog.foreach_pointwise_op_db,
        catalog.foreach_reduce_op_db,
        catalog.foreach_other_op_db,
    ]
    return [op for ops in lists for op in ops]


def preferred_dtype(op):
    claimed = op.supported_dtypes("cpu")
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        if dtype in claimed:
            return dtype
    return next(iter(sorted(claimed, key=str)), None)


def run_samples(op, dtype, limit, on_call):
    """Runs an entry's samples, and their gradients, on the CPU."""
    foreach = op.name.startswith("_foreach")
    differentiable = not foreach and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if foreach:
                torch.manual_seed(0)
                generated = op.sample_inputs("cpu", dtype, noncontiguous=False, num_input_tensors=[3])
                samples = [s for _, s in zip(range(limit), generated)]
            else:
                samples = samples_of(op, dtype, limit, requires_grad=differentiable)
        except Exception:
            return
        for sample in samples:
            try:
                with Recorder(on_call):
                    _run(op, sample, foreach, differentiable)
            except Exception:  # samples that the CPU refuses say nothing
                continue


def foreach_arguments(named):
    """Without what PyTorch's own test takes for itself."""
    return {k: v for k, v in named.items() if k not in ("values", "disable_fastpath", "zero_size")}


def _run(op, sample, foreach, differentiable):
    if foreach:
        getattr(torch, op.name)(sample.input, *sample.args, **foreach_arguments(sample.kwargs))
        return
    outputs = op(sample.input, *sample.args, **sample.kwargs)
    outputs = [t for t in tensors(outputs) if t.requires_grad]
    leaves = [t for t in tensors([sample.input, sample.args, sample.kwargs]) if t.requires_grad]
    if differentiable and outputs and leaves:
        torch.autograd.grad(outputs, leaves, [torch.ones_like(t) for t in outputs], allow_unused=True)


@functools.cache
def callers():
    """{base name: the entries that call it}, with whether only their gradients do."""
    found = {}
    for op in entries():
        dtype = preferred_dtype(op)
        if dtype is None:
            continue

        def on_call(function, args, kwargs, op=op):
            base = overload_name(function).partition(".")[0]
            found.setdefault(OVERRIDEABLE.get(base, base), {})[id(op)] = op

        run_samples(op, dtype, 1, on_call)
    return {base: list(ops.values()) for base, ops in found.items()}
