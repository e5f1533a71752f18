"""No call gets the program of another: what decides about a program is part of its key.

Calls of each lowering, from PyTorch's OpInfo samples, are followed by calls that differ in one attribute, dtype or in
what their arguments share. Each must give what it gives with an empty cache; public ops also what the CPU gives.
"""

import warnings

import cache_key_variants as variants
import pytest
import torch
from conformance import compare
from conformance.samples import tensors

import torch_tpu

NAMES = [d["name"] for d in torch_tpu._C.lowerings()]

# Whose numbers are not CPU's: random ones, free signs and orders.
FREE = ("topk", "linalg_eig", "geqrf", "linalg_qr", "linalg_ldl_factor_ex")
RANDOM = ("bernoulli", "native_dropout", "rrelu_with_noise", "multinomial")


def _has_cpu_numbers(name, function):
    """Whether results are CPU's. Those of internal ops and gradients are only where their arguments fit each other."""
    base = name.partition(".")[0].rstrip("_")
    generator = any("Generator" in str(a.real_type) for a in function._schema.arguments)
    return not (generator or base in FREE or base in RANDOM or base.startswith("_") or "backward" in base)


def _on_device(function, named):
    torch.manual_seed(0)
    result = variants.run(function, named, "tpu")
    torch.tpu.synchronize()
    return result


def differences(name, function, named, call=_on_device, clear=torch_tpu._C.empty_cache):
    """What is wrong with calls that follow each other."""
    found, compared = [], _has_cpu_numbers(name, function)
    try:
        call(function, named)
    except Exception:
        return found  # a call that the device refuses, of which conformance knows
    for what, changed, expected in variants.accepted(name, function, named):
        call(function, named)
        try:
            warm = call(function, changed)
        except Exception as e:
            warm = e
        clear()
        try:
            cold = call(function, changed)
        except Exception as e:
            cold = e
        if message := _difference(cold, warm, dict(rtol=0, atol=0)):
            found.append(f"{what}: after another call {message}")
        elif not compared:
            continue
        elif isinstance(warm, Exception):
            found.append(f"{what}: {type(warm).__name__}: {warm}")
        elif expected is not None:
            reduced = {t.dtype for t in tensors(expected)} & {torch.bfloat16, torch.float16}
            bounds = dict(rtol=2e-2, atol=2e-2) if reduced else dict(rtol=1e-3, atol=1e-3)
            if message := compare.difference(expected, warm, bounds):
                found.append(f"{what}: {message}")
    return found


def _difference(expected, actual, bounds):
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        return "" if type(expected) is type(actual) else f"{actual!r}, expected {expected!r}"
    return compare.difference(expected, actual, bounds) or compare.stride_difference(expected, actual)


@pytest.mark.parametrize("name", NAMES)
def test_attributes_are_part_of_the_key(name):
    calls = variants.samples().get(name, [])
    if not calls:
        pytest.skip("no call on the CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function, named = max(calls, key=lambda call: sum(v is not None for v in call[1].values()))
        found = differences(name, function, named)
    assert not found, "\n".join(f"{name}: {message}" for message in found)


def test_a_key_without_an_attribute_is_found():
    """The check itself: with a cache whose key lacks `keepdim`, `dim` or a number's value it fails."""
    function = torch.ops.aten.sum.dim_IntList
    named = dict(self=torch.arange(12.0).reshape(3, 4), dim=[0], keepdim=False, dtype=None)
    for missing in ("dim", "keepdim", "dtype"):
        cache = {}

        def call(function, named, missing=missing, cache=cache):
            key = tuple(repr(v) for k, v in sorted(named.items()) if k != missing)
            if key not in cache:
                cache[key] = function(**named)
            return cache[key]

        found = differences("sum.dim_IntList", function, named, call, cache.clear)
        assert any(message.startswith(missing) for message in found), missing


def test_most_lowerings_with_attributes_are_tried():
    tried = [n for n in NAMES if variants.samples().get(n)]
    assert len(tried) > 0.9 * len(NAMES), sorted(set(NAMES) - set(tried))
