"""The disk cache: a second process compiles nothing, and nothing that happens to the folder breaks a program."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

import pytest
import torch
from harness import run_python

# Prints the metrics of a few programs.
SNIPPET = """
import json, torch
x = torch.arange(12.0, device="tpu").view(3, 4)
y = (x * 2 + 1).sum(0)
z = x[1:].t() @ x[:2]
assert y.tolist() == [27, 33, 39, 45], y
assert z.shape == (4, 4)
print(json.dumps(torch.tpu.metrics()))
"""


def _map_limit():
    limit = pathlib.Path("/proc/sys/vm/max_map_count")
    return int(limit.read_text()) if limit.exists() else sys.maxsize


def metrics_of(folder, code=SNIPPET, **env):
    done = run_python(code, TORCH_TPU_CACHE_DIR=folder, **env)
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_second_process_and_damaged_entries(tmp_path):
    first, stderr = metrics_of(tmp_path)
    programs = first["compiles"]
    assert programs > 3 and first["cache_hits_disk"] == 0 and stderr == ""
    second, _ = metrics_of(tmp_path)
    assert second["compiles"] == 0 and second["cache_hits_disk"] == programs

    assert (tmp_path / ".lock").stat().st_size == 0
    files = sorted(tmp_path.glob("*.xla"))
    assert len(files) == programs and len(list(tmp_path.iterdir())) == programs + 1
    # Truncated, emptied, overwritten, and one flipped byte.
    files[0].write_bytes(files[0].read_bytes()[:100])
    files[1].write_bytes(b"")
    files[2].write_bytes(b"garbage" * 1000)
    data = bytearray(files[3].read_bytes())
    data[-20] ^= 0xFF
    files[3].write_bytes(data)
    damaged, stderr = metrics_of(tmp_path, TORCH_TPU_LOG="cache:warn")
    assert damaged["compiles"] == 4 and damaged["cache_errors"] == 4 and damaged["cache_hits_disk"] == programs - 4
    assert stderr.count("dropped a damaged entry") == 4
    assert sorted(tmp_path.glob("*.xla")) == files and all(f.stat().st_size > 200 for f in files)  # written anew


@pytest.mark.parametrize("kind", ["a file", "below a file", "read-only"])
def test_unusable_folders(tmp_path, kind):
    """One line of warning, and results."""
    folder = tmp_path / "folder"
    if kind == "read-only":
        if os.geteuid() == 0:
            pytest.skip("root writes to read-only folders; 'below a file' takes the same way")
        folder.mkdir(mode=0o555)
    else:
        folder.write_text("x")
    m, stderr = metrics_of(folder / "below" if kind == "below a file" else folder)
    assert m["compiles"] > 3 and m["cache_errors"] >= 1
    assert len(stderr.splitlines()) == 1 and "compilation cache" in stderr and "not usable" in stderr


def test_full_file_system(tmp_path):
    """Writes that stop half-way leave no entry behind."""
    code = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    """
    m, stderr = metrics_of(tmp_path, textwrap.dedent(code) + SNIPPET)
    assert m["compiles"] > 3 and len(stderr.splitlines()) == 1 and "not usable" in stderr
    assert [f.name for f in tmp_path.iterdir()] == [".lock"]


def test_switched_off(tmp_path):
    m, stderr = metrics_of(tmp_path / "none", TORCH_TPU_CACHE=0)
    assert m["compiles"] > 3 and m["cache_errors"] == 0 and stderr == ""
    assert not (tmp_path / "none").exists()


# A barrier, so that both miss the same programs at the same time.
TWO_AT_ONCE = """
import json, sys, torch
x = torch.arange(6.0).to("tpu")
torch.tpu.synchronize()
print("ready", flush=True)
sys.stdin.readline()
for n in range(2, 12):
    y = torch.relu(x[:n % 5 + 1].expand(n, -1) @ torch.ones(n % 5 + 1, n, device="tpu")).softmax(-1).sum(0)
    assert y.cpu().shape == (n,)
torch.tpu.synchronize()
print(json.dumps(torch.tpu.metrics()))
"""


