"""fork, spawn and DataLoader workers."""

import subprocess
import sys

from harness import run_python

# Runs `child` in a forked child of a process that uses the device.
FORK = """
import os, torch
x = torch.ones(2, device="tpu")
(x + 1).tolist()
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    out = []
    for call in (lambda: torch.ones(2, device="tpu"), lambda: x + 1, lambda: x.cpu(), torch.tpu.synchronize):
        try:
            call()
            out.append("no error")
        except RuntimeError as e:
            out.append("spawn" if "spawn" in str(e) and "fork" in str(e) else str(e))
    torch.manual_seed(0)
    out.append(str(torch.ones(3).sum().item()))
    os.write(w, ",".join(out).encode())
    os._exit(0)
os.waitpid(pid, 0)
print(os.read(r, 10000).decode())
assert (x + 1).tolist() == [2, 2]
"""


def test_child_gets_a_clear_error():
    assert run_python(FORK).stdout.strip() == "spawn,spawn,spawn,spawn,3.0"


def test_child_drops_tensors_while_the_parent_works():
    """A child has none of the parent's threads: a lock that one of them holds would be held forever."""
    run_python(
        """
        import os, threading, torch
        torch.tpu.set_eager_mode(torch.tpu.EagerMode.FUSED)
        stop = threading.Event()

        def work():
            x = torch.ones(8, device="tpu")
            while not stop.is_set():
                x = torch.relu(x)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        for _ in range(20):
            made = [torch.ones(8, device="tpu") + i for i in range(20)]
            pid = os.fork()
            if pid == 0:
                del made
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for t in threads:
            t.join()
        """
    )


def test_fork_before_first_use():
    run_python(
        """
        import os, torch
        torch.tpu.device_count(), torch.tpu.is_available()
        pid = os.fork()
        if pid == 0:
            ok = (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
        """
    )


def test_spawn_works(tmp_path):
    script = tmp_path / "s.py"
    script.write_text(
        """
import torch
import torch.multiprocessing as mp

def child(rank, results):
    results[rank] = (torch.ones(2, device="tpu") * (rank + 1)).sum().item()

if __name__ == "__main__":
    x = torch.ones(2, device="tpu")
    results = mp.get_context("spawn").Array("d", 1)
    mp.spawn(child, (results,), nprocs=1)
    assert list(results) == [2.0] and x.sum().item() == 2
"""
    )
    done = subprocess.run([sys.executable, script], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_data_loader():
    run_python(
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        x = torch.ones(2, device="tpu")
        (x + 1).tolist()
        data = TensorDataset(torch.arange(7.0).view(7, 1), torch.arange(7))
        for options in ({"num_workers": 2}, {"num_workers": 0}, {"num_workers": 2, "pin_memory": True}):
            seen = []
            for a, b in DataLoader(data, batch_size=3, **options):
                assert a.is_pinned() == options.get("pin_memory", False)
                seen.append((a.to("tpu", non_blocking=True).sum().item(), b.to("tpu").tolist()))
            assert seen == [(3.0, [0, 1, 2]), (12.0, [3, 4, 5]), (6.0, [6])], seen
        assert (x + 1).tolist() == [2, 2]
        """
    )
