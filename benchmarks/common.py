"""What the benchmarks share: devices, counters, repository modules, tables and JSON."""

import importlib.util
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
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


@cache
def stablehlo_runner():
    """run_stablehlo, built beside the C++ tests."""
    build = REPOSITORY / "build/benchmarks"
    python = Path(sysconfig.get_path("scripts")) / "python"
    configure = ["cmake", "-S", REPOSITORY, "-B", build, "-GNinja", f"-DPython_EXECUTABLE={python}"]
    subprocess.run([*configure, "-DCMAKE_BUILD_TYPE=Release"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build, "--target", "run_stablehlo"], check=True, stdout=subprocess.DEVNULL)
    return build / "run_stablehlo"


MLIR_TYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint32": "ui32", "bool": "i1"}


class StableHloProgram:
    """A StableHLO module (text or portable artifact) on the tpu device's plugin, in a process of its own.

    `arrays` are its arguments; the first `feedback` outputs become the first arguments of the next run. `options` are
    serialized compile options (torch_tpu._C.compile_options()); XLA's own by default.
    `compile_seconds`, `flops` and `bytes` (read and written, by XLA's count) are known once it is made.
    """

    def __init__(self, module, arrays, feedback=0, options=None):
        self.folder = tempfile.TemporaryDirectory()
        module_path, inputs_path = Path(self.folder.name, "module.mlir"), Path(self.folder.name, "inputs")
        module_path.write_bytes(module.encode() if isinstance(module, str) else module)
        with inputs_path.open("wb") as file:
            for array in map(np.asarray, arrays):
                kind = MLIR_TYPES[array.dtype.name]
                file.write(" ".join([kind, *map(str, array.shape)]).encode() + b"\n" + array.tobytes())
        plugin = torch.tpu.get_device_properties().plugin
        command = [stablehlo_runner(), plugin, module_path, inputs_path, str(feedback)]
        if options is not None:
            options_path = Path(self.folder.name, "options")
            options_path.write_bytes(options)
            command.append(options_path)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.compile_seconds, self.flops, self.bytes = map(float, self.process.stdout.readline().split())

    def run(self):
        """Seconds of one run, waited for, and its last output where that is a f32 scalar."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, last = map(float, self.process.stdout.readline().split())
        return seconds, last

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()


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
