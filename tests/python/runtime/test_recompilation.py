"""What changes from call to call without changing shapes is a runtime input: nothing is compiled for it."""

import pytest
import torch
from harness import count_programs
from torch import nn
from torch.nn import functional as F


def buffer():
    return torch.arange(64.0, device="tpu").view(16, 4)


LOOPS = {
    "select": (lambda x, i: x[i].clone(), range(16)),
    "select_last": (lambda x, i: x[:, i] + 1, range(4)),
    "window": (lambda x, i: x[i : i + 4] * 2, range(12)),
    "window_column": (lambda x, i: x[:, i : i + 2].sum(), range(3)),
    "both": (lambda x, i: x[i, i % 4] + 1, range(16)),
    "assign": (lambda x, i: x.__setitem__(i, float(i)), range(16)),
    "assign_window": (lambda x, i: x[i : i + 2].copy_(x[0:2].clone()), range(14)),
    "assign_value": (lambda x, v: x.__setitem__(3, v), (0.5, 1.5, -2.0)),
    "fill": (lambda x, v: x.fill_(v), (1.0, 2.5, -3.0)),
    "full": (lambda x, v: torch.full((3, 3), v, device="tpu"), (1.5, 2.5, -7.0)),
    "arange": (lambda x, i: torch.arange(i, i + 8, device="tpu"), range(10)),
    "linspace": (lambda x, v: torch.linspace(v, v + 1, 5, device="tpu"), (0.0, 0.3, 0.7)),
    "multiply": (lambda x, v: x * v, (0.1, 0.2, 0.37)),
    "add_alpha": (lambda x, v: torch.add(x, x, alpha=v), (0.1, 1e-8, 1 / 3)),
    "reverse_subtract": (lambda x, v: v - x, (0.5, 1.5, 2.5)),
    "compare": (lambda x, v: x > v, (0.5, 3.5, 7.5)),
    "where": (lambda x, v: torch.where(x > 3, x, v), (0.5, 1.5, 2.5)),
    "clamp": (lambda x, v: x.clamp(min=v), (0.5, 1.5, 2.5)),
    "clamp_both": (lambda x, v: x.clamp(v, v + 1), (0.5, 1.5, 2.5)),
    "masked_fill": (lambda x, v: x.masked_fill(x > 3, v), (0.5, 1.5, float("-inf"))),
    "lerp": (lambda x, v: x.lerp(x, v), (0.1, 0.2, 0.3)),
    "addcmul": (lambda x, v: torch.addcmul(x, x, x, value=v), (0.1, 0.2, 0.3)),
    "dropout": (lambda x, i: F.dropout(x, 0.5), range(3)),
    "dropout_rate": (lambda x, p: F.dropout(x, p), (0.1, 0.2, 0.7)),
    "leaky_relu": (lambda x, v: F.leaky_relu(x, v), (0.1, 0.2, 0.3)),
    "rand": (lambda x, i: (torch.manual_seed(i), torch.rand(5, device="tpu")), range(4)),
    "randint": (lambda x, i: torch.randint(0, 10 + i, (5,), device="tpu"), range(4)),
    "normal": (lambda x, v: torch.empty(5, device="tpu").normal_(v, 1 + v), (0.25, 0.5, 1.0)),
    "scalar_tensor": (lambda x, v: x * torch.tensor(v), (0.1, 0.2, 0.3)),
    "index_tensor": (lambda x, i: x[torch.tensor([i, i], device="tpu")], range(5)),
    "narrow_write": (lambda x, i: x.narrow(0, i, 3).add_(1), range(12)),
    "as_strided": (lambda x, i: x.as_strided((4,), (4,), i).clone(), range(4)),
    "diagonal_row": (lambda x, i: x[i : i + 4].diagonal().sum(), range(12)),
    "print": (lambda x, i: repr(x[i : i + 4]), range(12)),
    "item": (lambda x, i: x[i, 0].item(), range(16)),
}


@pytest.mark.parametrize("body,values", LOOPS.values(), ids=LOOPS.keys())
def test_loop_compiles_once(body, values):
    x = buffer()
    values = list(values)
    body(x, values[0])
    with count_programs() as programs:
        for v in values[1:]:
            body(x, v)
    assert programs.value == 0


