"""Checks of operators that write to tensors they are given: `out=` and in-place forms."""

from __future__ import annotations

import functools
import warnings

import torch
from torch.testing._internal.common_utils import noncontiguous_like

from .checks_op import Case, gradients
from .compare import difference, tolerance
from .outcome import Tally, attempt, error_difference
from .samples import Copier, tensors, widened


def out(op, dtype, samples):
    """For each kind of `out` argument: CPU's values, shapes, strides, resize warning or exception type."""
    tally = Tally()
    for sample in samples:
        case = Case(op, sample, dtype)
        results, error = attempt(_no_grad_call, case, "cpu")
        if error is not None or not _fits_out(results):
            continue
        for kind in _OUT_KINDS:
            expected, cpu_error = attempt(_run_out, case, kind, results, "cpu")
            if kind == "filled" and cpu_error is not None:  # this sample's form has no out argument
                break
            actual, error = attempt(_run_out, case, kind, results, "tpu")
            message = error_difference(cpu_error, error)
            if not message and error is None:
                message = _out_difference(case, kind, results, expected, actual)
            tally.record(message and f"out={kind}: {message}")
        else:
            if tensors([sample.input, sample.args]):
                _, error = attempt(_run_out, case, "filled", results, "tpu", "cpu")
                tally.record("" if isinstance(error, RuntimeError) else "out= on another device: no RuntimeError")
    return {"out": tally}


@torch.no_grad()
def _no_grad_call(case, device):
    return case.call(*case.arguments(device))


def _fits_out(results):
    parts = results if isinstance(results, (tuple, list)) else [results]
    return bool(parts) and all(isinstance(t, torch.Tensor) and t.layout == torch.strided for t in parts)


def _filled(result):
    return torch.full_like(result, 7 if result.dtype != torch.bool else 1)


def _strided(result):
    return noncontiguous_like(_filled(result))


def _wrong_shape(result):
    return torch.zeros([*result.shape, 2], dtype=result.dtype)


def _empty(result):
    return torch.empty(0, dtype=result.dtype)


def _integers(result):
    return torch.zeros_like(result, dtype=torch.int64)


def _wider(result):
    return torch.zeros_like(result, dtype=torch.complex128)


def _differentiable(result):
    result = _filled(result)
    return result.requires_grad_() if result.is_floating_point() or result.is_complex() else result


_OUT_KINDS = {
    "filled": _filled,
    "strided": _strided,
    "wrong shape": _wrong_shape,
    "empty": _empty,
    "integers": _integers,
    "wider": _wider,
    "differentiable": _differentiable,
}

# Whose values may be computed in, or rounded to, the dtype of out.
_OTHER_DTYPE = ("integers", "wider")


def _run_out(case, kind, results, device, out_device=None):
    """(returned, out tensors, whether it warned of a resize, whether the memory stayed)."""
    args, kwargs = case.arguments(device)
    out_device = out_device or device
    make = _OUT_KINDS[kind]
    outs = [Copier(out_device)(make(t.detach())) for t in tensors(results)]
    addresses = [t.data_ptr() for t in outs]
    out = outs[0] if isinstance(results, torch.Tensor) else tuple(outs)
    with warnings.catch_warnings(record=True) as caught, torch.set_grad_enabled(kind == "differentiable"):
        warnings.simplefilter("always")
        returned = case.op(*args, out=out, **kwargs)
    resized = any("resized" in str(w.message) for w in caught)
    kept = [t.data_ptr() == a for t, a in zip(outs, addresses) if t.numel() > 0]
    return tensors(returned), outs, resized, kept


def _out_difference(case, kind, results, expected, actual):
    for what, want, got in zip(("returned", "out"), expected, actual):
        if kind not in _OTHER_DTYPE and [t.shape for t in want] == [t.shape for t in tensors(results)]:
            want = tensors(results)  # what the CPU leaves in a strided out is not always its result
        want, got = case.canonical(tuple(want)), case.canonical(tuple(got))
        bounds = tolerance(case.name, tensors(results)[0].dtype)  # out may be wider than what is computed
        message = difference(want, got, bounds, case.by_value, case.reference)
        if message:
            return f"{what} {message}"
    for want, got in zip(expected[1], actual[1]):
        if want.numel() > 1 and want.stride() != got.stride():
            return f"strides {got.stride()}, expected {want.stride()}"
    if expected[2] != actual[2]:
        return "no resize warning" if expected[2] else "resize warning, expected none"
    # After a resize the memory may stay or not; without one it must.
    if not expected[2] and all(expected[3]) and not all(actual[3]):
        return "out was given other memory"
    return ""


def inplace(op, dtype, samples):
    """Plain and strided `self`, and the gradient through the write."""
    tally = Tally()
    call = op.get_inplace()
    for sample in samples:
        forms = {"": sample}
        if isinstance(sample.input, torch.Tensor) and sample.input.numel() > 1:
            forms["strided "] = sample.noncontiguous()
        for form, variant in forms.items():
            message = _inplace_difference(Case(op, variant, dtype), call)
            tally.record(message and f"{form}self: {message}")
        if op.supports_inplace_autograd and isinstance(sample.input, torch.Tensor) and sample.input.requires_grad:
            case = Case(op, sample, dtype)
            expected, error = attempt(_inplace_gradients, case, call, "cpu")
            if error is None and expected:
                actual, error = attempt(_inplace_gradients, case, call, "tpu")
                message = error_difference(None, error)
                wide = functools.partial(_inplace_gradients, case, call, None)
                message = message or difference(expected, actual, case.bounds, lambda i, c=case: not c.random, wide)
                tally.record(message and f"gradient: {message}")
    return {"inplace": tally}


@torch.no_grad()
def _inplace_difference(case, call):
    (args, kwargs), (device_args, device_kwargs) = case.arguments("cpu"), case.arguments("tpu")
    expected, cpu_error = attempt(lambda: call(*args, **kwargs))
    actual, error = attempt(lambda: call(*device_args, **device_kwargs))
    message = error_difference(cpu_error, error)
    if message or error is not None:
        return message
    if isinstance(args[0], torch.Tensor) and (expected is args[0]) != (actual is device_args[0]):
        return "another object was returned"

    def reference():
        wide_args, wide_kwargs = widened(case.sample)
        return [call(*wide_args, **wide_kwargs), *wide_args[1:]]

    message = difference(args, device_args, case.bounds, case.by_value if case.random else lambda i: True, reference)
    message = message or difference(tensors(expected), tensors(actual), case.bounds, case.by_value, reference)
    if not message and isinstance(args[0], torch.Tensor):
        # What lies between the elements of a strided self has stayed.
        args[0].zero_()
        device_args[0].zero_()
        message = difference(_storage(args[0]), _storage(device_args[0]))
    return message


def _storage(tensor):
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())


def _inplace_gradients(case, call, device):
    """On the device, or for None in wider arithmetic."""
    args, kwargs = case.arguments(device) if device else widened(case.sample)
    return gradients(case, args, kwargs, lambda a, k: call(a[0].clone(), *a[1:], **k))
