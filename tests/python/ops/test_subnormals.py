"""XLA computes with subnormals taken for zero, on TPUs and on its CPU plugin; what only moves values keeps them."""

import pytest
import torch

SUBNORMAL = {
    dtype: [torch.finfo(dtype).tiny / divisor for divisor in (2, 64, -2, -64)]
    for dtype in (torch.float32, torch.float64, torch.bfloat16)
}

INDEX = torch.tensor([3, 0, 1, 1])

MOVES = {
    "clone": lambda x: x.clone(),
    "transposed copy": lambda x: x.view(2, 2).t().contiguous(),
    "slice": lambda x: x[1:3].clone(),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x], 1),
    "where": lambda x: torch.where(INDEX.to(x.device) > 0, x, x.flip(0)),
    "gather": lambda x: x.gather(0, INDEX.to(x.device)),
    "index": lambda x: x[INDEX.to(x.device)],
    "index_put": lambda x: torch.zeros_like(x).index_put_((INDEX[:2].to(x.device),), x[:2]),
    "scatter": lambda x: torch.zeros_like(x).scatter(0, INDEX[:2].to(x.device), x[:2]),
    "write through a view": lambda x: torch.zeros_like(x)[1:3].copy_(x[:2])._base,
    "masked_fill": lambda x: x.masked_fill(INDEX.to(x.device) > 2, 1.0),
    "roll": lambda x: x.roll(1),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2)),
    "neg": lambda x: -x,
    "abs": lambda x: x.abs(),
    "full": lambda x: torch.full_like(x, x[0].item()),
}


@pytest.mark.parametrize("dtype", SUBNORMAL, ids=str)
@pytest.mark.parametrize("move", MOVES)
def test_moves_keep_subnormals(move, dtype):
    x = torch.tensor(SUBNORMAL[dtype], dtype=dtype)
    assert x.abs().gt(0).all()
    expected = MOVES[move](x)
    assert expected.count_nonzero() >= 2
    assert torch.equal(MOVES[move](x.to("tpu")).cpu(), expected)


def test_half_subnormals_are_computed_with():
    # float16's are normal numbers in float32, in which reduced floats compute.
    x = torch.tensor([6e-8, -6e-5, 3e-5], dtype=torch.float16)
    y = x.to("tpu")
    assert torch.equal((y * 0.5).cpu(), x * 0.5)
    assert torch.equal((y + y).cpu(), x + x)
    assert (y != 0).all()
    assert torch.equal(y.float().cpu(), x.float())
