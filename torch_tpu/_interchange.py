"""DLPack: PyTorch looks for the name that PrivateUse1 had before it was renamed."""

from __future__ import annotations

import functools

import torch


def install() -> None:
    """Makes Tensor.__dlpack_device__ answer for tpu tensors: an extension device, which only PyTorch itself reads."""
    original = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def __dlpack_device__(self):
        if self.device.type != "tpu":
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        return (DLDeviceType.kDLExtDev, self.device.index)

    torch.Tensor.__dlpack_device__ = __dlpack_device__
