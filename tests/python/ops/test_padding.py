"""Reflection and replication, also where a negative amount crops more than there is."""

import pytest
import torch
import torch.nn.functional as F
from harness import agree

AMOUNTS = [(2, 1), (-1, 2), (2, -1), (-1, -1), (-3, 2), (-4, 5), (5, -4), (1, -3), (-2, 0), (0, 0), (-2, -1), (3, 3)]


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("amounts", AMOUNTS, ids=str)
def test_one_dimension(mode, amounts):
    def body(device):
        x = torch.arange(1.0, 7.0).view(1, 2, 3).to(device).requires_grad_()
        y = F.pad(x, amounts, mode=mode)
        (y * torch.arange(1.0, y.numel() + 1).view_as(y).to(device)).sum().backward()
        return y.detach(), x.grad

    agree(body)


@pytest.mark.parametrize("amounts", [(0, 2, 0, 1), (-4, 5, 0, 0), (-2, -1, 4, 6), (1, 1, -3, 4)], ids=str)
def test_two_dimensions(amounts):
    agree(lambda device: F.pad(torch.arange(9.0).view(1, 3, 3).to(device), amounts, mode="replicate"))
