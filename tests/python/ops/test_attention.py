"""Gradients of fused attention."""

import pytest
import torch
from harness import agree
from torch.nn.functional import scaled_dot_product_attention as attention

QUERY, KEY = (2, 4, 3, 8), (2, 4, 6, 8)


def inputs(device):
    g = torch.Generator().manual_seed(3)
    return [
        (3 * torch.randn(s, generator=g, dtype=torch.float64)).to(device).requires_grad_() for s in (QUERY, KEY, KEY)
    ]


@pytest.mark.parametrize("causal,mask", [(False, False), (True, False), (False, True)])
def test_gradients_in_double_precision(causal, mask):
    def body(device):
        q, k, v = inputs(device)
        bias = torch.linspace(-1, 1, 18, dtype=torch.float64).view(3, 6).to(device) if mask else None
        attention(q, k, v, bias, is_causal=causal).square().sum().backward()
        return q.grad, k.grad, v.grad

    agree(body, tol=1e-12)


def test_gradients_with_dropout():
    def dropped(q, k, v):
        torch.manual_seed(0)
        return attention(q, k, v, dropout_p=0.4)

    assert torch.autograd.gradcheck(dropped, inputs("tpu"))
