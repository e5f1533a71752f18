"""Streams and events.

A device runs its work in the order of issue, and data orders the rest, so all streams of a device are one queue. Code
written for torch.cuda's streams is correct here; it gains no overlap from them.
"""

from __future__ import annotations

import torch

from torch_tpu.tpu._device import device_index


class Stream(torch.Stream):
    """torch.Stream on a tpu device: Stream(device=None, priority=0)."""

    def __new__(cls, device=None, priority: int = 0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, device=torch.device("tpu", device_index(device)), priority=priority)

    def wait_stream(self, stream) -> None:
        self.wait_event(stream.record_event())


class _EventType(type):
    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "tpu"


class Event(metaclass=_EventType):
    """torch.Event on a tpu device: Event(enable_timing=False, blocking=False, interprocess=False).

    Makes a plain torch.Event: its elapsed_time() takes no instance of a subclass.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        return torch.Event("tpu", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def _wrap(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device=None) -> Stream:
    return _wrap(torch.accelerator.current_stream(device_index(device)))


def default_stream(device=None) -> Stream:
    current = torch.accelerator.current_stream(device_index(device))
    return Stream(stream_id=0, device_index=current.device_index, device_type=current.device_type)


def set_stream(stream) -> None:
    """Makes `stream` current on its device; None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class stream:
    """Context manager: the stream is current inside. None changes nothing."""

    def __init__(self, stream):
        self.stream = stream
        self._previous = None

    def __enter__(self):
        if self.stream is not None:
            self._device = torch.accelerator.current_device_index()
            self._previous = current_stream(self.stream.device_index)
            torch.accelerator.set_stream(self.stream)
        return self.stream

    def __exit__(self, *exc_info):
        if self.stream is not None:
            torch.accelerator.set_stream(self._previous)
            torch.accelerator.set_device_index(self._device)
        return False
