"""torch.tpu.metrics() counts what happened."""

import pytest
import torch

# Not counters: what there is.
GAUGES = {"programs_in_memory", "traces_in_memory", "program_bytes"}
KEYS = {
    "compiles": int,
    "cache_hits_memory": int,
    "cache_hits_disk": int,
    "executions": int,
    "fallbacks": dict,
    "bytes_h2d": int,
    "bytes_d2h": int,
    "transfers_h2d": int,
    "transfers_d2h": int,
    "compile_seconds": float,
    "lowering_seconds": float,
    "cache_load_seconds": float,
    "cache_errors": int,
    "programs_in_memory": int,
    "traces_in_memory": int,
    "program_bytes": int,
    "programs_dropped": int,
    "fused_ops": int,
    "flushes": dict,
}


def test_plain_dict():
    m = torch.tpu.metrics()
    assert type(m) is dict and {k: type(v) for k, v in m.items()} == KEYS
    m["compiles"] = -1
    assert torch.tpu.metrics()["compiles"] >= 0


def test_counts(strict_mode):
    x = torch.arange(1000, dtype=torch.int16).to("tpu")
    torch.tpu.empty_cache()
    (x + x).cpu()
    torch.tpu.reset_metrics()
    assert all(not v for k, v in torch.tpu.metrics().items() if k not in GAUGES)
    y = x + x
    m = torch.tpu.metrics()
    assert m["executions"] == 1 and m["cache_hits_memory"] == 1 and m["compiles"] == m["cache_hits_disk"] == 0
    assert m["bytes_d2h"] == m["bytes_h2d"] == 0
    y.cpu()
    torch.ones(500).to("tpu")
    m = torch.tpu.metrics()
    assert m["bytes_d2h"] == 2000 and m["transfers_d2h"] == 1
    assert m["bytes_h2d"] == 2000 and m["transfers_h2d"] == 1
    y.view(10, 100)[2:].t()  # views run nothing
    assert torch.tpu.metrics()["executions"] == 1


def test_compiles_and_caches():
    x = torch.ones(17, 3, device="tpu")
    torch.tpu.reset_metrics()
    y = x * 0.5
    torch.atan2(x, y).cpu()
    m = torch.tpu.metrics()
    assert m["compiles"] + m["cache_hits_disk"] == 2
    assert m["lowering_seconds"] > 0 and m["compile_seconds"] + m["cache_load_seconds"] > 0
    programs, size = m["programs_in_memory"], m["program_bytes"]
    torch.tpu.empty_cache()
    assert torch.tpu.metrics()["programs_in_memory"] == 0 < programs
    assert torch.tpu.metrics()["program_bytes"] == 0 < size
    torch.atan2(x, y)
    m = torch.tpu.metrics()
    assert m["cache_hits_disk"] >= 1 and m["programs_in_memory"] == 1  # from the disk this time


def test_repeated_scalars_upload_nothing():
    x = torch.ones(5, device="tpu")
    x * 0.123
    torch.tpu.reset_metrics()
    for _ in range(10):
        x * 0.123
    assert torch.tpu.metrics()["transfers_h2d"] == 0


def test_failed_calls_are_not_counted():
    x, y = torch.ones(3, device="tpu"), torch.ones(4, device="tpu")
    torch.tpu.reset_metrics()
    with pytest.raises(RuntimeError):
        x + y
    m = torch.tpu.metrics()
    assert m["executions"] == 0 and m["compiles"] == 0
