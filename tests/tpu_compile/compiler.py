"""libtpu as a compiler for a topology, in a worker process that may crash or exceed the time limit."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import time

TOPOLOGIES = {"v5e": "v5e:2x2x1", "v6e": "v6e:2x2x1"}

# Otherwise libtpu asks a metadata server for minutes, and two processes cannot load it at once.
_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_MIN_LOG_LEVEL": "3",
}


def libtpu_path():
    """The installed libtpu's file; None where there is none."""
    spec = importlib.util.find_spec("libtpu")
    folders = spec.submodule_search_locations if spec else []
    return next((path for f in folders if os.path.exists(path := os.path.join(f, "libtpu.so"))), None)


def _serve(connection, plugin, topology):
    os.environ.update(_ENVIRONMENT)
    import torch  # noqa: F401 - the extension needs its libraries

    from torch_tpu import _C

    compiler = _C.TopologyCompiler(plugin, topology)
    compiler.compile("func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }")
    connection.send("ready")
    while True:
        try:
            text = connection.recv()
        except EOFError:  # the parent is done
            return
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            result = {"error": "", **compiler.compile(text)}
        except Exception as e:
            result = {"error": " ".join(str(e).split())}
        # A busy machine makes the first longer, threads the second.
        result["seconds"] = min(time.perf_counter() - wall, time.process_time() - cpu)
        connection.send(result)


class Compiler:
    """Compiles module texts for a TPU generation, one after the other."""

    def __init__(self, generation, seconds=60):
        self.topology, self.limit = TOPOLOGIES[generation], seconds
        self.process = None

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, child = context.Pipe()
        arguments = (child, libtpu_path(), self.topology)
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        child.close()
        if not self.connection.poll(300):
            raise RuntimeError("libtpu did not start within 300 s")
        self.connection.recv()

    def compile(self, text):
        """{"error", "seconds", and where it compiled "temporaries", "code" in bytes}."""
        if self.process is None:
            self._start()
        start = time.perf_counter()
        self.connection.send(text)
        if self.connection.poll(self.limit):
            try:
                return self.connection.recv()
            except EOFError:
                error = "the compiler crashed"
        else:
            error = f"not compiled after {self.limit} s"
        self.close()
        return {"error": error, "seconds": time.perf_counter() - start}

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None
