"""Seeds, generator states and moments."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

DRAWS = {
    "rand": lambda g: torch.rand(33, device="tpu", generator=g),
    "randn": lambda g: torch.randn(33, device="tpu", generator=g),
    "randint": lambda g: torch.randint(0, 1000, (33,), device="tpu", generator=g),
    "randperm": lambda g: torch.randperm(33, device="tpu", generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((64,), 0.5, device="tpu"), generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(9, device="tpu"), 40, replacement=True, generator=g),
    "uniform_": lambda g: torch.empty(33, device="tpu").uniform_(-1, 1, generator=g),
    "normal_": lambda g: torch.empty(33, device="tpu").normal_(1, 2, generator=g),
    "exponential_": lambda g: torch.empty(33, device="tpu").exponential_(generator=g),
    "random_": lambda g: torch.empty(33, device="tpu", dtype=torch.int64).random_(generator=g),
    "normal": lambda g: torch.normal(torch.zeros(33, device="tpu"), 1.0, generator=g),
    "rand_strided": lambda g: torch.zeros(33, 2, device="tpu")[:, 1].uniform_(generator=g),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_seeds_repeat_and_draws_differ(draw):
    torch.manual_seed(7)
    a, b = draw(None).cpu(), draw(None).cpu()
    torch.manual_seed(7)
    c = draw(None).cpu()
    torch.manual_seed(8)
    d = draw(None).cpu()
    assert torch.equal(a, c) and not torch.equal(a, b) and not torch.equal(a, d)
    g = torch.Generator("tpu").manual_seed(7)
    e, state = draw(g).cpu(), g.get_state()
    f = draw(g).cpu()
    g.set_state(state)
    assert torch.equal(a, e) and torch.equal(f, draw(g).cpu())


def test_generators():
    g = torch.Generator(device="tpu")
    assert g.device == torch.device("tpu", 0)
    assert g.initial_seed() == torch.Generator().initial_seed()
    assert g.manual_seed(2**63 + 5) is g and g.initial_seed() == 2**63 + 5
    g.manual_seed(-1)
    assert g.initial_seed() == 2**64 - 1
    seed = g.seed()
    assert g.initial_seed() == seed
    state = g.get_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8
    clone = g.clone_state()
    h = torch.Generator("tpu")
    h.set_state(state)
    assert torch.equal(torch.rand(5, device="tpu", generator=g).cpu(), torch.rand(5, device="tpu", generator=h).cpu())
    assert torch.equal(clone.get_state(), state)
    with pytest.raises((RuntimeError, TypeError)):
        g.set_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises((RuntimeError, TypeError)):
        g.set_state(torch.zeros(16))
    with pytest.raises(RuntimeError):
        torch.rand(2, device="tpu", generator=torch.Generator())
    with pytest.raises(RuntimeError):
        torch.rand(2, generator=g)


def test_generators_are_pickled_and_copied():
    g = torch.Generator("tpu").manual_seed(5)
    torch.rand(3, device="tpu", generator=g)
    for h in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        assert h.device == g.device and torch.equal(h.get_state(), g.get_state())


def test_default_generator():
    (default,) = torch.tpu.default_generators
    torch.tpu.manual_seed(11)
    assert torch.tpu.initial_seed() == 11 == default.initial_seed()
    a = torch.rand(4, device="tpu").cpu()
    default.manual_seed(11)
    assert torch.equal(a, torch.rand(4, device="tpu").cpu())
    torch.tpu.manual_seed_all(11)
    assert torch.equal(a, torch.rand(4, device="tpu", generator=default).cpu())


def test_cpu_and_device_generators_are_independent():
    torch.manual_seed(1)
    a = torch.rand(3)
    torch.manual_seed(1)
    torch.rand(100, device="tpu")
    torch.tpu.seed()
    torch.tpu.seed_all()
    assert torch.equal(a, torch.rand(3))


def test_rng_state():
    state = torch.tpu.get_rng_state()
    a = torch.rand(4, device="tpu").cpu()
    torch.tpu.set_rng_state(state)
    b = torch.rand(4, device="tpu").cpu()
    torch.tpu.set_rng_state_all([state])
    assert torch.equal(a, b) and torch.equal(a, torch.rand(4, device="tpu").cpu())
    assert torch.equal(torch.tpu.get_rng_state("tpu:0"), torch.tpu.get_rng_state_all()[0])


def test_fork_rng():
    state = torch.tpu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        torch.manual_seed(99)
        torch.rand(3, device="tpu")
    assert torch.equal(state, torch.tpu.get_rng_state())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_drops_the_same_again(reentrant):
    """torch.utils.checkpoint keeps a device's generator only where the device's module says that it is initialized."""
    x = torch.ones(64, device="tpu", requires_grad=True)
    y = checkpoint(lambda x: F.dropout(x, 0.5), x, use_reentrant=reentrant)
    torch.rand(3, device="tpu")  # the state moves on before the second forward
    y.sum().backward()
    assert torch.equal(x.grad, y)
    assert 0 < int((y == 0).sum()) < 64


def test_state_advances_whatever_the_shape():
    """Draws that follow one another never share numbers."""
    torch.manual_seed(3)
    seen = set()
    total = 0
    for n in (1, 3, 4, 5, 100):
        values = torch.rand(n, device="tpu", dtype=torch.float64).tolist()
        seen.update(values)
        total += n
    assert len(seen) == total


def test_dropout():
    x = torch.ones(512, device="tpu", requires_grad=True)
    torch.manual_seed(7)
    a, b = F.dropout(x, 0.5), F.dropout(x, 0.5)
    torch.manual_seed(7)
    c = nn.Dropout(0.5)(x)
    assert torch.equal(a.cpu(), c.cpu()) and not torch.equal(a.cpu(), b.cpu())
    assert set(a.tolist()) == {0.0, 2.0} and 180 < int((a == 0).sum()) < 332
    a.sum().backward()
    assert torch.equal(x.grad.cpu(), a.detach().cpu())  # the gradient's mask is the forward's
    assert torch.equal(F.dropout(x, 0.0).cpu(), x.detach().cpu()) and F.dropout(x, 1.0).sum().item() == 0
    assert nn.Dropout(0.5).eval()(x) is x
    with pytest.raises(ValueError):
        F.dropout(x, 1.5)
    y = F.dropout2d(torch.ones(8, 16, 2, 2, device="tpu"), 0.5)
    assert set(y.flatten(2).sum(2).flatten().tolist()) == {0.0, 8.0}


def test_moments():
    n = 20000
    x = torch.randn(n, device="tpu")
    assert abs(x.mean().item()) < 0.05 and abs(x.std().item() - 1) < 0.05
    e = torch.empty(n, device="tpu").exponential_(2.0)
    assert abs(e.mean().item() - 0.5) < 0.05 and e.min().item() >= 0
    assert abs(torch.bernoulli(torch.full((n,), 0.3, device="tpu")).mean().item() - 0.3) < 0.02
    r = torch.randint(-5, 5, (n,), device="tpu")
    assert (int(r.min()), int(r.max())) == (-5, 4) and abs(r.double().mean().item() + 0.5) < 0.1
    m = torch.multinomial(torch.tensor([0.1, 0.2, 0.7], device="tpu"), n, replacement=True)
    assert abs((m == 2).float().mean().item() - 0.7) < 0.03
    u = torch.rand(n, device="tpu")
    assert u.min().item() >= 0 and u.max().item() < 1 and abs(u.mean().item() - 0.5) < 0.02
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        v = torch.rand(n, device="tpu", dtype=dtype)
        assert v.max().item() < 1 and v.min().item() >= 0 and abs(v.double().mean().item() - 0.5) < 0.02
    assert sorted(torch.randperm(100, device="tpu").tolist()) == list(range(100))
    without = torch.multinomial(torch.ones(20, device="tpu"), 20)
    assert sorted(without.tolist()) == list(range(20))
    b = torch.empty(n, device="tpu").normal_(3, 0.5)
    assert abs(b.mean().item() - 3) < 0.05
    assert torch.empty(n, device="tpu", dtype=torch.bool).random_().float().mean().item() == pytest.approx(
        0.5, abs=0.02
    )


def test_initializers():
    torch.manual_seed(0)
    m = nn.Linear(100, 100, device="tpu")
    bound = 1 / 10
    assert abs(m.weight.max().item()) <= bound and m.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    w = torch.empty(50, 60, device="tpu")
    nn.init.trunc_normal_(w, std=0.02)
    assert w.std().item() == pytest.approx(0.0176, rel=0.3)
    nn.init.xavier_uniform_(w)
    assert w.abs().max().item() <= (6 / 110) ** 0.5


def test_like_factories_follow_the_tensor():
    x = torch.zeros(2, 3, device="tpu", dtype=torch.bfloat16)
    for f in (torch.rand_like, torch.randn_like):
        y = f(x)
        assert y.dtype == x.dtype and y.shape == x.shape and y.device == x.device
    assert torch.randint_like(x, 5).max().item() < 5
