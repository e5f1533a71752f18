"""Matrix products of a size where rounding shows, in every layout of their operands."""

import threading

import pytest
import torch
from harness import agree

M, N, K, B, H = 150, 90, 130, 3, 5
EXACT = {torch.float32: 1e-5, torch.float64: 1e-14}  # of values near 1, from sums of K products


def values(*shape, dtype=torch.float32):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(len(shape))) / K**0.5


def check(body, *arguments):
    expected = body(*(x.double() for x in arguments))
    actual = body(*(x.to("tpu") for x in arguments)).cpu()
    assert actual.dtype == arguments[0].dtype and actual.shape == expected.shape
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=EXACT[actual.dtype])


PRODUCTS = {
    "nn": (lambda x, y: x @ y, (M, K), (K, N)),
    "nt": (lambda x, y: x @ y.t(), (M, K), (N, K)),
    "tn": (lambda x, y: x.t() @ y, (K, M), (K, N)),
    "tt": (lambda x, y: x.t() @ y.t(), (K, M), (N, K)),
    "wide": (lambda x, y: y.t() @ x.t(), (M, K), (K, N)),
    "two rows": (lambda x, y: x @ y, (2, 4096), (4096, 150)),
    "two columns": (lambda x, y: x @ y, (150, 4096), (4096, 2)),
    "outer": (lambda x, y: x[:, None] @ y[None], (1100,), (1001,)),
    "column slices": (lambda x, y: x[:, 7 : 7 + K] @ y[:, 3 : 3 + N], (M, K + 20), (K, N + 9)),
    "row steps": (lambda x, y: x[::2] @ y[::3], (2 * M, K), (3 * K, N)),
    "column steps": (lambda x, y: x[:, ::2] @ y[:, ::3], (M, 2 * K), (K, 3 * N)),
    "flattened": (lambda x, y: x.view(B * 50, K) @ y.view(K, N), (B, 50, K), (K * N,)),
    "flattened columns": (lambda x, y: x.permute(2, 0, 1).reshape(K, -1).t() @ y, (B, 50, K), (K, N)),
    "expanded": (lambda x, y: x.expand(M, K) @ y, (1, K), (K, N)),
    "linear": (torch.nn.functional.linear, (B, 50, K), (N, K)),
    "addmm": (lambda x, y: torch.addmm(x[:, :1], x, y, beta=0.5, alpha=2), (M, K), (K, N)),
    "bmm": (torch.bmm, (16, 40, K), (16, K, 30)),
    "bmm, transposed": (lambda x, y: x.mT @ y.mT, (16, K, 40), (16, 30, K)),
    "bmm, batch inside": (lambda x, y: x.transpose(0, 1) @ y.transpose(0, 1), (40, 16, K), (K, 16, 30)),
    "heads": (lambda x, y: x.transpose(1, 2) @ y.permute(0, 2, 3, 1), (B, 40, H, K), (B, 60, H, K)),
    "heads by a plain batch": (lambda x, y: x.transpose(1, 2) @ y, (B, 40, H, K), (B, H, K, 60)),
    "a plain batch by heads": (lambda x, y: x @ y.transpose(1, 2), (B, H, 40, K), (B, K, H, 60)),
    "other heads": (
        lambda x, y: x.transpose(1, 2).reshape(B * H, 40, K) @ y.transpose(1, 2).reshape(B * H, K, 60),
        (B, 40, H, K),
        (H, K, B, 60),
    ),
    "heads that lie as columns": (lambda x, y: x.permute(0, 3, 1, 2) @ y, (B, 40, K, H), (B, H, K, 60)),
    "einsum": (lambda x, y: torch.einsum("bihd,bjhd->bhij", x, y), (B, 40, H, K), (B, 60, H, K)),
}


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("name", PRODUCTS)
def test_layouts(name, dtype):
    body, left, right = PRODUCTS[name]
    check(body, values(*left, dtype=dtype), values(*right, dtype=dtype))


def test_gradients():
    def body(device):
        x, y = (values(M, K).to(device).requires_grad_(), values(N, K).to(device).requires_grad_())
        torch.tanh(torch.nn.functional.linear(x, y)).sum().backward()
        return x.grad, y.grad

    agree(body, tol=1e-5)


def test_not_finite():
    def body(device):
        x, y = values(M, K), values(K, N)
        x[3, 5], x[7, 0], y[9, 11] = torch.nan, torch.inf, -torch.inf
        return (x.to(device) @ y.to(device)).isnan(), (x.to(device) @ y.to(device)).isinf()

    agree(body)


def test_a_weight_that_changed_in_place():
    def body(device):
        x, w = values(M, K).to(device), values(K, N).to(device)
        results = []
        for _ in range(3):
            results.append(x @ w)
            w.mul_(2)
        return results

    agree(body, tol=1e-4)


def test_calls_from_many_threads():
    x, y = values(16, 100, K).to("tpu"), values(16, K, 100).to("tpu")
    expected, results = (x @ y).cpu(), []

    def work():
        for _ in range(20):
            results.append((x @ y).cpu())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 120 and all(r.equal(expected) for r in results)
