"""What one check found: how many samples passed and failed, and the first failure's message."""

from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    message: str = ""

    def record(self, message):
        if message:
            self.failed += 1
            self.message = self.message or message
        else:
            self.passed += 1

    @property
    def ran(self):
        return self.passed + self.failed > 0


def attempt(function, *args):
    """(result, None) or (None, exception). Errors that the device defers belong to the call."""
    try:
        result = function(*args)
        torch.tpu.synchronize()
        return result, None
    except Exception as e:
        return None, e


def describe(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:250]}"


def error_difference(expected, actual):
    """'' when both are None or exceptions of one type."""
    if type(expected) is type(actual):
        return ""
    if actual is None:
        return f"no error, expected {describe(expected)}"
    return describe(actual) + ("" if expected is None else f" -- expected {describe(expected)}")
