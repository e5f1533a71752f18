"""Random ops against their distributions: Kolmogorov-Smirnov where the distribution is continuous, counts where it is
discrete. The seed is fixed, so a test passes always or never; bounds are where one good seed in a million fails."""

import math

import pytest
import torch
from torch.nn import functional as F

N = 100_000


def fill(name, *args, dtype=torch.float32):
    return lambda: getattr(torch.empty(N, device="tpu", dtype=dtype), name)(*args)


def ndtr(mean, std):
    return lambda x: torch.special.ndtr((x - mean) / std)


def survivors(y, p):
    """The kept values of dropout of ones: all equal; returns which were kept."""
    kept = y != 0
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / (1 - p)))
    return kept.double()


CONTINUOUS = {
    "rand": (lambda: torch.rand(N, device="tpu"), lambda x: x),
    "rand_float64": (lambda: torch.rand(N, device="tpu", dtype=torch.float64), lambda x: x),
    "rand_like_view": (lambda: torch.rand_like(torch.zeros(2, N // 2, device="tpu").t()), lambda x: x),
    "uniform_": (fill("uniform_", -3, 5), lambda x: (x + 3) / 8),
    "randn": (lambda: torch.randn(N, device="tpu"), ndtr(0, 1)),
    "randn_odd": (lambda: torch.randn(N - 1, device="tpu"), ndtr(0, 1)),
    "normal_": (fill("normal_", 2, 3), ndtr(2, 3)),
    "normal_float64": (fill("normal_", -1, 0.5, dtype=torch.float64), ndtr(-1, 0.5)),
    "normal.Tensor_Tensor": (
        lambda: torch.normal(torch.full((N,), 1.5, device="tpu"), torch.full((N,), 2.0, device="tpu")),
        ndtr(1.5, 2),
    ),
    "exponential_": (fill("exponential_", 2.5), lambda x: 1 - torch.exp(-2.5 * x)),
    "cauchy_": (fill("cauchy_", 1, 2), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5),
    "log_normal_": (fill("log_normal_", 0.5, 0.75), lambda x: ndtr(0.5, 0.75)(torch.log(x))),
    "gamma_small": (
        lambda: torch._standard_gamma(torch.full((N,), 0.3, device="tpu")),
        lambda x: torch.special.gammainc(torch.tensor(0.3, dtype=torch.float64), x),
    ),
    "gamma_large": (
        lambda: torch._standard_gamma(torch.full((N,), 7.5, device="tpu")),
        lambda x: torch.special.gammainc(torch.tensor(7.5, dtype=torch.float64), x),
    ),
    "dirichlet_uniform": (
        lambda: torch._sample_dirichlet(torch.ones(N, 3, device="tpu"))[:, 1],
        lambda x: 1 - (1 - x) ** 2,
    ),
    "dirichlet_skewed": (
        lambda: torch._sample_dirichlet(torch.tensor([3.0, 1.0], device="tpu").expand(N, 2))[:, 0],
        lambda x: x**3,
    ),
    "rrelu": (
        lambda: F.rrelu(torch.full((N,), -1.0, device="tpu"), 0.1, 0.7, training=True).neg(),
        lambda x: (x - 0.1) / 0.6,
    ),
}


@pytest.mark.parametrize("draw,cdf", CONTINUOUS.values(), ids=CONTINUOUS.keys())
def test_kolmogorov_smirnov(draw, cdf):
    torch.manual_seed(11)
    x = draw().flatten().cpu().double().sort().values
    n = x.numel()
    expected = cdf(x)
    assert expected.min() >= 0 and expected.max() <= 1, "values outside of the distribution's support"
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    distance = torch.maximum((steps[1:] - expected).max(), (expected - steps[:-1]).max())
    assert distance * math.sqrt(n) < 2.7


def choose(n, k):
    return math.comb(n, k)


DISCRETE = {
    "bernoulli_": (fill("bernoulli_", 0.3), {0: 0.7, 1: 0.3}),
    "bernoulli": (lambda: torch.bernoulli(torch.full((N,), 0.8, device="tpu")), {0: 0.2, 1: 0.8}),
    "geometric_": (fill("geometric_", 0.4), {k: 0.4 * 0.6 ** (k - 1) for k in range(1, 15)}),
    "randint": (lambda: torch.randint(-2, 5, (N,), device="tpu"), {k: 1 / 7 for k in range(-2, 5)}),
    "randint_uint8": (
        lambda: torch.randint(0, 256, (N,), device="tpu", dtype=torch.uint8),
        {k: 1 / 256 for k in range(256)},
    ),
    "random_from": (fill("random_", 10, 13, dtype=torch.int64), {k: 1 / 3 for k in range(10, 13)}),
    "random_bool": (fill("random_", dtype=torch.bool), {0: 0.5, 1: 0.5}),
    "random_int8": (fill("random_", dtype=torch.int8), {k: 1 / 128 for k in range(128)}),
    "multinomial": (
        lambda: torch.multinomial(torch.tensor([1.0, 0.0, 3.0, 6.0], device="tpu"), N, replacement=True),
        {0: 0.1, 2: 0.3, 3: 0.6},
    ),
    "multinomial_one_row_each": (
        lambda: torch.multinomial(torch.tensor([1.0, 3.0], device="tpu").expand(N, 2), 1),
        {0: 0.25, 1: 0.75},
    ),
    "multinomial_without_replacement": (  # the second of two draws from 1 : 1 : 2
        lambda: torch.multinomial(torch.tensor([1.0, 1.0, 2.0], device="tpu").expand(N, 3), 2)[:, 1],
        {0: 1 / 4 / 3 + 1 / 2 / 2, 1: 1 / 4 / 3 + 1 / 2 / 2, 2: 2 * 1 / 4 * 2 / 3},
    ),
    "poisson_small": (
        lambda: torch.poisson(torch.full((N,), 2.5, device="tpu")),
        {k: math.exp(-2.5) * 2.5**k / math.factorial(k) for k in range(14)},
    ),
    "poisson_large": (
        lambda: torch.poisson(torch.full((N,), 30.0, device="tpu")),
        {k: math.exp(-30) * 30.0**k / math.factorial(k) for k in range(8, 60)},
    ),
    "binomial_small": (
        lambda: torch.binomial(torch.full((N,), 6.0, device="tpu"), torch.full((N,), 0.3, device="tpu")),
        {k: choose(6, k) * 0.3**k * 0.7 ** (6 - k) for k in range(7)},
    ),
    "binomial_large": (
        lambda: torch.binomial(torch.full((N,), 80.0, device="tpu"), torch.full((N,), 0.6, device="tpu")),
        {k: choose(80, k) * 0.6**k * 0.4 ** (80 - k) for k in range(25, 72)},
    ),
    "randperm": (
        lambda: torch.stack([torch.randperm(3, device="tpu") for _ in range(600)]) @ torch.tensor([9, 3, 1]).to("tpu"),
        {9 * a + 3 * b + c: 1 / 6 for a, b, c in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]},
    ),
    "dropout": (lambda: survivors(F.dropout(torch.ones(N, device="tpu"), 0.3).cpu(), 0.3), {0: 0.3, 1: 0.7}),
    "dropout2d": (
        lambda: survivors(F.dropout2d(torch.ones(10, N // 100, 3, 3, device="tpu"), 0.4).cpu()[..., 1, 1], 0.4),
        {0: 0.4, 1: 0.6},
    ),
    "native_dropout": (
        lambda: torch.native_dropout(torch.ones(N, device="tpu"), 0.6, True)[1],
        {0: 0.6, 1: 0.4},
    ),
    "alpha_dropout": (
        lambda: (F.alpha_dropout(torch.zeros(N, device="tpu"), 0.25, training=True) > 0),
        {0: 0.25, 1: 0.75},
    ),
}


@pytest.mark.parametrize("draw,masses", DISCRETE.values(), ids=DISCRETE.keys())
def test_counts(draw, masses):
    torch.manual_seed(12)
    x = draw().flatten().cpu().double()
    n = x.numel()
    if sum(masses.values()) > 1 - 1e-9:
        assert set(x.unique().tolist()) <= set(masses), "values outside of the distribution's support"
    for value, p in masses.items():
        count = (x == value).sum().item()
        # 5.5 deviations, and a few for the rare ones, whose counts are not normal.
        assert abs(count - n * p) <= 5.5 * math.sqrt(n * p * (1 - p)) + 4, f"{value}: {count} of {n}, expected {n * p}"


MOMENTS = {
    "randn": (lambda: torch.randn(N, device="tpu"), 0, 1, 3),
    "exponential": (fill("exponential_"), 1, 1, 9),
    "rand_bfloat16": (lambda: torch.rand(N, device="tpu", dtype=torch.bfloat16), 0.5, 1 / 12, 1.8),
    "randn_float16": (lambda: torch.randn(N, device="tpu", dtype=torch.float16), 0, 1, 3),
    "randn_complex64": (lambda: torch.view_as_real(torch.randn(N, device="tpu", dtype=torch.complex64)), 0, 0.5, 3),
    "poisson": (lambda: torch.poisson(torch.full((N,), 400.0, device="tpu")), 400, 400, 3),
    "alpha_dropout": (lambda: F.alpha_dropout(torch.randn(N, device="tpu"), 0.3, training=True), 0, 1, 3),
}


@pytest.mark.parametrize("draw,mean,variance,kurtosis", MOMENTS.values(), ids=MOMENTS.keys())
def test_moments(draw, mean, variance, kurtosis):
    torch.manual_seed(13)
    x = draw().flatten().cpu().double()
    n = x.numel()
    assert abs(x.mean() - mean) < 5 * math.sqrt(variance / n) + 0.002 * abs(mean)
    assert abs(x.var() - variance) < (5 * math.sqrt(kurtosis / n) + 0.002) * variance


def test_neighbours_are_independent():
    torch.manual_seed(14)
    x = torch.randn(2, N, device="tpu").cpu().double()
    for a, b in [(x[0, 1:], x[0, :-1]), (x[0], x[1]), (x[0, 4:], x[0, :-4])]:
        assert abs((a * b).mean()) < 5 / math.sqrt(a.numel())


def test_draws_of_one_program_do_not_repeat_those_of_the_next():
    torch.manual_seed(15)
    seen = torch.cat([torch.rand(1000, device="tpu", dtype=torch.float64).cpu() for _ in range(20)])
    assert seen.unique().numel() == seen.numel()


def test_randperm_is_a_permutation():
    for n in (0, 1, 2, 17, 1000):
        assert torch.equal(torch.randperm(n, device="tpu").cpu().sort().values, torch.arange(n))


def test_multinomial_without_replacement_draws_each_once():
    torch.manual_seed(16)
    weights = torch.tensor([[0.0, 1, 2, 3, 4], [5, 4, 3, 2, 1]], device="tpu")
    drawn = torch.multinomial(weights, 4).cpu()
    assert all(row.unique().numel() == 4 for row in drawn) and 0 not in drawn[0]
