"""Eager modes, matmul precision, excess precision, fallback policy."""

import pytest
import torch
from harness import run_python

EagerMode, Precision = torch.tpu.EagerMode, torch.tpu.Precision


def test_names():
    assert EagerMode.STRICT is EagerMode.DEFER_NEVER
    assert EagerMode.DEBUG is EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING
    assert EagerMode.FUSED is EagerMode.DEFER_AND_FUSE
    assert torch.tpu.eager_mode is EagerMode.STRICT


def test_set_eager_mode():
    with torch.tpu.set_eager_mode(EagerMode.DEBUG):
        assert torch.tpu.eager_mode is EagerMode.DEBUG
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
        with torch.tpu.set_eager_mode(EagerMode.STRICT):
            assert torch.tpu.eager_mode is EagerMode.STRICT
        assert torch.tpu.eager_mode is EagerMode.DEBUG
    assert torch.tpu.eager_mode is EagerMode.STRICT
    torch.tpu.set_eager_mode(EagerMode.DEBUG)
    assert torch.tpu.eager_mode is EagerMode.DEBUG
    torch.tpu.set_eager_mode(EagerMode.STRICT)
    with pytest.raises(RuntimeError), torch.tpu.set_eager_mode(EagerMode.DEBUG):
        raise RuntimeError
    assert torch.tpu.eager_mode is EagerMode.STRICT
    with pytest.raises(ValueError):
        torch.tpu.set_eager_mode("fast")


def test_debug_names_the_failing_op(debug_mode):
    with pytest.raises(IndexError, match="aten::index_select"):
        torch.ones(3, device="tpu").index_select(0, torch.tensor([3], device="tpu"))


def test_precision():
    a = torch.randn(64, 64).to("tpu")
    exact = a.cpu().double() @ a.cpu().double()
    assert torch.get_float32_matmul_precision() == "highest"
    for mode in Precision:
        with torch.tpu.precision(mode):
            assert (a @ a).dtype == torch.float32
    assert ((a @ a).cpu().double() - exact).abs().max() < 1e-4
    with pytest.raises(ValueError):
        with torch.tpu.precision("best"):
            pass
    torch.set_float32_matmul_precision("medium")
    try:
        (a @ a).cpu()
    finally:
        torch.set_float32_matmul_precision("highest")


def test_excess_precision():
    assert torch.tpu.allow_excess_precision is False
    torch.tpu.allow_excess_precision = True
    try:
        assert torch.tpu.allow_excess_precision is True
        assert (torch.ones(3, device="tpu", dtype=torch.bfloat16) * 3).tolist() == [3, 3, 3]
    finally:
        torch.tpu.allow_excess_precision = False


def test_settings_from_the_environment():
    done = run_python(
        """
        import torch
        assert torch.tpu.eager_mode is torch.tpu.EagerMode.DEBUG
        lib = torch.library.Library("tt_test", "DEF")
        lib.define("double(Tensor x) -> Tensor")
        lib.impl("double", lambda x: x * 2, "CPU")
        x = torch.ones(3, device="tpu")
        for _ in range(2):
            y = torch.ops.tt_test.double(x)
        assert y.device.type == "tpu" and y.tolist() == [2, 2, 2]
        assert torch.tpu.metrics()["fallbacks"] == {"tt_test::double": 2}
        """,
        TORCH_TPU_LAUNCH_BLOCKING=1,
        TORCH_TPU_FALLBACK="warn",
    )
    assert done.stderr.count("'tt_test::double' has no lowering") == 1
    done = run_python("import torch", check=False, TORCH_TPU_FALLBACK="maybe")
    assert "TORCH_TPU_FALLBACK=maybe" in done.stderr


def test_fallback_error():
    lib = torch.library.Library("tt_test2", "DEF")
    lib.define("triple(Tensor x) -> Tensor")
    lib.impl("triple", lambda x: x * 3, "CPU")
    with pytest.raises(NotImplementedError, match=r"tt_test2::triple.*no lowering"):
        torch.ops.tt_test2.triple(torch.ones(2, device="tpu"))
    assert torch.ops.tt_test2.triple(torch.ones(2)).tolist() == [3, 3]
