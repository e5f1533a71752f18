"""Counters of what the backend did."""

from __future__ import annotations

from torch_tpu import _C


def metrics() -> dict:
    """A plain dict of counters since the start or the last reset.

    compiles, cache_hits_memory, cache_hits_disk, executions, fallbacks ({op: count}), bytes_h2d, bytes_d2h,
    transfers_h2d, transfers_d2h, compile_seconds, lowering_seconds, cache_load_seconds, cache_errors,
    programs_in_memory (of which traces_in_memory), program_bytes (of their executables), programs_dropped (for
    TORCH_TPU_MAX_PROGRAMS), fused_ops, flushes ({reason: count}).
    """
    return _C.metrics()


def reset_metrics() -> None:
    """Sets all counters to zero; programs stay cached."""
    _C.reset_metrics()
