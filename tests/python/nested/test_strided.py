"""Nested tensors of the strided layout: what is composed here of dense ops."""

import torch
from harness import agree


def test_sums_over_the_last_dim():
    def body(device, dims, keepdim, dtype=None):
        leaves = [torch.arange(n * 4.0, device=device).view(n, 4)[:, :m].clone() for n, m in ((2, 3), (1, 4), (3, 1))]
        pieces = [x.requires_grad_() for x in leaves]
        total = torch.nested.as_nested_tensor(pieces).sum(dims, keepdim=keepdim, dtype=dtype)
        total.backward(torch.nested.as_nested_tensor([torch.ones_like(t) * 2 for t in total.unbind()]))
        return total.unbind(), [x.grad for x in pieces]

    agree(body, -1, True)
    agree(body, 2, True)
    for arguments in ((-1, False), (1, True), ((1, 2), True), (-1, True, torch.float64)):
        assert isinstance(agree(body, *arguments), RuntimeError)
