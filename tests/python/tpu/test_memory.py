"""Memory statistics are of live buffers; running out of memory is an error that one can go on from."""

import gc

import pytest
import torch
from harness import run_python

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _settle():
    torch.tpu.init()
    gc.collect()
    torch.tpu.empty_cache()


def test_allocated_follows_tensors():
    start = torch.tpu.memory_allocated()
    x = torch.ones(MIB, device="tpu")
    torch.tpu.synchronize()
    assert 4 * MIB <= torch.tpu.memory_allocated() - start <= 4 * MIB + 4096
    v, d = x[10:], x.detach()
    c = x.clone()  # shares until it is written
    assert torch.tpu.memory_allocated() - start <= 4 * MIB + 4096
    c.add_(1)
    assert 8 * MIB <= torch.tpu.memory_allocated() - start <= 8 * MIB + 8192
    x.mul_(2)  # in place
    assert torch.tpu.memory_allocated() - start <= 8 * MIB + 8192
    del x, c
    assert torch.tpu.memory_allocated() - start >= 4 * MIB  # the views hold it
    del v, d
    assert torch.tpu.memory_allocated() - start <= 8192


def test_unwritten_memory_costs_nothing():
    start = torch.tpu.memory_allocated()
    x = torch.empty(MIB, device="tpu")
    assert torch.tpu.memory_allocated() == start
    x.fill_(1)
    assert torch.tpu.memory_allocated() - start >= 4 * MIB


def test_gradients_are_freed():
    def step():
        w = torch.ones(256, 1024, device="tpu", requires_grad=True)
        (w * w).sum().backward()
        assert w.grad is not None

    step()
    torch.tpu.empty_cache()
    start = torch.tpu.memory_allocated()
    for _ in range(3):
        step()
    assert torch.tpu.memory_allocated() - start <= 16384


def test_peak():
    torch.tpu.reset_peak_memory_stats()
    start = torch.tpu.max_memory_allocated()
    assert start == torch.tpu.memory_allocated()
    x = torch.ones(MIB, device="tpu")
    del x
    assert torch.tpu.max_memory_allocated() - start >= 4 * MIB
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() - start <= 8192


def test_stats_and_summary():
    x = torch.ones(MIB, device="tpu")
    stats = torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.tpu.memory_allocated() >= x.nbytes
    assert stats["allocated_bytes.all.allocated"] - stats["allocated_bytes.all.freed"] == torch.tpu.memory_allocated()
    assert torch.tpu.memory_reserved() == torch.tpu.memory_allocated()
    assert torch.tpu.max_memory_reserved() == torch.tpu.max_memory_allocated()
    text = torch.tpu.memory_summary()
    assert f"{torch.tpu.memory_allocated():,}" in text and "peak" in text
    assert len(torch.tpu.memory_summary("tpu:0", abbreviated=True)) < len(text)
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total == torch.tpu.get_device_properties().total_memory
    torch.tpu.reset_accumulated_memory_stats()
    assert torch.tpu.memory_stats()["allocated_bytes.all.allocated"] == 0


def test_accelerator_names():
    a = torch.accelerator
    x = torch.ones(MIB, device="tpu")
    assert a.memory_allocated() == torch.tpu.memory_allocated() >= x.nbytes
    assert a.memory_reserved() == torch.tpu.memory_reserved()
    assert a.max_memory_allocated() == torch.tpu.max_memory_allocated()
    assert a.max_memory_reserved() == torch.tpu.max_memory_reserved()
    assert a.memory_stats()["allocated_bytes.all.current"] == a.memory_allocated()
    assert a.get_memory_info() == torch.tpu.mem_get_info()
    a.reset_peak_memory_stats()
    a.reset_accumulated_memory_stats()
    a.empty_cache()


TOO_MUCH = {
    "empty": lambda: torch.empty(1 << 48, device="tpu"),
    "zeros": lambda: torch.zeros(1 << 47, device="tpu"),
    "result": lambda: torch.ones(1, device="tpu").expand(1 << 44) + 1,
    "contiguous": lambda: torch.ones(1, device="tpu").expand(1 << 44).contiguous(),
    "outer": lambda: torch.outer(torch.ones(1 << 22, device="tpu"), torch.ones(1 << 22, device="tpu")),
    "resize": lambda: torch.ones(1, device="tpu").resize_(1 << 45),
    "rand": lambda: torch.rand(1 << 45, device="tpu"),
}


