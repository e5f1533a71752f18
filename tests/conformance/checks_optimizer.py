"""Checks of optimizers: every configuration and implementation against the CPU, over several steps.

The CPU runs its plain loop, but for the implementations that keep the step count in a float32 tensor: their corrections
for it have the digits of float32, so the CPU is asked for them too.
"""

from __future__ import annotations

import copy
import functools

import torch

from .compare import difference, tolerance
from .outcome import Tally, attempt, error_difference

STEPS = 5
IMPLEMENTATIONS = ("for loop", "foreach", "fused", "capturable", "differentiable")


def optimizer_checks(info, dtype):
    results = {i: Tally() for i in IMPLEMENTATIONS}
    results["state_dict"] = Tally()
    for configuration in info.optim_inputs_func(device="cpu", dtype=dtype):
        kwargs = {k: v for k, v in configuration.kwargs.items() if k not in ("foreach", "fused", "capturable")}
        expected, error = attempt(_train, info, kwargs, "cpu", dtype)
        if error is not None:
            continue
        by_step_tensor = expected
        if "differentiable" in info.supported_impls:
            # The CPU refuses capturable; differentiable has the same arithmetic.
            by_step_tensor = _train(info, kwargs | _options(info, "differentiable"), "cpu", dtype)
        for implementation in _supported(info):
            actual, error = attempt(_train, info, kwargs | _options(info, implementation), "tpu", dtype)
            reference = by_step_tensor if implementation in ("capturable", "differentiable") else expected
            message = error_difference(None, error) or difference(reference, actual, tolerance("", dtype))
            results[implementation].record(message and f"{configuration.desc or kwargs}: {message}")
        actual, error = attempt(_train, info, kwargs, "tpu", dtype, True)
        message = error_difference(None, error) or difference(expected, actual, tolerance("", dtype))
        results["state_dict"].record(message and f"{configuration.desc or kwargs}: {message}")
    return results


def _supported(info):
    yield "for loop"
    if info.only_supports_sparse_grads:
        return
    yield from (i for i in ("foreach", "fused", "differentiable") if i in info.supported_impls)
    if info.has_capturable_arg:
        yield "capturable"


def _options(info, implementation):
    options = {i: False for i in ("foreach", "fused", "differentiable") if i in info.supported_impls}
    if implementation != "for loop":
        options[implementation] = True
    return options


def _train(info, kwargs, device, dtype, reload_halfway=False):
    """Parameters after some steps with fixed gradients; with a closure, of a least squares problem."""
    torch.manual_seed(0)
    shapes = [(4, 3), (2, 4)] if info.optim_cls is torch.optim.Muon else [(4, 3), (5,), (2, 2, 2)]
    parameters = [torch.randn(s, dtype=dtype) for s in shapes]
    gradients = [[torch.randn(s, dtype=dtype) for s in shapes] for _ in range(STEPS)]
    kwargs = {k: _moved(v, device) for k, v in copy.deepcopy(kwargs).items()}
    parameters = [p.to(device, copy=True).requires_grad_() for p in parameters]
    if kwargs.get("differentiable"):
        parameters = [p.clone() for p in parameters]
    optimizer = info.optim_cls(parameters, **kwargs)
    for step in range(STEPS):
        if reload_halfway and step == STEPS // 2:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = info.optim_cls(parameters, **kwargs)
            optimizer.load_state_dict(state)
        if info.step_requires_closure:
            optimizer.step(functools.partial(_loss, optimizer, parameters))
        else:
            for p, g in zip(parameters, gradients[step]):
                g = g.to(device, copy=True)
                p.grad = g.to_sparse() if info.only_supports_sparse_grads else g
            optimizer.step()
    return [p.detach() for p in parameters]


def _moved(value, device):
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _loss(optimizer, parameters):
    optimizer.zero_grad()
    loss = sum(((p - 1) ** 2).sum() for p in parameters)
    loss.backward()
    return loss
