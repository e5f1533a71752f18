"""torch.tpu: the TPU device module, with the names and behaviour of torch.cuda.

Nothing here starts the device; the first tensor on it, or `init()`, does.
"""

from __future__ import annotations

import sys
import types

from torch_tpu.tpu._device import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
)
from torch_tpu.tpu._memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from torch_tpu.tpu._metrics import metrics, reset_metrics
from torch_tpu.tpu._modes import EagerMode, Precision, precision, set_eager_mode
from torch_tpu.tpu._random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_tpu.tpu._stream import Event, Stream, current_stream, default_stream, set_stream, stream

__all__ = [
    "EagerMode",
    "Event",
    "Precision",
    "Stream",
    "allow_excess_precision",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "metrics",
    "precision",
    "reset_accumulated_memory_stats",
    "reset_metrics",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


def _lazy_init() -> None:
    """PyTorch calls this before it uses the device."""
    init()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had started the device (PyTorch asks before it seeds)."""
    from torch_tpu import _C

    return _C.is_in_bad_fork()


class _Module(types.ModuleType):
    """Module attributes that read or set a setting."""

    @property
    def _initialized(self) -> bool:
        """What torch.utils.checkpoint asks before it keeps the generators' states for the second forward."""
        return is_initialized()

    @property
    def eager_mode(self) -> EagerMode:
        from torch_tpu.tpu import _modes

        return _modes.current_eager_mode()

    @property
    def allow_excess_precision(self) -> bool:
        from torch_tpu import _C

        return _C.allow_excess_precision()

    @allow_excess_precision.setter
    def allow_excess_precision(self, value: bool) -> None:
        from torch_tpu import _C

        _C.set_allow_excess_precision(bool(value))

    @property
    def default_generators(self):
        """One torch.Generator a device."""
        from torch_tpu import _C

        return tuple(_C.default_generator(i) for i in range(device_count()))


sys.modules[__name__].__class__ = _Module
