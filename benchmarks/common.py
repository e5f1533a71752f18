"""What the benchmarks share: devices, counters, repository modules, tables and JSON."""

import importlib.util
import json
import os
import platform
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parents[1]


def is_available(name):
    """Whether PyTorch has the device, without raising for a backend that is not installed."""
    kind = name.split(":")[0]
    module = getattr(torch, kind, None)
    return kind == "cpu" or (hasattr(module, "is_available") and module.is_available())


def synchronize(device):
    torch.get_device_module(device).synchronize()


def compile_count(device):
    """Programs compiled so far by torch_tpu; 0 on other devices."""
    return torch.tpu.metrics()["compiles"] if device.type == "tpu" else 0


def load_module(path):
    """Import a Python file of this repository that belongs to no package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, REPOSITORY / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def environment():
    """Versions and machine, to be stored with every result."""
    result = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "torch_threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[0],
    }
    if is_available("tpu"):
        result["tpu"] = str(torch.tpu.get_device_properties())
    return result


def print_table(title, columns, rows):
    """First column is text, the others are figures; None prints as a dash, a float with three significant digits."""
    table = Table(title=title)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console().print(table)


def _cell(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
    return str(value)


def write_json(path, result):
    Path(path).write_text(json.dumps({"environment": environment(), **result}, indent=1) + "\n")