def together(code, count, **env):
    """Metrics of `count` processes that pass the snippet's barrier together."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    environment = {**os.environ, **{name: str(value) for name, value in env.items()}}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env=environment, cwd=tempfile.gettempdir(), **pipes) for _ in range(count)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    return [json.loads(process.communicate(timeout=120)[0].splitlines()[-1]) for process in processes]


@pytest.mark.parametrize("fused", [0, 1])
def test_processes_compile_each_program_once(tmp_path, fused):
    first, second = together(TWO_AT_ONCE, 2, TORCH_TPU_CACHE_DIR=tmp_path, TORCH_TPU_DEFER_AND_FUSE=fused)
    programs = len(list(tmp_path.glob("*.xla")))
    assert programs >= 10
    assert first["compiles"] + second["compiles"] == programs
    assert first["compiles"] + first["cache_hits_disk"] == second["compiles"] + second["cache_hits_disk"] == programs
    assert first["cache_errors"] == second["cache_errors"] == 0


def test_threads_compile_each_program_once():
    """Without the disk cache and its locks, too."""
    done = run_python(
        """
        import threading, torch
        x = torch.arange(6.0, device="tpu")
        before = torch.tpu.metrics()["compiles"]
        barrier = threading.Barrier(4)

        def work():
            for op in (torch.relu, torch.sin, torch.tanh, torch.exp, torch.log1p):
                barrier.wait()
                op(x)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(torch.tpu.metrics()["compiles"] - before)
        """,
        TORCH_TPU_CACHE=0,
    )
    assert int(done.stdout) == 5


def test_size_cap_and_default_folder(tmp_path):
    cap = 30_000
    code = """
    import torch
    for n in range(2, 14):
        torch.ones(n, device="tpu") + 1
    """
    run_python(code, TORCH_TPU_CACHE_DIR=None, XDG_CACHE_HOME=tmp_path, TORCH_TPU_CACHE_MAX_BYTES=cap)
    sizes = [f.stat().st_size for f in (tmp_path / "torch_tpu").glob("*.xla")]
    assert 0 < len(sizes) < 24
    assert sum(sizes) <= cap * 17 / 16 + max(sizes)


@pytest.mark.parametrize("fused", [0, 1])
def test_cap_on_programs_in_memory(fused):
    """Programs are dropped while their runs are in flight and their traces wait; a loop over few of them keeps them."""
    run_python(
        """
        import torch
        import torch_tpu
        x = torch.arange(64.0, device="tpu")
        results, expected = [], []
        for n in range(1, 25):
            y = torch.ones(n, n, device="tpu").cumsum(0) @ x[:n]
            results.append((y * n).sum())
            expected.append(n * (n + 1) / 2 * n * (n - 1) / 2 * n)
            if n % 7 == 0:
                torch_tpu._C.flush_step()
        torch.testing.assert_close(torch.stack(results).cpu(), torch.tensor(expected))
        torch.tpu.synchronize()
        (x - 1).cpu()  # traces that were being compiled may go only now
        m = torch.tpu.metrics()
        assert 0 < m["programs_in_memory"] <= 17 and m["traces_in_memory"] <= 1 and m["program_bytes"] > 0, m
        assert m["programs_dropped"] >= 30, m

        def loop():
            for n in range(1, 4):
                (x[:n] + 1).cpu()
            torch.tpu.synchronize()

        loop()
        before = torch.tpu.metrics()
        if torch.tpu.eager_mode is not torch.tpu.EagerMode.FUSED:  # where one trace is kept
            loop()
            after = torch.tpu.metrics()
            assert after["programs_dropped"] == before["programs_dropped"]
            assert after["compiles"] + after["cache_hits_disk"] == before["compiles"] + before["cache_hits_disk"]

        y = x * 3
        torch.tpu.empty_cache()
        m = torch.tpu.metrics()
        assert m["programs_in_memory"] == m["traces_in_memory"] == m["program_bytes"] == 0, m
        assert y.sum().item() == 64 * 63 * 3 / 2
        """,
        TORCH_TPU_MAX_PROGRAMS=16,
        TORCH_TPU_DEFER_AND_FUSE=fused,
    )


def test_a_cap_that_is_no_number():
    done = run_python(
        'import torch; assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]', TORCH_TPU_MAX_PROGRAMS="few"
    )
    assert "TORCH_TPU_MAX_PROGRAMS=few" in done.stderr


def test_memory_cache_tells_similar_calls_apart():
    """Keys are compared in full: neighbours in shape, dtype, stride, aliasing and arguments are other programs."""
    x = torch.arange(16.0, device="tpu").view(4, 4)
    y = x + 0
    results = {
        "plain": (x + y, x.cpu() * 2),
        "transposed": (x.t() + y, x.cpu().t() + x.cpu()),
        "other_transposed": (x + y.t(), x.cpu() + x.cpu().t()),
        "alias": (x + x, x.cpu() * 2),
        "alias_view": (x + x.t(), x.cpu() + x.cpu().t()),
        "dtype": (x.int() + y.int(), x.cpu().int() * 2),
        "mixed": (x.int() + y, x.cpu() * 2),
        "row": (x + y[0], x.cpu() + x.cpu()[0]),
        "column": (x + y[:, :1], x.cpu() + x.cpu()[:, :1]),
        "flat": (x.view(16) + y.view(16), x.cpu().view(16) * 2),
        "int_scalar": (x.int() + 1, x.cpu().int() + 1),
        "float_scalar": (x.int() + 1.5, x.cpu().int() + 1.5),
        "bool_scalar": (x.int() + True, x.cpu().int() + True),
        "alpha": (torch.add(x, y, alpha=3), x.cpu() * 4),
    }
    for name, (actual, expected) in results.items():
        torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0, msg=name)


@pytest.mark.skipif(_map_limit() > 200_000, reason="takes too long to fill")
def test_memory_maps_run_short():
    """XLA's CPU compiler ends the process when the kernel has no memory map left: programs go before that."""
    done = run_python(
        """
        import mmap, torch
        def maps():
            return sum(1 for _ in open("/proc/self/maps"))
        def program(size):
            tensors = [torch.ones(size, i).to("tpu") for i in range(1, 200)]
            return [y.cpu().sum().item() for y in torch._foreach_add(tensors, 1)[:3]]
        one = torch.ones(1, device="tpu") + 1
        limit = int(open("/proc/sys/vm/max_map_count").read())
        protections = (mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE)  # neighbours of one kind would be one map
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        held = [mmap.mmap(-1, 4096, flags, protections[i % 2]) for i in range(limit * 3 // 4 - maps())]
        for size in (1, 2, 3):
            assert program(size) == [2 * size, 4 * size, 6 * size]
        print(torch.tpu.metrics()["programs_dropped"] > 0, maps() < limit * 0.8)
        """
    )
    assert done.stdout.split() == ["True", "True"]
