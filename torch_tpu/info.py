"""`python -m torch_tpu.info`: plugin, versions, devices, settings and a self-check, whose failure is exit status 1."""

from __future__ import annotations

import os
import platform
import sys

import torch

import torch_tpu

VARIABLES = {
    "TPU_LIBRARY_PATH": "the PJRT plugin to load",
    "TORCH_TPU_CPU_DEVICES": "virtual devices of the CPU plugin",
    "TORCH_TPU_LAUNCH_BLOCKING": "1: debug mode from the start",
    "TORCH_TPU_DEFER_AND_FUSE": "1: fused mode from the start",
    "TORCH_TPU_RECORD_LINES": "0: late errors do not name the line of Python that called the op",
    "TORCH_TPU_CACHE": "0: no disk cache of compiled programs",
    "TORCH_TPU_CACHE_DIR": "folder of the disk cache",
    "TORCH_TPU_CACHE_MAX_BYTES": "size cap of the disk cache",
    "TORCH_TPU_MAX_PROGRAMS": "programs of single ops kept in memory, and a sixteenth as many of traces",
    "TORCH_TPU_FALLBACK": "warn, error or allow: an op without a lowering",
    "TORCH_TPU_LOG": "level or component:level,...: what the backend does, to stderr",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0: PyTorch does not load this package by itself",
}


def cache_folder() -> str:
    """Where compiled programs are kept, or why they are not."""
    if os.environ.get("TORCH_TPU_CACHE") == "0":
        return "off (TORCH_TPU_CACHE=0)"
    if folder := os.environ.get("TORCH_TPU_CACHE_DIR"):
        return folder
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", ""), ".cache")
    return os.path.join(base, "torch_tpu")


def self_check() -> str:
    """Runs a small program on every device and compares with the CPU; '' when all agree."""
    x = torch.arange(12.0).view(3, 4)
    want = torch.softmax(x @ x.T, -1)
    for index in range(torch.tpu.device_count()):
        device = torch.device("tpu", index)
        on_device = x.to(device)
        got = torch.softmax(on_device @ on_device.T, -1).cpu()
        if not torch.allclose(got, want):
            return f"{device} computes other numbers than the CPU"
    return ""


def main() -> int:
    rows = [
        ("torch_tpu", torch_tpu.__version__),
        ("torch", torch.__version__),
        ("python", platform.python_version()),
        ("lowerings", len(torch_tpu._C.registered_ops())),
        ("disk cache", cache_folder()),
    ]
    try:
        properties = torch.tpu.get_device_properties(0)
        rows += [
            ("plugin", f"{properties.plugin} ({properties.plugin_reason})"),
            ("platform", f"{properties.platform} {properties.platform_version}"),
            ("PJRT API", properties.pjrt_api_version),
            ("devices", torch.tpu.device_count()),
            ("memory", f"{properties.total_memory / 2**30:.1f} GiB a device"),
        ]
        problem = self_check()
    except RuntimeError as e:
        problem = str(e)
    rows.append(("self-check", problem or "ok"))
    for name, value in rows:
        print(f"{name:<12} {value}")
    print("\nenvironment")
    for name, meaning in VARIABLES.items():
        print(f"  {name:<30} {os.environ.get(name, '-'):<12} {meaning}")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
