"""A process that used the device ends with its own status, whatever its threads are about."""

from harness import run_python


def test_backward_thread_outlives_the_script():
    # The thread that runs a device's backward drops the last reference to what the script left: here a value that
    # takes its time, so that the interpreter would end meanwhile.
    run_python(
        """
        import contextvars, threading, time, torch

        class Slow:
            dropped = threading.Event()

            def __del__(self):
                if threading.current_thread() is not threading.main_thread():
                    Slow.dropped.set()
                    time.sleep(0.5)

        def backward():
            contextvars.ContextVar("kept").set(Slow())
            (torch.ones(4, device="tpu", requires_grad=True) * 2).sum().backward()

        for _ in range(1000):  # whether the script or the thread drops it is a matter of time
            contextvars.copy_context().run(backward)
            if Slow.dropped.wait(0.001):
                break
        assert Slow.dropped.is_set()
        """
    )


def test_exit_status_is_kept():
    done = run_python(
        """
        import torch
        (torch.ones(4, device="tpu:1", requires_grad=True) * 2).sum().backward()
        raise SystemExit(3)
        """,
        check=False,
        TORCH_TPU_CPU_DEVICES=2,
    )
    assert (done.returncode, done.stderr) == (3, "")
