"""Calls of an op that differ in one thing each: for the test that each gets a program of its own."""

from __future__ import annotations

import functools

import aten_calls
import extra_calls
import torch

# Not attributes of programs.
_SKIPPED_TYPES = ("Device", "Layout", "Generator", "Stream", "Storage")
_SKIPPED_NAMES = ("pin_memory", "non_blocking", "debug_mask")

# What CPU kernels trust: another value reads beyond their inputs, or divides by zero.
_TRUSTED = {
    "num_weights",
    "num_head",
    "num_heads",
    "has_bias",
    "save_mean",
    "save_invstd",
    "save_var",
    "train",
    "blank",
    "offsets",  # of another sample, with other sizes
}

_TRIES, _KEPT = 8, 2


@functools.cache
def samples():
    """{lowering: calls}, each (function, arguments by name), with tensors on the CPU."""
    lowerings = {d["name"] for d in _lowerings()}
    found = {}

    def on_call(function, args, kwargs):
        name = aten_calls.overload_name(function)
        name = aten_calls.OVERRIDEABLE.get(name, name)
        calls = found.setdefault(name, [])
        if name not in lowerings or len(calls) >= 4 or "_for_cpu" in str(function):
            return
        named = named_arguments(function, args, kwargs)
        if all(t.numel() < 5000 and t.layout == torch.strided for t in aten_calls.tensors(list(named.values()))):
            calls.append((function, aten_calls.copied(named)))

    for op in aten_calls.entries():
        dtype = aten_calls.preferred_dtype(op)
        if dtype is not None:
            aten_calls.run_samples(op, dtype, 2, on_call)
    for name in extra_calls.NAMES:
        function = aten_calls.find_overload(name)
        for dtype in (torch.float32, torch.int64):
            try:
                named = extra_calls.arguments(name, function, "cpu", dtype)
            except Exception:
                continue
            found.setdefault(name, []).append((function, named))
    return {name: calls for name, calls in found.items() if calls}


def _lowerings():
    import torch_tpu

    return torch_tpu._C.lowerings()


def named_arguments(function, args, kwargs):
    """All arguments by name, defaults filled in."""
    named = dict(kwargs)
    for position, a in enumerate(function._schema.arguments):
        if position < len(args):
            named[a.name] = args[position]
        elif a.name not in named and a.has_default_value():
            named[a.name] = a.default_value
    return named


def variants(name, function, named):
    """(what differs, arguments) of calls that differ from `named` in one argument, one dtype or what is shared."""
    for a in function._schema.arguments:
        kind = str(a.real_type)
        if a.name in _TRUSTED or (a.name == "kernel_size" and "conv" in name):
            continue
        if "Tensor" in kind:
            if kind in ("Tensor", "Optional[Tensor]"):
                yield from _tensor_variants(name, a, named)
        elif not (any(s in kind for s in _SKIPPED_TYPES) or a.name in _SKIPPED_NAMES):
            yield [(a.name, {**named, a.name: v}) for v in _alternatives(name, a, kind, named.get(a.name))]
    yield [("float64", _converted(named, torch.float32, torch.float64))]
    yield _shared(function, named)


def _alternatives(name, argument, kind, value):
    seen = [named.get(argument.name) for _, named in samples().get(name, [])]
    if argument.name in ("dim", "dims") and kind.endswith("List[int]") and value:
        seen += [[], list(value)[:1]]
    made = list(_made(kind.removeprefix("Optional[").removesuffix("]") if "Optional" in kind else kind, value))
    if "Optional" in kind:
        made.append(None)
    if argument.name.endswith("mode") and kind == "int":  # an enumeration, which kernels trust
        made = [0, 1, 2]
    if (
        name.startswith("multi_margin_loss") and argument.name == "p"
    ):  # the CPU rounds others, where PyTorch's meta refuses
        made = [1, 2]
    unique = {repr(v): v for v in [*seen, *made] if repr(v) != repr(value)}
    return list(unique.values())[:_TRIES]


