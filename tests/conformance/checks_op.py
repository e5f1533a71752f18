"""Checks of operators that return new values: forward, gradients, forward mode, strided and lazy inputs."""

from __future__ import annotations

import copy

import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

from .compare import (
    ARBITRARY_TIES,
    CHOOSE_AMONG_TIES,
    FREE_ORDER,
    canonical,
    difference,
    is_random,
    stride_difference,
    tolerance,
)
from .outcome import Tally, attempt, error_difference
from .samples import arguments, map_nested, tensors, widened


class Case:
    """One sample of an operator, run on either device by a `body(args, kwargs)`."""

    def __init__(self, op, sample, dtype):
        self.op, self.sample, self.dtype = op, sample, dtype
        self.name = op.full_name
        self.bounds = tolerance(self.name, dtype)
        self.random = is_random(self.name, sample)

    def arguments(self, device):
        return arguments(self.name, self.sample, device)

    def call(self, args, kwargs):
        return self.op(*args, **kwargs)

    def by_value(self, i):
        return not self.random and ARBITRARY_TIES.get(self.name) != i

    def canonical(self, outputs):
        return canonical(self.name, self.sample, outputs)

    def reference(self):
        """The results in wider arithmetic."""
        return self.canonical(self.call(*widened(self.sample)))


def forward(op, dtype, samples):
    """Values and strides of results, and what the call did to its arguments, which schemas do not always tell."""
    values, strides = Tally(), Tally()
    for sample in samples:
        case = Case(op, sample, dtype)
        _compare_call(case, values, strides)
    return {"forward": values, "strides": strides}


def noncontiguous(op, dtype, samples):
    values, strides = Tally(), Tally()
    for sample in filter(_is_strided, samples):
        _compare_call(Case(op, sample.noncontiguous(), dtype), values, strides)
    return {"noncontiguous": values, "noncontiguous strides": strides}


def _is_strided(sample):
    return all(t.layout == torch.strided for t in tensors([sample.input, sample.args, sample.kwargs]))


def lazy_views(op, dtype, samples):
    """Inputs whose conjugation or negation is a bit of the tensor."""
    tally = Tally()
    for sample in samples:
        for applies, to_view in (
            (op.test_conjugated_samples and dtype.is_complex, lambda t: torch.conj_physical(t).conj()),
            (op.test_neg_view, lambda t: torch.neg(t)._neg_view()),
        ):
            if applies and tensors(sample.input) and _is_strided(sample):
                _compare_call(Case(op, _with_first_tensor(sample, to_view), dtype), tally, None)
    return {"lazy views": tally}


def _with_first_tensor(sample, function):
    sample = copy.copy(sample)
    if isinstance(sample.input, torch.Tensor):
        sample.input = function(sample.input.detach()).requires_grad_(sample.input.requires_grad)
    else:
        first, *others = sample.input
        sample.input = type(sample.input)([function(first.detach()).requires_grad_(first.requires_grad), *others])
    return sample


@torch.no_grad()
def _compare_call(case, values, strides):
    args, kwargs = case.arguments("cpu")
    expected, error = attempt(case.call, args, kwargs)
    if error is not None:  # what must fail is for the error inputs
        return
    device_args, device_kwargs = case.arguments("tpu")
    actual, error = attempt(case.call, device_args, device_kwargs)
    if error is not None:
        values.record(error_difference(None, error))
        return

    message, failure = attempt(
        lambda: difference(case.canonical(expected), case.canonical(actual), case.bounds, case.by_value, case.reference)
    )
    if failure is None and not message and not case.random:
        message, failure = attempt(
            lambda: difference(tensors([args, kwargs]), tensors([device_args, device_kwargs]), case.bounds)
        )
        message = message and f"arguments after the call: {message}"
    values.record(message if failure is None else error_difference(None, failure))
    if strides is not None:
        strides.record(stride_difference(expected, actual))


def gradient(op, dtype, samples):
    return {"gradient": over_cases(_gradient_difference, op, dtype, samples)}


def over_cases(compare, op, dtype, samples):
    """The tally of `compare(case)`, which returns None where the CPU has nothing to compare with."""
    tally = Tally()
    for sample in samples:
        message = compare(Case(op, sample, dtype))
        if message is not None:
            tally.record(message)
    return tally


