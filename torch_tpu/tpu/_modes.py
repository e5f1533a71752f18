"""How eager ops run, and how exact float32 matrix products are."""

from __future__ import annotations

import atexit
import contextlib
import enum
import os

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from torch_tpu import _C


class EagerMode(enum.Enum):
    """STRICT: one program per op, asynchronous. DEBUG: each op is waited for and its index bounds are checked.
    FUSED: ops are recorded, and run as few programs when a value is read, before and after an optimizer's step, or when
    many have gathered."""

    DEFER_NEVER = 0
    DEFER_NEVER_AND_LAUNCH_BLOCKING = 1
    DEFER_AND_FUSE = 2
    STRICT = 0
    DEBUG = 1
    FUSED = 2


def current_eager_mode() -> EagerMode:
    return EagerMode(_C.eager_mode())


_step_hooks = []


def _prepare_fused() -> None:
    """An optimizer's step is a trace of its own, and forward and backward are one. The first step makes the optimizer's
    state: in one program with it, forward and backward would be compiled again for the second."""
    if not _step_hooks:

        def flush(optimizer, args, kwargs):
            _C.flush_step()

        _step_hooks.extend([register_optimizer_step_pre_hook(flush), register_optimizer_step_post_hook(flush)])
        # XLA's threads must not compile while the process takes itself down.
        atexit.register(_C.drain_compilations)


class set_eager_mode:
    """Sets the mode at once; as a context manager, until its end."""

    def __init__(self, mode: EagerMode):
        mode = EagerMode(mode)
        if mode is EagerMode.FUSED:
            _prepare_fused()
        self._previous = _C.eager_mode()
        _C.set_eager_mode(mode.value)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        _C.set_eager_mode(self._previous)
        return False


class Precision(enum.Enum):
    """Passes over float32 operands of matrix products and convolutions on the device's matrix unit."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


@contextlib.contextmanager
def precision(mode: Precision):
    """Inside, float32 matrix products run with `mode` whatever torch.get_float32_matmul_precision() says."""
    previous = _C.precision()
    _C.set_precision(Precision(mode).value)
    try:
        yield
    finally:
        _C.set_precision(previous)


def set_from_environment() -> None:
    """TORCH_TPU_LAUNCH_BLOCKING, TORCH_TPU_DEFER_AND_FUSE and TORCH_TPU_FALLBACK."""
    if os.environ.get("TORCH_TPU_LAUNCH_BLOCKING", "0") not in ("", "0"):
        _C.set_eager_mode(EagerMode.DEBUG.value)
    elif os.environ.get("TORCH_TPU_DEFER_AND_FUSE", "0") not in ("", "0"):
        set_eager_mode(EagerMode.FUSED)
    policy = os.environ.get("TORCH_TPU_FALLBACK", "warn")
    policies = {"warn": 0, "error": 1, "allow": 2}
    if policy not in policies:
        raise ValueError(f"TORCH_TPU_FALLBACK={policy}: expected one of {', '.join(policies)}")
    _C.set_fallback(policies[policy])
