"""Printing a tensor takes dozens of small ops: they run on the host, after one copy."""

from __future__ import annotations

import functools

import torch._tensor_str


def install() -> None:
    """Makes PyTorch format tpu tensors from a CPU copy, as it does for xla and mtia tensors."""
    original = torch._tensor_str._tensor_str

    @functools.wraps(original)
    def _tensor_str(self, indent):
        return original(self.cpu() if self.device.type == "tpu" else self, indent)

    torch._tensor_str._tensor_str = _tensor_str