def _gradient_difference(case):
    expected, error = attempt(_gradients_on, case, "cpu")
    if error is not None or not expected:
        return None
    actual, error = attempt(_gradients_on, case, "tpu")
    if error is not None:
        return error_difference(None, error)
    wide = lambda: gradients(case, *widened(case.sample))
    chosen = case.name in CHOOSE_AMONG_TIES and case.dtype in (torch.bfloat16, torch.float16)
    return difference(expected, actual, case.bounds, lambda i: not case.random and not chosen, wide)


def _gradients_on(case, device):
    return gradients(case, *case.arguments(device))


def gradients(case, args, kwargs, call=None):
    """Gradients of the differentiable arguments for fixed gradients of the results; [] where there are none."""
    leaves = [t for t in tensors([args, kwargs]) if t.requires_grad]
    outputs = (call or case.call)(args, kwargs)
    if case.sample.output_process_fn_grad is not None:
        outputs = case.sample.output_process_fn_grad(outputs)
    if case.name in FREE_ORDER:
        outputs = case.canonical(outputs)
    outputs = [t for t in tensors(outputs) if t.requires_grad]
    if not leaves or not outputs:
        return []
    seeds = [random_like(t) for t in outputs]
    return list(torch.autograd.grad(outputs, leaves, seeds, allow_unused=True))


def random_like(tensor, seed=0):
    """The same numbers on every device and in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.complex64 if tensor.is_complex() else torch.float32
    return torch.randn(tensor.shape, dtype=kind, generator=generator).to(tensor.dtype).to(tensor.device)


def forward_mode(op, dtype, samples):
    return {"forward mode": over_cases(_forward_mode_difference, op, dtype, samples)}


def _forward_mode_difference(case):
    expected, error = attempt(_tangents, case, "cpu")
    if error is not None or not expected:
        return None
    actual, error = attempt(_tangents, case, "tpu")
    if error is not None:
        return error_difference(None, error)
    return difference(expected, actual, case.bounds, lambda i: not case.random)


def _tangents(case, device):
    args, kwargs = case.arguments(device)
    with forward_ad.dual_level():

        def dual(value):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                return forward_ad.make_dual(value.detach(), random_like(value))
            return value

        outputs = case.call(map_nested(dual, args), map_nested(dual, kwargs))
        if case.sample.output_process_fn_grad is not None:
            outputs = case.sample.output_process_fn_grad(outputs)
        return [t for t in (forward_ad.unpack_dual(o).tangent for o in tensors(outputs)) if t is not None]


# Numerical derivatives take two calls for each input element, fast mode two in all.
GRADCHECK_ELEMENTS = 200


def derivatives(op, dtype, samples):
    """gradcheck and gradgradcheck in float64, in fast mode, on one small sample."""
    small = [s for s in samples if 0 < sum(t.numel() for t in tensors([s.input, s.args])) <= GRADCHECK_ELEMENTS]
    return {"gradcheck": over_cases(_derivatives_difference, op, dtype, small[:1])}


def _derivatives_difference(case):
    expected, error = attempt(_derivatives, case, "cpu")
    if error is not None or not expected:
        return None
    return error_difference(None, attempt(_derivatives, case, "tpu")[1])


def _derivatives(case, device):
    args, kwargs = case.arguments(device)
    leaves = tuple(t for t in tensors(args) if t.requires_grad)
    if not leaves or case.random:
        return False

    def function(*values):
        replaced = iter(values)
        new_args = _replace_leaves(args, replaced)
        outputs = case.op.gradcheck_wrapper(case.op, *new_args, **kwargs)
        if case.sample.output_process_fn_grad is not None:
            outputs = case.sample.output_process_fn_grad(outputs)
        outputs = [t for t in tensors(outputs) if t.requires_grad]
        return tuple(outputs)

    options = dict(fast_mode=True, check_batched_grad=False, nondet_tol=case.op.gradcheck_nondet_tol)
    gradcheck(function, leaves, check_forward_ad=case.op.supports_forward_ad, **options)
    if case.op.supports_gradgrad:
        gradgradcheck(function, leaves, **options)
    return True


def _replace_leaves(value, replacements):
    return map_nested(lambda v: next(replacements) if isinstance(v, torch.Tensor) and v.requires_grad else v, value)
