"""Error inputs: what the CPU refuses, the device refuses with the same type of exception."""

from __future__ import annotations

import warnings

import torch

from .outcome import Tally, attempt, describe, error_difference


def error_inputs(op):
    tally = Tally()
    if op.error_inputs_func is None:
        return {"error inputs": tally}
    torch.manual_seed(0)
    host_inputs = list(op.error_inputs("cpu"))
    device_inputs = list(op.error_inputs("tpu"))
    if len(host_inputs) != len(device_inputs):  # some are for certain devices only
        host_inputs = [None] * len(device_inputs)
    for on_host, on_device in zip(host_inputs, device_inputs):
        _, error = _call(op, on_device.sample_input)
        if on_host is not None:
            _, expected = _call(op, on_host.sample_input)
            message = error_difference(expected, error)
        elif isinstance(error, on_device.error_type):
            message = ""
        else:
            message = f"{describe(error) if error else 'no error'}, expected {on_device.error_type}"
        tally.record(message and f"{message} -- for {_brief(on_device)}")
    return {"error inputs": tally}


def _call(op, sample):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attempt(lambda: op(sample.input, *sample.args, **sample.kwargs))


def _brief(error_input):
    return " ".join(error_input.sample_input.summary().split())[:160]
