"""Indices out of range: at the next synchronization in strict mode, at the call in debug mode; all goes on after it."""

import pytest
import torch
from harness import run_python
from torch.nn import functional as F


def make():
    return torch.arange(12.0, device="tpu").view(3, 4)


def at(*v):
    return torch.tensor(v, device="tpu")


BAD = {
    "index": lambda: make()[at(0, 3)],
    "index_negative": lambda: make()[at(-4)],
    "index_two": lambda: make()[at(0, 1), at(0, 4)],
    "index_put": lambda: make().index_put_((at(5),), torch.ones(4, device="tpu")),
    "assignment": lambda: make().__setitem__(at(7), 1.0),
    "index_select": lambda: make().index_select(0, at(3)),
    "gather": lambda: make().gather(0, at(3).view(1, 1)),
    "scatter": lambda: make().scatter_(0, at(9).view(1, 1), 1.0),
    "scatter_add": lambda: make().scatter_add_(1, at(4).view(1, 1), torch.ones(1, 1, device="tpu")),
    "index_add": lambda: make().index_add_(0, at(3), torch.ones(1, 4, device="tpu")),
    "index_copy": lambda: make().index_copy_(0, at(-1), torch.ones(1, 4, device="tpu")),
    "index_fill": lambda: make().index_fill_(0, at(3), 1.0),
    "take": lambda: make().take(at(12)),
    "embedding": lambda: F.embedding(at(3), make()),
    "embedding_negative": lambda: F.embedding(at(-1), make()),
    "cross_entropy": lambda: F.cross_entropy(make(), at(0, 1, 4)),
}
# CPU raises RuntimeError for some of these; a device-side check cannot tell them apart, and IndexError says what it is.


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_strict(bad):
    bad()
    with pytest.raises(IndexError, match=r"index out of range in aten::\w+"):
        torch.tpu.synchronize()
    torch.tpu.synchronize()  # reported once
    assert make().sum().item() == 66


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_debug(bad, debug_mode):
    with pytest.raises(IndexError, match=r"index out of range in aten::\w+"):
        bad()
    assert make().sum().item() == 66
    torch.tpu.synchronize()


def test_every_synchronization_reports():
    for synchronize in (
        lambda x: x.cpu(),
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: repr(x),
        lambda x: torch.tpu.current_stream().synchronize(),
        lambda x: torch.accelerator.synchronize(),
    ):
        y = make()[at(3)]
        with pytest.raises(IndexError):
            synchronize(y)
        assert make().sum().item() == 66
    event = torch.tpu.Event()
    make()[at(4)]
    event.record()
    with pytest.raises(IndexError):
        event.synchronize()


def test_good_indices_pass():
    x = make()
    assert x[at(-3, 2)].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert x.index_fill(0, at(-1), 0.0)[2].sum().item() == 0
    F.nll_loss(x, at(0, -100, 3)).item()
    assert x[:, at(-1)].flatten().tolist() == [3, 7, 11]


def test_static_indices_raise_at_once():
    x = make()
    for bad in (lambda: x[3], lambda: x[0, 4], lambda: x[-4], lambda: x.select(0, 5), lambda: x.narrow(0, 2, 2)):
        with pytest.raises((IndexError, RuntimeError)):
            bad()
    with pytest.raises(IndexError):
        x[0, 0, 0]
    torch.tpu.synchronize()


def test_many_unread_flags_stay_bounded(strict_mode):
    """A loop that never synchronizes learns of its error too. (In fused mode, at the end of the trace or later.)"""
    x, good, bad = make(), at(0), at(3)
    x[bad]
    with pytest.raises(IndexError):
        for _ in range(2000):
            x[good]
    torch.tpu.synchronize()


def test_other_tensors_survive():
    x, y = make(), make() + 1
    y[at(17)] = 5.0
    z = y * 2
    with pytest.raises(IndexError):
        z.cpu()
    assert z.shape == (3, 4) and x.sum().item() == 66
    assert y.add_(1).sum().item() == 66 + 24  # the broken write changed nothing else


def test_debug_from_the_environment():
    run_python(
        """
        import torch
        assert torch.tpu.eager_mode is torch.tpu.EagerMode.DEBUG
        try:
            torch.ones(2, device="tpu")[torch.tensor([5], device="tpu")]
            raise SystemExit("no error")
        except IndexError as e:
            assert "aten::index" in str(e)
        """,
        TORCH_TPU_LAUNCH_BLOCKING=1,
    )
