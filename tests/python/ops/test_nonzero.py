"""Positions of what is not zero: values, strides, and one program for all counts of a bucket."""

import pytest
import torch
from harness import agree, count_programs

MASKS = {
    "vector": lambda: torch.arange(40) % 3 == 0,
    "matrix": lambda: torch.arange(60).view(6, 10) % 7 > 2,
    "cube": lambda: (torch.arange(120).view(4, 5, 6) % 5).float(),
    "view": lambda: (torch.arange(60).view(6, 10) % 4 == 1).t()[1:, ::2],
    "all": lambda: torch.ones(3, 4),
    "one": lambda: torch.eye(9)[:1],
    "none": lambda: torch.zeros(3, 4),
    "number": lambda: torch.tensor(5.0),
    "empty": lambda: torch.zeros(0, 3),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_as_on_the_cpu(mask):
    def body(device):
        x = mask().to(device)
        found = x.nonzero()
        return found, torch.argwhere(x), x.nonzero(as_tuple=True), found.t().contiguous(), x[found.unbind(1)]

    agree(body, strides=True)
    agree(lambda d: torch.nonzero_static(mask().to(d), size=7, fill_value=-2), strides=True)


def test_one_program_for_the_counts_of_a_bucket():
    x = torch.zeros(1000, device="tpu")
    x[:20] = 1

    def found_with(n):
        x[n] = 1
        return x.nonzero().shape[0]

    found_with(20)
    found_with(24)
    with count_programs() as programs:
        assert [found_with(n) for n in range(25, 31)] == list(range(23, 29))
    assert programs.value <= 1  # fused mode joins the writes in another way once
