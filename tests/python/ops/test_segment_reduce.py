"""segment_reduce, whose segments come as lengths or as offsets."""

import pytest
import torch
from harness import agree


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_offsets_win_over_lengths(reduce):
    def body(device):
        data = torch.arange(1.0, 6.0, device=device).requires_grad_()
        lengths, offsets = torch.tensor([0, 1, 2, 2]), torch.tensor([0, 0, 1, 3, 3, 5])
        y = torch.segment_reduce(data, reduce, lengths=lengths.to(device), offsets=offsets.to(device), initial=1)
        y.sum().backward()
        return y.detach(), data.grad

    agree(body)
