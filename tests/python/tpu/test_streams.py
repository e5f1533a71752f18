"""Streams and events: code in the manner of torch.cuda is correct here."""

import pytest
import torch

Stream, Event = torch.tpu.Stream, torch.tpu.Event


def work(n=256):
    x = torch.ones(n, n, device="tpu")
    for _ in range(10):
        x = x @ x / n
    return x


def test_stream_objects():
    s, t = Stream(), Stream(device="tpu:0", priority=-1)
    assert s != t and s == s and hash(s) != hash(t)
    assert isinstance(s, torch.Stream) and s.device == torch.device("tpu", 0)
    assert torch.tpu.default_stream() == torch.tpu.current_stream()
    assert torch.Stream(device="tpu").device.type == "tpu"
    assert "tpu" in repr(s)


def test_current_stream():
    s = Stream()
    with torch.tpu.stream(s) as inside:
        assert inside is s and torch.tpu.current_stream() == s == torch.accelerator.current_stream()
        y = work()
        with torch.tpu.stream(None):
            assert torch.tpu.current_stream() == s
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
    torch.tpu.current_stream().wait_stream(s)
    assert y[0, 0].item() == 1
    torch.tpu.set_stream(s)
    assert torch.tpu.current_stream() == s
    torch.tpu.set_stream(torch.tpu.default_stream())
    with torch.Stream(device="tpu") as t:
        assert torch.accelerator.current_stream() == t
    y.record_stream(s)
    s.synchronize()
    assert s.query()


def test_events():
    assert isinstance(Event(), torch.Event) and isinstance(torch.Event("tpu"), Event)
    assert not isinstance(torch.Event("cpu"), Event)
    first, last = Event(enable_timing=True), Event(enable_timing=True)
    assert first.query()  # never recorded
    first.record()
    y = work()
    last.record()
    last.synchronize()
    assert first.query() and last.query()
    assert 0 < first.elapsed_time(last) < 60_000
    assert y[0, 0].item() == 1
    with pytest.raises((RuntimeError, ValueError)):
        Event(enable_timing=True).elapsed_time(last)
    with pytest.raises((RuntimeError, ValueError)):
        a, b = Event(), Event()
        a.record()
        b.record()
        torch.tpu.synchronize()
        a.elapsed_time(b)


def test_events_order_streams():
    s, t = Stream(), Stream()
    x = torch.zeros(1000, device="tpu")
    with torch.tpu.stream(s):
        for _ in range(20):
            x.add_(1)
        e = s.record_event()
    with torch.tpu.stream(t):
        t.wait_event(e)
        e.wait(t)
        x.mul_(2)
    t.synchronize()
    assert x[5].item() == 40
    torch.Event("tpu").record(t)


def test_elapsed_time_measures():
    def measure(n):
        a, b = Event(enable_timing=True), Event(enable_timing=True)
        a.record()
        work(n)
        b.record()
        b.synchronize()
        return a.elapsed_time(b)

    measure(32), measure(768)
    assert measure(768) > measure(32)


def test_synchronize():
    y = work()
    torch.tpu.synchronize()
    assert torch.tpu.current_stream().query()
    torch.tpu.synchronize("tpu:0")
    torch.tpu.synchronize(torch.device("tpu", 0))
    torch.accelerator.synchronize()
    assert y[0, 0].item() == 1
    with pytest.raises(RuntimeError):
        torch.tpu.synchronize(4)


def test_order_of_reads_and_writes():
    """Asynchronous programs see each write in order, also through views and shared arrays."""
    x = torch.zeros(512, 512, device="tpu")
    copies = []
    for i in range(10):
        x.add_(1)
        copies.append(x.clone())
        x[i] = 100
    assert [c[-1, 0].item() for c in copies] == list(range(1, 11))
    assert x[0, 0].item() == 109
