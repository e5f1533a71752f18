"""Whole training runs give CPU's losses."""

import math

import pytest
import torch
from harness import agree
from torch import nn
from torch.nn import functional as F

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "sgd_momentum_foreach": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, foreach=True),
    "sgd_fused": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01, fused=True),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, fused=True),
    "adamw_loop": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, foreach=True),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, fused=True),
    "adamw_default": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.95)),
}


def on(device, make):
    """A module with the same weights on each device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().to(device)


def mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def batch(device, n=8):
    x = torch.linspace(-1, 1, n * 6).sin().view(n, 6).to(device)
    return x, (torch.arange(n) % 3).to(device)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_mlp(make):
    def body(device):
        m = on(device, mlp)
        o = make(m.parameters())
        x, y = batch(device)
        losses = []
        for _ in range(6):
            o.zero_grad()
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            o.step()
            losses.append(loss.item())
        return losses, list(m.parameters())

    losses, _ = agree(body, tol=1e-4)
    assert losses[-1] < losses[0]


def test_cnn():
    def net():
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3, stride=2),
            nn.GroupNorm(2, 8),
            nn.SiLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 3),
        )

    def body(device):
        m = on(device, net)
        o = torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
        x = torch.linspace(-3, 3, 6 * 64).cos().view(6, 1, 8, 8).to(device)
        y = (torch.arange(6) % 3).to(device)
        losses = []
        for _ in range(5):
            o.zero_grad(set_to_none=False)
            loss = F.cross_entropy(m(x), y)
            loss.backward()
            o.step()
            losses.append(loss.item())
        m.eval()
        with torch.inference_mode():
            return losses, m(x), m[1].running_mean, m[1].num_batches_tracked

    agree(body, tol=1e-4)


class Block(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.ln1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=11, width=16, context=12):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.ln(self.blocks(x)))


def gpt_step(m, o, step, clip=1.0, micro_batches=1):
    device = next(m.parameters()).device
    ids = ((torch.arange(4 * 13).view(4, 13) * (step + 3)) ** 2 % 11).to(device)
    for group in o.param_groups:
        group["lr"] = 0.01 * 0.5 * (1 + math.cos(step / 10))
    o.zero_grad()
    total = 0.0
    for part in ids.chunk(micro_batches):
        loss = F.cross_entropy(m(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten()) / micro_batches
        loss.backward()
        total += loss.item()
    norm = nn.utils.clip_grad_norm_(m.parameters(), clip)
    o.step()
    return total, norm.item()


def test_gpt():
    def body(device):
        m = on(device, GPT)
        assert m.head.weight is m.token.weight
        decay = [p for p in m.parameters() if p.dim() > 1]
        rest = [p for p in m.parameters() if p.dim() <= 1]
        o = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=0.01)
        return [gpt_step(m, o, step) for step in range(8)]

    agree(body, tol=1e-4)


def test_gradient_accumulation():
    def body(device):
        m = on(device, GPT)
        o = torch.optim.SGD(m.parameters(), lr=0.1)
        return gpt_step(m, o, 0, micro_batches=4), gpt_step(m, o, 1, micro_batches=2)

    accumulated = agree(body, tol=1e-4)
    m = on("tpu", GPT)
    whole = gpt_step(m, torch.optim.SGD(m.parameters(), lr=0.1), 0)
    assert accumulated[0] == pytest.approx(whole, rel=1e-4)


def test_clip_grad_norm():
    def body(device):
        m = on(device, mlp)
        x, y = batch(device)
        F.cross_entropy(m(x), y).backward()
        norms = [nn.utils.clip_grad_norm_(m.parameters(), v, norm_type=t) for v, t in ((0.5, 2), (0.1, float("inf")))]
        nn.utils.clip_grad_value_(m.parameters(), 0.01)
        return norms, [p.grad for p in m.parameters()]

    agree(body, tol=1e-5)


def test_checkpoint_and_resume(tmp_path):
    def body(device):
        file = tmp_path / f"{device}.pt"
        m = on(device, GPT)
        o = torch.optim.AdamW(m.parameters(), lr=0.01)
        for step in range(3):
            gpt_step(m, o, step)
        torch.save({"model": m.state_dict(), "optimizer": o.state_dict()}, file)
        straight = [gpt_step(m, o, step) for step in (3, 4)]
        m2 = on(device, GPT)
        o2 = torch.optim.AdamW(m2.parameters(), lr=0.9)
        state = torch.load(file, weights_only=True)
        m2.load_state_dict(state["model"])
        o2.load_state_dict(state["optimizer"])
        resumed = [gpt_step(m2, o2, step) for step in (3, 4)]
        return straight, resumed

    straight, resumed = agree(body, tol=1e-4)
    # Other traces are other programs, which may round in other ways.
    fused = torch.tpu.eager_mode is torch.tpu.EagerMode.FUSED
    torch.testing.assert_close(resumed, straight, rtol=1e-5 if fused else 0, atol=0)


def test_losses_go_on_on_the_other_device(tmp_path):
    """A checkpoint moves between devices."""
    m = on("tpu", mlp)
    x, y = batch("tpu")
    o = torch.optim.AdamW(m.parameters(), lr=0.01)
    F.cross_entropy(m(x), y).backward()
    o.step()
    file = tmp_path / "c.pt"
    torch.save([m.state_dict(), o.state_dict()], file)
    c = mlp()
    oc = torch.optim.AdamW(c.parameters(), lr=0.01)
    state = torch.load(file, map_location="cpu", weights_only=True)
    c.load_state_dict(state[0])
    oc.load_state_dict(state[1])
    losses = []
    for model, optimizer, device in ((m, o, "tpu"), (c, oc, "cpu")):
        for _ in range(2):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(batch(device)[0]), batch(device)[1])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[:2] == pytest.approx(losses[2:], rel=1e-4)


def test_higher_order_gradients():
    def body(device):
        x = torch.linspace(-1, 1, 5).to(device).requires_grad_()
        y = (x.sin() * x.exp()).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g.pow(2).sum(), x)
        return g, h, torch.func.hessian(lambda t: t.pow(3).sum())(x.detach())

    agree(body, tol=1e-5)