def test_values_are_the_runtime_ones():
    """No value of an earlier call is baked in."""
    x = buffer()
    assert [x[i, 1].item() for i in range(16)] == list(range(1, 64, 4))
    assert [torch.arange(i, i + 3, device="tpu").tolist() for i in (0, 5, -2)] == [[0, 1, 2], [5, 6, 7], [-2, -1, 0]]
    assert [(x[0] * v).tolist()[1] for v in (2.0, 3.0, 1.0, 0.0)] == [2, 3, 1, 0]
    assert [torch.add(x, x, alpha=a)[0, 1].item() for a in (1, 2, 1.5, 0)] == [2, 3, 2.5, 1]
    assert [x.clamp(min=v).min().item() for v in (1.0, 2.0, 0.0)] == [1, 2, 0]
    assert [torch.full((2,), v, device="tpu")[0].item() for v in (1.0, 0.0, 9.0)] == [1, 0, 9]


def test_structural_arguments_are_told_apart():
    x = buffer()
    assert [x.sum(d).shape[0] for d in (0, 1, 0)] == [4, 16, 4]
    assert [(x[0] ** p).tolist()[2] for p in (2, 3, 2.0, 0.5)] == [4, 8, 4, pytest.approx(2**0.5)]
    assert [x.sum(0, keepdim=k).dim() for k in (True, False, True)] == [2, 1, 2]
    assert [x.cumsum(d)[1, 1].item() for d in (0, 1, 0)] == [6, 9, 6]
    assert [torch.roll(x, s)[0, 0].item() for s in (0, 1, 2)] == [0, 63, 62]
    assert [F.gelu(x[0], approximate=a)[1].item() for a in ("none", "tanh", "none")] == pytest.approx(
        [0.841345, 0.841192, 0.841345], abs=1e-5
    )
    assert [torch.std(x[0], correction=c).item() for c in (0, 1, 0)] == pytest.approx([1.118034, 1.290994, 1.118034])


def test_printing_compiles_nothing():
    torch.randn(100, device="tpu")
    with count_programs() as programs:
        print(torch.randn(100, device="tpu"))
    assert programs.value == 0
    x = torch.randn(3, 100, device="tpu")
    with count_programs() as programs:
        print(x, x[1], x.t()[5:], [x])
    assert programs.value == 0


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "adamw_loop": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    "adam_default": lambda p: torch.optim.Adam(p, lr=0.1),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_training_with_a_schedule(make):
    m = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 2)).to("tpu")
    o = make(m.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (step + 1))

    def step():
        o.zero_grad()
        loss = m(torch.ones(3, 4, device="tpu")).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        schedule.step()
        return loss.item()

    step(), step()
    with count_programs() as programs:
        losses = [step() for _ in range(4)]
    assert programs.value == 0
    o.param_groups[0]["lr"] = 0.0123
    o.param_groups[0]["weight_decay"] = 0.05
    step()  # a weight decay of 0 may be another program
    o.param_groups[0]["weight_decay"] = 0.07
    with count_programs() as programs:
        step()
    assert programs.value == 0
    assert all(loss == loss for loss in losses)


def test_lr_as_a_tensor_and_growing_cache():
    p = nn.Parameter(torch.ones(3, device="tpu"))
    p.grad = torch.ones(3, device="tpu")
    o = torch.optim.Adam([p], lr=torch.tensor(0.1), foreach=False, capturable=False)
    o.step()
    cache = torch.zeros(1, 32, 4, device="tpu")
    new = torch.ones(1, 1, 4, device="tpu")
    cache[:, 0:1] = new
    with count_programs() as programs:
        for i in range(1, 20):
            cache[:, i : i + 1] = new
    assert programs.value == 0 and cache.sum().item() == 80


def test_devices_share_programs():
    """The device is no part of the key (several devices: tests/python/aten/test_copy.py)."""
    x = buffer()
    x.add_(1)
    with count_programs() as programs:
        (x.view(16, 4)).add_(1), x.detach().add_(1), x.data.add_(1)
    assert programs.value == 0
