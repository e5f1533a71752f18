"""Runs units in worker processes. One that crashes or hangs is replaced, and its check is reported for what it was."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pathlib
import time
from multiprocessing import connection, forkserver

from .outcome import Tally

# A worker is replaced after this many units, since programs stay in its memory.
UNITS_PER_WORKER = 600

# The server imports these once; workers are forked from it, so that replacing one takes no time.
_PRELOAD = [
    "torch",
    "torch.testing._internal.common_methods_invocations",
    "torch.testing._internal.common_modules",
    "torch.testing._internal.common_optimizers",
]


def _context():
    """Multiprocessing whose server is started here, not in the repository's root.

    The server's working directory is on its import path, and in the root the folder torch_tpu, which is not built,
    would hide the installed package; workers get their parent's directory and path back.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    before = os.getcwd()
    os.chdir(pathlib.Path(__file__).parent)
    try:
        forkserver.ensure_running()
    finally:
        os.chdir(before)
    return context


def _serve(pipe, source):
    import torch

    import torch_tpu  # noqa: F401 - registers the device where autoload is off

    torch.set_num_threads(1)
    run = importlib.import_module(source).run
    while True:
        try:
            unit, groups, limit = pipe.recv()
        except (EOFError, KeyboardInterrupt):  # the run is over
            return
        progress = run(unit, groups, limit)
        while True:
            try:
                group, results = next(progress)
            except StopIteration:
                break
            except Exception as e:  # the suite's own failure; the unit's other groups still count
                pipe.send((group, {group: Tally(0, 1, f"HARNESS {type(e).__name__}: {e}"[:300])}))
                groups = groups[groups.index(group) + 1 :]
                progress = run(unit, groups, limit)
                continue
            pipe.send((group, results))
        pipe.send((None, None))


class Worker:
    """A process that runs one unit at a time, by `run` of the module `source`."""

    def __init__(self, limit, seconds, source="conformance.catalog"):
        self.limit, self.seconds, self.source = limit, seconds, source
        self.context = _context()
        self._start()

    def _start(self):
        self.pipe, child = self.context.Pipe()
        self.process = self.context.Process(target=_serve, args=(child, self.source), daemon=True)
        self.process.start()
        child.close()
        self.units_run = 0

    def begin(self, unit, groups):
        if self.units_run >= UNITS_PER_WORKER:
            self.stop()
            self._start()
        self.units_run += 1
        self.unit, self.left, self.group, self.results = unit, list(groups), None, {}
        self._send()

    def _send(self):
        self.deadline = time.monotonic() + self.seconds
        self.pipe.send((self.unit, self.left, self.limit))

    def poll(self):
        """Handles what the process has sent. The unit's {check: tally} when it is done, else None."""
        try:
            while self.pipe.poll():
                group, results = self.pipe.recv()
                if group is None:
                    return self.results
                self.deadline = time.monotonic() + self.seconds
                self.group = group
                if results is not None:
                    self.results.update(results)
                    self.left = self.left[self.left.index(group) + 1 :]
        except (EOFError, ConnectionResetError):
            self.process.join()
            return self._replace(f"CRASH: the process ended with exit code {self.process.exitcode}")
        if time.monotonic() > self.deadline:
            return self._replace(f"HANG: over {self.seconds:.0f} s")
        return None

    def _replace(self, message):
        self.stop()
        group = self.group if self.group in self.left else self.left[0] if self.left else self.group
        self.results[group] = Tally(0, 1, message)
        self.left = self.left[self.left.index(group) + 1 :] if group in self.left else []
        self._start()
        if not self.left:
            return self.results
        self._send()
        return None

    def run(self, unit, groups):
        self.begin(unit, groups)
        while (results := self.poll()) is None:
            self.pipe.poll(0.2)
        return results

    def stop(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_all(tasks, jobs, limit, seconds):
    """Runs (unit, groups) on `jobs` workers; yields (unit, {check: tally}) as they are done."""
    tasks = iter(tasks)
    workers = [Worker(limit, seconds) for _ in range(jobs)]
    busy = []
    try:
        while True:
            for worker in [w for w in workers if w not in busy]:
                task = next(tasks, None)
                if task is not None:
                    worker.begin(*task)
                    busy.append(worker)
            if not busy:
                return
            connection.wait([w.pipe for w in busy], timeout=0.5)
            for worker in list(busy):
                results = worker.poll()
                if results is not None:
                    busy.remove(worker)
                    yield worker.unit, results
    finally:
        for worker in workers:
            worker.stop()


def default_jobs():
    return len(os.sched_getaffinity(0))
