"""Arguments that an op writes besides its result, and results whose type the meta kernel does not know."""

import pytest
import torch
from harness import agree, compare


@pytest.mark.parametrize("form", ["functional", "inplace", "out"])
def test_rrelu_returns_its_result_and_fills_its_noise(form):
    x = torch.tensor([-1.0, 2.0, -3.0], device="tpu")
    before, noise, out = x.cpu(), torch.zeros(3, device="tpu"), torch.empty(3, device="tpu")
    arguments = (x, noise, 0.25, 0.5, True)
    if form == "functional":
        result = torch.ops.aten.rrelu_with_noise(*arguments)
    elif form == "inplace":
        result = torch.ops.aten.rrelu_with_noise_(*arguments)
        assert result is x
    else:
        result = torch.ops.aten.rrelu_with_noise.out(*arguments, out=out)
        assert result is out
    assert noise[1] == 1 and (noise >= 0.25).all()
    compare(result, before * noise.cpu())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_batch_norm_statistics_have_the_types_of_cpu(training, dtype):
    def run(device):
        x = torch.arange(24.0).reshape(2, 3, 4).to(device, dtype)
        mean, var = torch.zeros(3, device=device, dtype=dtype), torch.ones(3, device=device, dtype=dtype)
        return [*torch.native_batch_norm(x, None, None, mean, var, training, 0.1, 1e-5), mean, var]

    agree(run, tol=2e-2 if dtype == torch.bfloat16 else 1e-5)


def test_batch_norm_update_stats():
    def run(device):
        x = torch.arange(24.0, device=device).reshape(2, 3, 4)
        mean, var = torch.zeros(3, device=device), torch.ones(3, device=device)
        return [*torch.batch_norm_update_stats(x, mean, var, 0.1), mean, var]

    agree(run, tol=1e-5)


def test_layer_norm_statistics_have_the_type_of_cpu():
    def run(device):
        x = torch.arange(32.0).reshape(4, 8).to(device, torch.bfloat16)
        return torch.native_layer_norm(x, (8,), None, None, 1e-5)

    agree(run, tol=2e-2)


def test_assert_async():
    torch._assert_async(torch.ones((), device="tpu"))
    with pytest.raises(RuntimeError, match="Expected Tensor to be nonzero"):
        torch._assert_async(torch.zeros((), device="tpu"))
    with pytest.raises(RuntimeError, match="two hats"):
        torch._assert_async(torch.zeros((), device="tpu"), "two hats")


def test_out_forms_of_composite_ops():
    def run(device):
        x = torch.arange(32.0, device=device).reshape(2, 4, 4)
        z = torch.complex(x, x + 1)
        pooled, conjugate = torch.empty(0, device=device), torch.empty(0, dtype=z.dtype, device=device)
        torch.ops.aten.adaptive_avg_pool2d.out(x, [2, 2], out=pooled)
        return pooled, torch.conj_physical(z, out=conjugate)

    agree(run, tol=1e-6)
