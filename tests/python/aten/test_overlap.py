"""Writes whose memory overlaps raise as on CPU; those that are allowed give CPU's values."""

import contextlib

import pytest
import torch
from harness import agree

CASES = {
    "expanded_target": lambda x: x[:1].expand(4).add_(1),
    "expanded_fill": lambda x: x[:1].expand(4).fill_(1),
    "expanded_copy": lambda x: x[:1].expand(4).copy_(torch.ones(4, device=x.device)),
    "expanded_out": lambda x: torch.add(x[:4], 1, out=x[:1].expand(4)),
    "partial_add": lambda x: x[1:].add_(x[:-1]),
    "partial_mul_out": lambda x: torch.mul(x[:4], 2, out=x[2:6]),
    "partial_where": lambda x: torch.where(x[:4] > 2, x[:4], x[4:8], out=x[1:5]),
    "partial_masked_fill": lambda x: x[1:5].masked_fill_(x[0:4] > 1, 0),
    "transposed_add": lambda x: x[:9].view(3, 3).t().add_(x[:9].view(3, 3)),
    "same": lambda x: x.add_(x),
    "same_view": lambda x: x[2:5].mul_(x[2:5]),
    "apart": lambda x: x[:4].add_(x[4:8]),
    "interleaved": lambda x: x[::2].add_(x[1::2]),
    "out_is_input": lambda x: torch.sub(x, 1, out=x),
    "out_is_input_reversed": lambda x: torch.sub(1, x, out=x),
    "scatter_self": lambda x: x[:4].scatter_(0, torch.tensor([0, 1, 2, 3], device=x.device), x[4:8]),
    "index_copy_source": lambda x: x[:4].index_copy_(0, torch.tensor([3, 0], device=x.device), x[6:8]),
    "cumsum_out": lambda x: torch.cumsum(x, 0, out=x),
    "cat_out": lambda x: torch.cat([x[:2], x[4:6]], out=x[:4]),
    "cat_out_apart": lambda x: torch.cat([x[:2], x[4:6]], out=x[6:10]),
    "gather_out": lambda x: torch.gather(x, 0, torch.tensor([2, 1], device=x.device), out=x[:2]),
    "index_select_out": lambda x: torch.index_select(x, 0, torch.tensor([2], device=x.device), out=x[4:5]),
    "scatter_source": lambda x: x.scatter_(0, torch.tensor([0, 1], device=x.device), x[1:3]),
    "scatter_out_self": lambda x: torch.scatter(x, 0, torch.tensor([1], device=x.device), x[:1].clone(), out=x),
    "index_add_source": lambda x: x.index_add_(0, torch.tensor([1], device=x.device), x[3:4]),
    "index_put_source": lambda x: x.index_put_((torch.tensor([1, 2], device=x.device),), x[3:5]),
    "expanded_zero": lambda x: x[1:2].expand(4).zero_(),
    "foreach_parts": lambda x: torch._foreach_add_([x[:3], x[3:6]], [x[6:9], x[6:9]]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_overlap(case):
    def body(device):
        x = torch.arange(10.0).to(device)
        case(x)
        return x

    agree(body)


@pytest.mark.parametrize("name", ["expanded_target", "partial_add", "partial_mul_out"])
def test_overlap_is_seen_when_the_program_is_cached(name):
    """The check does not depend on the geometry, which is all that the program's key has."""
    x = torch.arange(10.0, device="tpu")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            CASES[name](x)
    apart = torch.arange(10.0, device="tpu")
    apart[5:8].add_(apart[1:4])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        apart[2:5].add_(apart[1:4])
    assert x.tolist() == list(range(10))


def test_failed_write_changes_nothing():
    def body(device):
        x = torch.arange(6.0).to(device)
        with contextlib.suppress(RuntimeError):
            x[1:].add_(x[:-1])
        return x, x._version

    agree(body)


def test_foreach_over_elements_that_share_memory():
    def body(device):
        x = torch.arange(6.0, device=device)
        torch._foreach_add_([x[:4], x[2:], x[:4]], 1.0)
        torch._foreach_mul_([x[:2], x[:2]], [3.0, 5.0])
        torch._foreach_add_(
            [x[:3], x[1:4]], [torch.ones(3, device=device), torch.full((3,), 2.0, device=device)], alpha=2
        )
        torch._foreach_sqrt_([x[:1], x[1:2]])  # neighbours, which share storage only
        return x

    agree(body)
