"""Checks of modules: forward and gradients against the CPU, state_dict, deepcopy and pickling."""

from __future__ import annotations

import copy
import io
import pickle

import torch

from .checks_op import random_like
from .compare import difference, stride_difference, tolerance
from .outcome import Tally, attempt, error_difference
from .samples import Copier, spread, tensors

# With dropout in training mode, the numbers are random.
_RANDOM_IN_TRAINING = ("Dropout", "RReLU", "FractionalMaxPool")
_ALWAYS_RANDOM = ("FractionalMaxPool",)


def module_checks(info, dtype, limit):
    results = {c: Tally() for c in ("forward", "strides", "gradient", "state_dict", "deepcopy", "pickle")}
    for training in (True, False):
        torch.manual_seed(0)
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for module_input in spread(inputs, limit):
            case = _ModuleCase(info, module_input, dtype, training)
            case.check_forward(results["forward"], results["strides"])
            case.check_gradient(results["gradient"])
            case.check_copies(results)
    return results


class _ModuleCase:
    def __init__(self, info, module_input, dtype, training):
        self.info, self.input, self.bounds = info, module_input, tolerance("", dtype)
        self.dtype = dtype
        names = _RANDOM_IN_TRAINING if training else _ALWAYS_RANDOM
        options = [*module_input.constructor_input.args, *module_input.constructor_input.kwargs.values()]
        layers = [m for m in options if isinstance(m, torch.nn.Module)]
        constructed = self._construct("cpu", training)
        layers += list(constructed.modules())
        self.random = any(n in type(m).__name__ for m in layers for n in names) or (
            training and any(getattr(m, "dropout", 0) not in (0, None, 0.0) for m in layers)
        )
        self.host = constructed
        if info.is_lazy:
            self.forward(self.host, "cpu")  # makes its parameters
            self.host.eval()
            self.host.train(training)
        self.device = self._construct("tpu", training)
        if info.is_lazy:
            self.forward(self.device, "tpu")
        self.device.load_state_dict(self.host.state_dict())

    def _construct(self, device, training):
        made = self.input.constructor_input
        torch.manual_seed(0)
        copier = Copier(device)

        def moved(value):
            return copy.deepcopy(value).to(device) if isinstance(value, torch.nn.Module) else copier(value)

        args = [moved(a) for a in made.args]
        kwargs = {k: moved(v) for k, v in made.kwargs.items()}
        module = self.info.module_cls(*args, **kwargs).to(device=device, dtype=self.dtype)
        return module.train(training)

    def forward(self, module, device):
        copier = Copier(device)
        self.leaves = copier(self.input.forward_input.args), copier(self.input.forward_input.kwargs)
        torch.manual_seed(0)
        return module(*self.leaves[0], **self.leaves[1])

    def by_value(self, _):
        return not self.random

    def _outputs(self, module, device):
        return attempt(self.forward, copy.deepcopy(module), device)

    def check_forward(self, values, strides):
        expected, error = self._outputs(self.host, "cpu")
        if error is not None:
            return
        actual, error = self._outputs(self.device, "tpu")
        if error is not None:
            values.record(error_difference(None, error))
            return
        values.record(difference(expected, actual, self.bounds, self.by_value))
        strides.record(stride_difference(expected, actual))

    def check_gradient(self, tally):
        expected, error = attempt(self._gradients, self.host, "cpu")
        if error is not None or not expected:
            return
        actual, error = attempt(self._gradients, self.device, "tpu")
        tally.record(error_difference(None, error) or difference(expected, actual, self.bounds, self.by_value))

    def _gradients(self, module, device):
        module = copy.deepcopy(module)
        outputs = [t for t in tensors(self.forward(module, device)) if t.requires_grad]
        leaves = [t for t in tensors(self.leaves) if t.requires_grad] + list(module.parameters())
        if not outputs or not leaves:
            return []
        seeds = [random_like(t) for t in outputs]
        found = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
        buffers = list(module.buffers())  # running statistics
        return [t for t in found if t is not None] + buffers

    def check_copies(self, results):
        """Each copy has the same state, on the device, and gives the same results."""
        expected, error = self._outputs(self.device, "tpu")
        if error is not None:  # forward's failure
            return
        for check, make in (
            ("state_dict", self._through_state_dict),
            ("deepcopy", copy.deepcopy),
            ("pickle", lambda m: pickle.loads(pickle.dumps(m))),
        ):
            duplicate, error = attempt(make, self.device)
            message = error_difference(None, error) or self._state_difference(duplicate)
            if not message:
                actual, error = self._outputs(duplicate, "tpu")
                message = error_difference(None, error) or difference(expected, actual, {}, self.by_value)
            results[check].record(message)

    def _through_state_dict(self, module):
        """Saved to bytes on the device, read back onto the CPU and loaded into a new module."""
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        state = torch.load(file, map_location="cpu")
        fresh = self._construct("tpu", module.training)
        if self.info.is_lazy:
            self.forward(fresh, "tpu")
        fresh.load_state_dict(state)
        return fresh

    def _state_difference(self, duplicate):
        mine, other = self.device.state_dict(), duplicate.state_dict()
        if list(mine) != list(other):
            return f"state {list(other)}, expected {list(mine)}"
        for name in mine:
            if isinstance(mine[name], torch.Tensor):
                if other[name].device != mine[name].device:
                    return f"{name} is on {other[name].device}"
                if other[name].data_ptr() == mine[name].data_ptr() and mine[name].numel():
                    return f"{name} shares memory with the original"
                message = difference(mine[name].cpu(), other[name])
                if message:
                    return f"{name}: {message}"
        return ""
