"""torch.save, torch.load, pickle and deepcopy of device tensors."""

import copy
import io
import pickle

import pytest
import torch
from harness import agree, compare, run_python
from torch import nn


def saved(value, **kwargs):
    buffer = io.BytesIO()
    torch.save(value, buffer, **kwargs)
    buffer.seek(0)
    return buffer


def test_save_and_load():
    x = torch.arange(6.0, device="tpu").view(2, 3)
    here = torch.load(saved(x))
    assert here.device == x.device
    compare(here, x.cpu())
    for where in ("cpu", torch.device("cpu"), {"tpu:0": "cpu"}, lambda storage, location: storage.cpu()):
        host = torch.load(saved(x), map_location=where)
        assert host.device.type == "cpu"
        compare(host, x.cpu())
    for where in ("tpu", "tpu:0", torch.device("tpu", 0)):
        back = torch.load(saved(x.cpu()), map_location=where)
        assert back.device.type == "tpu"
        compare(back + 1, x.cpu() + 1)


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.int8, torch.int64, torch.bfloat16, torch.float16, torch.float64, torch.complex64, torch.uint16],
    ids=str,
)
def test_dtypes(dtype):
    x = torch.tensor([0, 1, 5]).to(dtype)
    compare(torch.load(saved(x.to("tpu"))), x)
    compare(torch.load(saved(x.to("tpu")), map_location="cpu"), x)


def test_views_and_sharing():
    def body(device):
        base = torch.arange(12.0, device=device).view(3, 4)
        state = {"base": base, "row": base[1], "t": base.t(), "slice": base[1:, 1:3], "step": base.view(-1)[1::5]}
        back = torch.load(saved(state))
        back["base"].add_(100)
        return back, torch.load(saved(base[1:2])).untyped_storage().nbytes()

    agree(body, strides=True)


def test_what_is_saved_is_the_value_at_the_time():
    x = torch.zeros(3, device="tpu")
    buffer = saved(x)
    x.add_(1)
    y = torch.load(buffer)
    assert y.tolist() == [0, 0, 0]
    y.add_(5)
    assert x.tolist() == [1, 1, 1]


def test_old_format_and_pickle():
    x = torch.arange(4.0, device="tpu")[1:]
    compare(torch.load(saved(x, _use_new_zipfile_serialization=False)), x.cpu())
    y = pickle.loads(pickle.dumps(x))
    assert y.device == x.device
    compare(y, x.cpu())


def test_parameters_buffers_and_optimizers():
    def body(device):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            m = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(device)
        o = torch.optim.AdamW(m.parameters(), lr=0.1)
        x = torch.linspace(-1, 1, 15).view(5, 3).to(device)

        def step(m, o):
            o.zero_grad()
            loss = m(x).pow(2).sum()
            loss.backward()
            o.step()
            return loss.detach()

        for _ in range(2):
            step(m, o)
        state = torch.load(saved([m.state_dict(), o.state_dict()]))
        m2 = copy.deepcopy(m)
        with torch.no_grad():
            for p in m2.parameters():
                p.zero_()
        o2 = torch.optim.AdamW(m2.parameters(), lr=0.5)
        m2.load_state_dict(state[0])
        o2.load_state_dict(state[1])
        first = next(m2.parameters())
        on_device = o2.state[first]["exp_avg"].device.type == device
        whole = torch.load(saved(m), weights_only=False)
        return step(m, o), step(m2, o2), list(m2.parameters()), on_device, list(whole.state_dict().values())[:2]

    agree(body, tol=1e-3)


def test_deepcopy():
    def body(device):
        x = torch.arange(4.0, device=device)
        d = copy.deepcopy({"a": x, "b": x[1:], "c": x})
        d["a"].add_(10)
        p = nn.Parameter(torch.ones(2, device=device))
        q = copy.deepcopy(p)
        with torch.no_grad():
            q.mul_(3)
        return d, x, d["c"] is d["a"], p, q, type(q).__name__

    agree(body)


def test_checkpoints_load_where_the_backend_is_absent(tmp_path):
    file = tmp_path / "c.pt"
    m = nn.Linear(2, 2).to("tpu")
    torch.save({"m": m.state_dict(), "v": torch.arange(6.0, device="tpu")[1:4]}, file)
    run_python(
        f"""
        import sys, torch
        assert not hasattr(torch, "tpu") and "torch_tpu" not in sys.modules
        c = torch.load({str(file)!r}, map_location="cpu", weights_only=True)
        assert c["v"].tolist() == [1, 2, 3] and c["v"].device.type == "cpu"
        assert type(c["m"]["weight"]).__name__ == "Tensor"
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD=0,
    )


def test_load_for_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match=r"tpu:5|device"):
        torch.load(saved(torch.ones(2)), map_location="tpu:5")


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    file = tmp_path / "m.safetensors"
    x = {"a": torch.arange(6.0, device="tpu").view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16, device="tpu")}
    safetensors.save_file(x, file)
    back = safetensors.load_file(file)
    for name, value in x.items():
        compare(back[name], value.cpu())
