"""What there is to check: units (one entry in one dtype) and the groups of checks that apply to them."""

from __future__ import annotations

import functools
import typing
import warnings

import torch
from torch.testing._internal import common_methods_invocations as invocations
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

from . import checks_autocast, checks_error, checks_module, checks_op, checks_optimizer, checks_write
from .outcome import Tally
from .samples import samples_of

KINDS = ("op", "foreach", "autocast", "module", "optimizer")

# The order is that of the tables. Groups are what a worker runs at once: a group fills one or more columns.
GROUPS = {
    "op": (
        "forward",
        "gradient",
        "noncontiguous",
        "out",
        "inplace",
        "forward mode",
        "lazy views",
        "gradcheck",
        "error inputs",
    ),
    "foreach": ("forward", "gradient", "inplace"),
    "autocast": ("autocast",),
    "module": ("module",),
    "optimizer": ("optimizer",),
}

# Checks whose samples differ in little: the first few are enough.
FEW_SAMPLES = {"out": 2, "inplace": 3, "forward mode": 3, "lazy views": 2, "noncontiguous": 3}

# The dtypes of the tables. CPU's other claims (int8, int16, uint8, complex128 and so on) run with --dtypes.
DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "bool", "complex64")

# Whose checks do not depend on a dtype.
ANY = "any"


class Unit(typing.NamedTuple):
    kind: str
    name: str
    dtype: str


@functools.cache
def entries(kind):
    if kind == "op":
        return {op.full_name: op for op in invocations.op_db}
    if kind == "foreach":
        lists = ("unary", "binary", "pointwise", "reduce", "other")
        return {op.full_name: op for kind in lists for op in getattr(invocations, f"foreach_{kind}_op_db")}
    if kind == "module":
        return {info.formatted_name: info for info in module_db}
    if kind == "optimizer":
        return {info.name: info for info in optim_db}
    return dict.fromkeys(checks_autocast.names())


def units(kinds=KINDS, dtypes=DTYPES):
    """All units, those of one entry together."""
    for kind in kinds:
        for name, entry in entries(kind).items():
            yield from (Unit(kind, name, d) for d in dtypes if _claims(kind, entry, getattr(torch, d)))
            if kind == "op" and entry.error_inputs_func is not None:
                yield Unit(kind, name, ANY)


def _claims(kind, entry, dtype):
    if kind == "autocast":
        return dtype in (torch.bfloat16, torch.float16)
    if kind == "optimizer":
        return dtype in (torch.float32, torch.float64)
    return dtype in entry.supported_dtypes("cpu")


def groups_of(unit, wanted=None):
    """The groups that apply to a unit, of those that are wanted."""
    if unit.kind != "op":
        return [g for g in GROUPS[unit.kind] if wanted is None or g in wanted]
    op = entries("op")[unit.name]
    if unit.dtype == ANY:
        applies = {"error inputs"}
    else:
        dtype = getattr(torch, unit.dtype)
        backward = dtype in op.supported_backward_dtypes("cpu")
        wide = dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128)
        applies = {"forward", "noncontiguous"}
        applies |= {"gradient"} if backward else set()
        applies |= {"forward mode"} if backward and wide and op.supports_forward_ad else set()
        applies |= {"gradcheck"} if backward and dtype == torch.float64 else set()
        applies |= {"out"} if op.supports_out else set()
        applies |= {"inplace"} if op.get_inplace() is not None else set()
        lazy = (dtype.is_complex and op.test_conjugated_samples) or (
            op.test_neg_view and (dtype.is_complex or dtype.is_floating_point)
        )
        applies |= {"lazy views"} if lazy else set()
    return [g for g in GROUPS["op"] if g in applies and (wanted is None or g in wanted)]


_OP_CHECKS = {
    "forward": checks_op.forward,
    "gradient": checks_op.gradient,
    "noncontiguous": checks_op.noncontiguous,
    "forward mode": checks_op.forward_mode,
    "lazy views": checks_op.lazy_views,
    "gradcheck": checks_op.derivatives,
    "out": checks_write.out,
    "inplace": checks_write.inplace,
}


def _dispatcher_state():
    return str(torch._C._dispatch_tls_local_include_set()), str(torch._C._dispatch_tls_local_exclude_set())


def run(unit, groups, limit):
    """Yields (group, None) before a group runs and (group, {check: tally}) after it."""
    warnings.simplefilter("ignore")
    dtype = None if unit.dtype == ANY else getattr(torch, unit.dtype)
    entry = entries(unit.kind)[unit.name]
    torch.tpu.reset_metrics()
    for group in groups:
        yield group, None
        state = _dispatcher_state()
        if unit.kind == "autocast":
            results = checks_autocast.autocast(unit.name, dtype)
        elif unit.kind == "module":
            results = checks_module.module_checks(entry, dtype, limit)
        elif unit.kind == "optimizer":
            results = checks_optimizer.optimizer_checks(entry, dtype)
        elif group == "error inputs":
            results = checks_error.error_inputs(entry)
        else:
            count = min(limit or FEW_SAMPLES[group], FEW_SAMPLES[group]) if group in FEW_SAMPLES else limit
            differentiable = dtype in entry.supported_backward_dtypes("cpu")
            results = _OP_CHECKS[group](entry, dtype, samples_of(entry, dtype, count, differentiable))
        fallbacks = torch.tpu.metrics()["fallbacks"]
        if fallbacks:
            results = {check: Tally(0, 1, f"ran on the CPU: {fallbacks}") for check in results}
            torch.tpu.reset_metrics()
        if _dispatcher_state() != state:  # with it nothing works on the CPU either, and is left out for that
            left = "left the dispatcher's thread state changed: the run needs repeating without it"
            results = {check: Tally(0, 1, left) for check in results}
        yield group, {check: tally for check, tally in results.items() if tally.ran}
