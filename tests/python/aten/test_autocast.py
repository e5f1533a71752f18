"""Autocast's lists and the gradient scaler."""

import pytest
import torch
from harness import agree
from torch import nn
from torch.nn import functional as F


def test_defaults():
    assert torch.get_autocast_dtype("tpu") == torch.bfloat16
    assert not torch.is_autocast_enabled("tpu")
    with torch.autocast("tpu"):
        assert torch.is_autocast_enabled("tpu")
        with torch.autocast("tpu", enabled=False):
            assert not torch.is_autocast_enabled("tpu")
    assert torch.amp.is_autocast_available("tpu")


def test_lists():
    x, w = torch.ones(2, 4, device="tpu"), torch.ones(4, 4, device="tpu")
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("tpu", dtype=dtype):
            assert (x @ w).dtype == dtype
            assert F.linear(x, w).dtype == dtype
            assert F.conv2d(x.view(1, 2, 2, 2), w.view(2, 2, 2, 2)).dtype == dtype
            assert torch.baddbmm(x.view(1, 2, 4), x.view(1, 2, 4), w.view(1, 4, 4)).dtype == dtype
            half = x.to(dtype)
            assert F.softmax(half, 0).dtype == torch.float32
            assert half.exp().dtype == torch.float32
            assert F.cross_entropy(half, torch.zeros(2, dtype=torch.int64, device="tpu")).dtype == torch.float32
            assert F.layer_norm(half, (4,)).dtype == torch.float32
            assert (half + x).dtype == torch.float32
            assert torch.cat([half, x]).dtype == torch.float32
            assert half.relu().dtype == dtype
            assert x.double().matmul(w.double()).dtype == torch.float64
            with pytest.raises(RuntimeError, match="unsafe to autocast"):
                F.binary_cross_entropy(x, x)
    assert (x @ w).dtype == torch.float32


def test_network():
    def body(device):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = nn.Sequential(
                nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
            )
        net = net.to(device)
        x = torch.linspace(-1, 1, 96).view(2, 3, 4, 4).to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            y = net(x)
            loss = y.float().pow(2).mean()
        loss.backward()
        return (
            y.dtype,
            y.float(),
            net[0].weight.grad.dtype,
            net[1].running_mean.dtype,
            net[0].weight.grad,
            net[4].weight.grad,
            loss,
        )

    agree(body, tol=4e-2)


def test_casts_of_parameters_are_cached():
    m = nn.Linear(4, 4, device="tpu")
    x = torch.ones(2, 4, device="tpu")
    with torch.autocast("tpu"):
        (m(x) + m(x)).sum().backward()
    assert m.weight.grad.dtype == torch.float32


def test_grad_scaler():
    def body(device):
        p = nn.Parameter(torch.tensor([1.0, 2.0], device=device))
        o = torch.optim.SGD([p], lr=1.0)
        s = torch.amp.GradScaler(device, init_scale=4.0, growth_interval=1)
        out = []
        s.scale((p * torch.tensor([1.0, 2.0], device=device)).sum()).backward()
        s.step(o)
        s.update()
        out += [p.detach().clone(), s.get_scale()]
        o.zero_grad()
        s.scale((p * float("inf")).sum()).backward()
        s.step(o)
        s.update()
        out += [p.detach().clone(), s.get_scale()]
        o.zero_grad()
        s.scale(p.sum() * 100).backward()
        s.unscale_(o)
        out += [p.grad.clone(), torch.nn.utils.clip_grad_norm_([p], 1.0)]
        s.step(o)
        s.update()
        state = s.state_dict()
        return out, p, state["scale"], state["_growth_tracker"]

    agree(body, tol=1e-6)


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
def test_grad_scaler_with_adamw(options):
    def body(device):
        p = nn.Parameter(torch.tensor([1.0, 2.0], device=device))
        o = torch.optim.AdamW([p], lr=0.1, **options)
        s = torch.amp.GradScaler(device, init_scale=8.0)
        for factor in (1.0, float("inf"), 2.0):
            o.zero_grad()
            s.scale((p * factor).sum()).backward()
            s.step(o)
            s.update()
        return p, s.get_scale()

    agree(body, tol=1e-6)