def _made(kind, value):
    if kind == "bool":
        yield not value
    elif kind == "int":
        value = value if isinstance(value, int) else 0
        yield from (value + 1, abs(value - 1), 0, 2)
    elif kind == "float":
        yield from ((value or 0.0) * 0.5 + 0.25, 2.0, 0.5)
    elif kind == "number":
        yield from (3, 1.5, 0.5, True) if not isinstance(value, complex) else (value * 0.5, 2.0)
    elif kind == "List[int]" and isinstance(value, (list, tuple)):
        yield from ([v + 1 for v in value], list(reversed(value)), [v - 1 for v in value])
    elif kind == "List[int]":
        yield from ([0], [1], [2, 2])
    elif kind == "List[bool]" and value:
        yield from ([not value[0], *value[1:]], [*value[:-1], not value[-1]])
    elif kind in ("List[float]", "List[number]"):
        yield [v * 0.5 + 0.25 for v in value or []]
    elif kind == "ScalarType":
        yield from (torch.float64, torch.int64, torch.float32, torch.bfloat16, torch.bool)
    elif kind == "MemoryFormat":
        yield from (torch.contiguous_format, torch.preserve_format, torch.channels_last)


def _tensor_variants(name, argument, named):
    """Numbers in the place of a tensor, which promote differently; and no tensor where it is optional."""
    value = named.get(argument.name)
    if argument.name in ("other", "exponent", "value", "test_elements"):
        floats = [2, 2.5, torch.tensor(2.5, dtype=torch.float64), torch.tensor(2, dtype=torch.int8)]
        yield [(f"{argument.name} as a number", {**named, argument.name: v}) for v in floats]
    if "Optional" in str(argument.real_type) and not (value is None and argument.name in _TRUSTED):
        others = [n.get(argument.name) for _, n in samples().get(name, [])]
        others = [None, *others] if value is not None else others
        yield [(argument.name, {**named, argument.name: v}) for v in others if (v is None) != (value is None)]


def _converted(named, old, new):
    """None where nothing has the dtype `old`."""
    convert = lambda v: v.to(new) if isinstance(v, torch.Tensor) and v.dtype == old else v
    if any(t.dtype == old for t in aten_calls.tensors(list(named.values()))):
        return aten_calls.map_nested(convert, named)
    return None


def _shared(function, named):
    """The same tensor twice, where two arguments are alike and none is written."""
    if any(a.alias_info is not None for a in function._schema.arguments):
        return []
    tensors = [(n, t) for n, t in named.items() if isinstance(t, torch.Tensor)]
    for i, (_, first) in enumerate(tensors):
        for second, t in tensors[i + 1 :]:
            if (t.shape, t.dtype, t.stride()) == (first.shape, first.dtype, first.stride()) and t is not first:
                return [(f"{second} shared", {**named, second: first})]
    return []


def accepted(name, function, named):
    """(what differs, arguments) that the CPU takes, with CPU's result; a few of each kind."""
    for alternatives in variants(name, function, named):
        kept = 0
        for what, changed in alternatives:
            if changed is None or kept == _KEPT or _needs_statistics(name, changed):
                continue
            try:
                torch.manual_seed(0)
                expected = run(function, changed, "cpu")
            except NotImplementedError as e:
                if "backend" not in str(e):
                    continue
                expected = None  # an op of devices only
            except Exception:
                continue
            kept += 1
            yield what, changed, expected


def _needs_statistics(name, named):
    return "batch_norm" in name and named.get("training") is False and named.get("running_mean") is None


def run(function, named, device):
    """The results, and what the call has left in its tensor arguments."""
    from conformance.samples import Copier

    copier = Copier(device)
    own = copier({k: v for k, v in named.items() if not _stays(v)}) | {k: v for k, v in named.items() if _stays(v)}
    result = function(**own)
    if any(a.alias_info is not None and a.alias_info.is_write for a in function._schema.arguments):
        return [result, *(own[k] for k in sorted(own) if not _stays(own[k]))]
    return result


def _stays(value):
    """Numbers in the place of tensors come from the CPU."""
    return isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype in (torch.float64, torch.int8)
