"""Forward-mode differentiation (dual tensors): the tangents of results, whatever had to be inferred on the way."""

import pytest
import torch
from torch.autograd import forward_ad

# PyTorch's meta kernels of some in-place forms print their arguments, which asks for the tangents there.
CALLS = {
    "lerp_": lambda x, w: x.clone().lerp_(x * x, w),
    "lerp": lambda x, w: x.lerp(x * x, w),
    "addcmul_": lambda x, w: x.clone().addcmul_(x, x, value=0.5),
    "addcdiv_": lambda x, w: x.clone().addcdiv_(x, x + 4, value=0.5),
    "pow_": lambda x, w: (x.abs() + 1).pow_(w),
    "quantile": lambda x, w: torch.quantile(x, w, dim=0),
    "div_": lambda x, w: x.clone().div_(w + 1),
    "sub_": lambda x, w: x.clone().sub_(w, alpha=2),
}


@pytest.mark.parametrize("call", CALLS)
def test_tangents(call):
    def tangent(device):
        x, direction = torch.linspace(-2, 2, 23).to(device), torch.linspace(1, 3, 23).to(device)
        w = torch.tensor(0.3).to(device)
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(CALLS[call](forward_ad.make_dual(x, direction), w)).tangent.cpu()

    torch.tpu.empty_cache()  # nothing is inferred for a call that is known
    torch.testing.assert_close(tangent("tpu"), tangent("cpu"))
    # A fault in there would leave the thread without its autograd, on every device.
    torch.testing.assert_close(tangent("cpu"), tangent("tpu"))
