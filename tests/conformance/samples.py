"""OpInfo's sample inputs: which of them run, and copies on a device that are the same views of the same storages."""

from __future__ import annotations

import torch

# Whose tensor arguments stay on the CPU, as with CUDA.
HOST_ARGUMENTS = {"tensor_split"}


def spread(items, limit):
    """At most `limit` of the items, evenly over the list (generators sort theirs by kind); more include the fewer."""
    items = list(items)
    if not limit or len(items) <= limit:
        return items
    last = len(items) - 1
    chosen, parts = dict.fromkeys([len(items) // 2, 0, last]), 4
    while len(chosen) < limit:
        chosen |= dict.fromkeys(round(i * last / parts) for i in range(1, parts, 2))
        parts *= 2
    return [items[i] for i in sorted(list(chosen)[:limit])]


def samples_of(op, dtype, limit, requires_grad=False):
    torch.manual_seed(0)
    return spread(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), limit)


def tensors(value):
    """All tensors in nested lists and tuples, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return []


def map_nested(function, value):
    """`value` with `function` applied to everything that is not a list, tuple or dict."""
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items = [map_nested(function, v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: map_nested(function, v) for k, v in value.items()}
    return function(value)


class Copier:
    """Copies values to a device. Tensors that share a storage share one there; a tensor passed twice stays one."""

    def __init__(self, device):
        self.device = device
        self.copies, self.storages = {}, {}

    def __call__(self, value):
        return map_nested(self._copy, value)

    def _copy(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in self.copies:
                # The original is kept, so that no later one gets its id.
                self.copies[id(value)] = (self._copy_tensor(value).requires_grad_(value.requires_grad), value)
            return self.copies[id(value)][0]
        if isinstance(value, torch.device):
            return torch.device(self.device)
        if isinstance(value, str) and value == "cpu":
            return self.device
        return value

    def _copy_tensor(self, tensor):
        source = tensor.detach()
        if source.layout != torch.strided or source.device.type != "cpu":
            return source.clone() if self.device == "cpu" else source.to(self.device)
        storage = source.untyped_storage()
        key = (storage._cdata, source.dtype)
        if key not in self.storages:
            whole = torch.empty(0, dtype=source.dtype).set_(storage)
            self.storages[key] = (whole.clone() if self.device == "cpu" else whole.to(self.device), storage)
        copy = self.storages[key][0].as_strided(source.shape, source.stride(), source.storage_offset())
        copy = copy.conj() if source.is_conj() else copy
        return copy._neg_view() if source.is_neg() else copy


def arguments(name, sample, device):
    """(positional, named) arguments of the sample on `device`, independent of the sample's own tensors."""
    copier = Copier(device)
    first = copier(sample.input)
    rest = copier(sample.args) if name not in HOST_ARGUMENTS else Copier("cpu")(sample.args)
    return [first, *rest], copier(sample.kwargs)


_WIDER = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def widened(sample):
    """The sample's CPU arguments in the next wider type, as a reference for what rounding may do."""

    def widen(value):
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            wide = value.detach().to(_WIDER.get(value.dtype, value.dtype), copy=True)
            return wide.requires_grad_(value.requires_grad)
        return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value

    return [map_nested(widen, sample.input), *map_nested(widen, sample.args)], map_nested(widen, sample.kwargs)
