"""Shared by the tests: compares the device with PyTorch's CPU, counts programs, runs snippets in fresh processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap

import torch


def agree(body, *args, tol=None, strides=False):
    """Runs `body(device, *args)` on cpu and tpu and compares what they return, nested as it may be; returns tpu's.

    Exact unless `tol` is given. An exception must be of the same type on both; it is then what is returned.
    """
    expected = outcome(body, "cpu", *args)
    actual = outcome(body, "tpu", *args)
    compare(actual, expected, tol=tol, strides=strides)
    return actual


def outcome(body, *args):
    try:
        result = body(*args)
        _fetch(result)  # deferred errors belong to the body
        return result
    except Exception as e:
        return e


def _fetch(value):
    if isinstance(value, torch.Tensor):
        if value.device.type == "tpu":
            value.detach().cpu()
    elif isinstance(value, (list, tuple)):
        for v in value:
            _fetch(v)
    elif isinstance(value, dict):
        for v in value.values():
            _fetch(v)


def compare(actual, expected, *, tol=None, strides=False, path="result"):
    if isinstance(expected, Exception):
        if isinstance(actual, Exception):
            assert type(actual) is type(expected), f"{path}: {actual!r}, expected {expected!r}"
            return
        raise AssertionError(f"{path}: no error, expected {expected!r}")
    if isinstance(actual, Exception):
        raise AssertionError(f"{path}: {actual!r}, expected {expected!r}") from actual
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor), f"{path}: {actual!r}, expected a tensor"
        assert actual.dtype == expected.dtype, f"{path}: {actual.dtype}, expected {expected.dtype}"
        assert actual.shape == expected.shape, f"{path}: {actual.shape}, expected {expected.shape}"
        if strides:
            assert actual.stride() == expected.stride(), f"{path}: strides {actual.stride()} vs {expected.stride()}"
            assert actual.storage_offset() == expected.storage_offset(), path
        rtol, atol = (0, 0) if tol is None else (tol, tol)
        a, e = (t.detach().cpu().resolve_conj().resolve_neg() for t in (actual, expected))
        if a.dtype.is_floating_point and a.element_size() == 1:  # assert_close knows no float8
            a, e = a.float(), e.float()
        torch.testing.assert_close(a, e, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{path}: {m}")
    elif isinstance(expected, (list, tuple)) and not isinstance(expected, torch.Size):
        assert len(actual) == len(expected), f"{path}: {len(actual)} values, expected {len(expected)}"
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            compare(a, e, tol=tol, strides=strides, path=f"{path}[{i}]")
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys(), path
        for k, e in expected.items():
            compare(actual[k], e, tol=tol, strides=strides, path=f"{path}[{k!r}]")
    elif isinstance(expected, float) and tol is not None:
        assert abs(actual - expected) <= tol * max(1.0, abs(expected)), f"{path}: {actual}, expected {expected}"
    else:
        assert actual == expected or (actual != actual and expected != expected), f"{path}: {actual!r} vs {expected!r}"


class ProgramCount:
    value = 0


@contextlib.contextmanager
def count_programs():
    """Programs that were made inside: compiled, or loaded from the disk cache of an earlier test."""
    counter = ProgramCount()
    before = _programs()
    yield counter
    torch.tpu.synchronize()
    counter.value = _programs() - before


def _programs() -> int:
    m = torch.tpu.metrics()
    return m["compiles"] + m["cache_hits_disk"]


def run_python(code: str, *, check: bool = True, timeout: float = 120, **env) -> subprocess.CompletedProcess:
    """Runs a snippet in a fresh interpreter. `env` is added to this process's; None removes a variable."""
    environment = dict(os.environ)
    for name, value in env.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = str(value)
    # Not in the repository's root, whose unbuilt package would hide the installed one.
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        cwd=tempfile.gettempdir(),
        text=True,
        capture_output=True,
        timeout=timeout,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done
