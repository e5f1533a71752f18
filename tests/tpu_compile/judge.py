"""Which outcomes are acceptable: what compiled within the limit, and what a registration declares impossible."""

from __future__ import annotations

import functools

import torch_tpu

LIMIT_SECONDS = 5.0
LIMIT_BYTES = 1 << 20  # larger arguments may take longer

# TPUs have these in software only: such programs are listed, but may take longer.
SOFTWARE_TYPES = {"float64", "complex128"}


@functools.cache
def _declared():
    return {d["name"]: [reason for _, reason in d["not_on_tpu"]] for d in torch_tpu._C.lowerings()}


def declared(result):
    """Whether the registration says that the call cannot be served, and the user is told so before compiling."""
    return not result["lowered"] and any(r in result["error"] for r in _declared().get(result["lowering"], []))


def slow(result):
    return result["seconds"] > LIMIT_SECONDS and result["nbytes"] < LIMIT_BYTES


def slow_in_software(result):
    return slow(result) and bool(SOFTWARE_TYPES & set(result["types"]))


def problem(result):
    """'' or what is wrong with the outcome."""
    if result["error"]:
        return "" if declared(result) or slow_in_software(result) else result["error"]
    return f"{result['seconds']:.1f} s" if slow(result) and not slow_in_software(result) else ""


def unreached(results):
    """Lowerings of PyTorch's ops that no call of these results reaches."""
    reached = {r["lowering"] for r in results}
    return [d["name"] for d in torch_tpu._C.lowerings() if d["name"] not in reached]
