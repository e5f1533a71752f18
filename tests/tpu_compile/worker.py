"""The recorder in a worker process, which is replaced when it crashes or hangs."""

from __future__ import annotations

import hashlib
import multiprocessing


def identify(program, source):
    """Adds what tells equal programs: a hash of the text, or of the failure."""
    key = program["text"] or f"{program['op']} {program['types']} {program['error']}"
    return {**program, "hash": hashlib.sha256(key.encode()).hexdigest()[:16], "source": source}


def _serve(connection):
    import torch

    from . import calls
    from .recorder import programs_of

    torch.set_num_threads(1)
    while True:
        try:
            name, dtype, limit = connection.recv()
        except EOFError:  # the parent is done
            return
        programs = []
        try:
            for body in calls.bodies(name, getattr(torch, dtype), limit):
                programs += programs_of(body)
        except Exception as e:  # OpInfo's generators refuse some types that they claim
            print(f"{name} {dtype}: {type(e).__name__}: {e}", flush=True)
        connection.send([identify(p, f"{name} {dtype}") for p in programs])


class Recorder:
    def __init__(self, seconds=300):
        self.limit = seconds
        self.process = None

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, child = context.Pipe()
        self.process = context.Process(target=_serve, args=(child,), daemon=True)
        self.process.start()
        child.close()

    def programs(self, name, dtype, limit):
        """The programs of an entry's samples that this worker has not built before."""
        if self.process is None:
            self._start()
        self.connection.send((name, dtype, limit))
        if self.connection.poll(self.limit):
            try:
                return self.connection.recv()
            except EOFError:
                message = "the worker crashed"
        else:
            message = f"no answer after {self.limit} s"
        self.close()
        failure = {"op": name, "lowering": name, "types": [dtype], "nbytes": 0, "text": "", "error": message}
        return [identify(failure, f"{name} {dtype}")]

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None
