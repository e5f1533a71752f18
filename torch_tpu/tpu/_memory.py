"""Device memory, in bytes. The figures are of live PJRT buffers; XLA keeps no pool that could be given back."""

from __future__ import annotations

import torch

from torch_tpu import _C
from torch_tpu.tpu._device import device_index


def memory_stats(device=None) -> dict[str, int]:
    """Flat statistics under torch.cuda's names ("allocated_bytes.all.current", ...)."""
    return torch.accelerator.memory_stats(device_index(device))


def _stat(name: str, device) -> int:
    return memory_stats(device).get(name, 0)


def memory_allocated(device=None) -> int:
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device=None) -> int:
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device=None) -> int:
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device=None) -> int:
    return _stat("reserved_bytes.all.peak", device)


def reset_peak_memory_stats(device=None) -> None:
    torch.accelerator.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device=None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total)."""
    return torch.accelerator.get_memory_info(device_index(device))


def empty_cache() -> None:
    """Drops compiled programs from memory (not from disk), unused packed scalars and unused large blocks."""
    _C.empty_cache()


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """A readable table of memory_stats."""
    index = device_index(device)
    stats = memory_stats(index)
    free, total = mem_get_info(index)
    lines = [f"tpu:{index} memory", f"{'total':<24}{total:>20,}", f"{'free':<24}{free:>20,}"]
    rows = {"allocated bytes": "allocated_bytes", "buffers": "allocation"}
    for title, name in rows.items():
        for column in ("current", "peak") if abbreviated else ("current", "peak", "allocated", "freed"):
            lines.append(f"{title + ' ' + column:<24}{stats.get(f'{name}.all.{column}', 0):>20,}")
    lines.append(f"{'out of memory errors':<24}{stats.get('num_ooms', 0):>20,}")
    return "\n".join(lines)