@pytest.mark.parametrize("too_much", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_out_of_memory(too_much):
    x = torch.arange(4.0, device="tpu")
    before = torch.tpu.memory_allocated()
    ooms = torch.tpu.memory_stats()["num_ooms"]
    kept = []
    with pytest.raises(torch.OutOfMemoryError, match="TPU out of memory"):
        kept.append(too_much())
        torch.tpu.synchronize()  # the allocation may be the program's
    kept.clear()
    assert torch.tpu.memory_stats()["num_ooms"] == ooms + 1
    gc.collect()
    assert torch.tpu.memory_allocated() <= before + 64 * MIB
    assert (x + 1).tolist() == [1, 2, 3, 4]


def test_out_of_memory_at_run_time():
    """Results that the machine cannot give, in a process with little address space."""
    run_python(
        """
        import resource, torch
        x = torch.ones(1 << 20, device="tpu")
        small = torch.arange(4.0, device="tpu")
        y = torch.ones(1024, 1, device="tpu")
        (y + x[:1024]).sum().item(); (small + 1).tolist(); x[:4].mul_(2)
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (1 << 30), resource.RLIM_INFINITY))
        for _ in range(3):
            z = None
            try:
                z = y + x          # 4 GiB
                torch.tpu.synchronize()
                raise SystemExit("no error")
            except torch.OutOfMemoryError as e:
                assert "TPU out of memory" in str(e), e
            if z is not None:
                try:
                    z.sum().item()  # what was not computed says so
                    raise SystemExit("no error")
                except torch.OutOfMemoryError:
                    pass
            del z
        assert (small + 1).tolist() == [1, 2, 3, 4] and x.sum().item() == (1 << 20) + 4
        assert torch.tpu.memory_allocated() < 64 << 20, torch.tpu.memory_allocated()
        """
    )


def test_an_error_at_run_time_stays_until_it_is_told():
    """However much work comes after the run that failed, and whoever asks for events and for idleness before."""
    run_python(
        """
        import resource, time, torch
        x = torch.ones(1 << 20, device="tpu")
        y = torch.ones(1024, 1, device="tpu")
        m = torch.full((1024, 1024), 1e-3, device="tpu")
        def work(too_much):
            z = m
            for _ in range(8):
                z = z @ m
            big = (y + x * z[0, 0]) if too_much else (y + x[:1024] * z[0, 0])  # 4 GiB, once z is there
            for _ in range(200):
                z = z + 1
            return big, z
        for too_much in (False, True):  # the first compiles nearly all
            pages = int(open("/proc/self/statm").read().split()[0])
            limits = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (1 << 30), limits[1]))
            big, z = work(too_much)
            while not torch.tpu.current_stream().query():
                time.sleep(0.01)
            resource.setrlimit(resource.RLIMIT_AS, limits)
            torch.tpu.Event().record()
            z.sum().item()
            try:
                torch.tpu.synchronize()
                assert not too_much
            except torch.OutOfMemoryError as e:
                assert too_much and "TPU out of memory" in str(e), e
            torch.tpu.synchronize()  # told once
        assert x.sum().item() == 1 << 20
        """
    )


@pytest.mark.parametrize(("width", "limit"), [(512, 30), (1024, 40)])
def test_no_leak(width, limit):
    """Blocks of 4 MB beside the host's tensors left gaps in the C library's heap, up to 200 MB in 200 rounds."""

    def rss():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    def once():
        m = torch.nn.Linear(width, width).to("tpu")
        m(torch.ones(8, width, device="tpu")).sum().backward()
        m.to("cpu")

    for _ in range(5):
        once()
    gc.collect()
    before, live = rss(), torch.tpu.memory_allocated()
    for _ in range(200):
        once()
    gc.collect()
    assert rss() - before < limit * MIB
    assert torch.tpu.memory_allocated() - live < MIB
