"""Devices: which there are, which is current, what they say of themselves."""

import dataclasses

import pytest
import torch
from harness import run_python


def test_one_device():
    assert torch.tpu.is_available() and torch.tpu.device_count() == 1 and torch.tpu.current_device() == 0
    torch.tpu.init()
    assert torch.tpu.is_initialized()
    assert torch.device("tpu", 0) == torch.device("tpu:0") == torch.zeros(1, device="tpu").device
    assert torch.get_device_module("tpu") is torch.tpu
    assert torch._C._get_privateuse1_backend_name() == "tpu"


def test_set_device():
    torch.tpu.set_device(0)
    torch.tpu.set_device("tpu:0")
    torch.tpu.set_device("tpu")
    torch.tpu.set_device(torch.device("tpu", 0))
    torch.tpu.set_device(-1)
    for bad in (1, "tpu:1", 99):
        with pytest.raises(RuntimeError, match=r"invalid device|1 tpu device"):
            torch.tpu.set_device(bad)
    with pytest.raises(ValueError, match="expected a tpu device"):
        torch.tpu.set_device("cpu")
    assert torch.tpu.current_device() == 0


def test_context_managers():
    with torch.tpu.device(0) as d:
        assert d.idx == 0
    with torch.tpu.device(None), torch.tpu.device("tpu:0"), torch.tpu.device(-1):
        assert torch.tpu.current_device() == 0
    with torch.tpu.device_of(torch.ones(1, device="tpu")), torch.tpu.device_of(torch.ones(1)):
        assert torch.tpu.current_device() == 0
    with pytest.raises(RuntimeError):
        torch.tpu.device(8).__enter__()


def test_properties():
    p = torch.tpu.get_device_properties()
    assert dataclasses.is_dataclass(p)
    assert p.platform in ("cpu", "tpu") and p.name == torch.tpu.get_device_name(0)
    assert p.plugin.endswith(".so") and p.plugin_reason and p.pjrt_api_version.split(".")[0].isdigit()
    assert p.total_memory > 1 << 28 and isinstance(p.attributes, dict)
    if p.platform == "cpu":
        assert torch.tpu.get_device_capability() == (0, 0) and p.has_host_memory
    with pytest.raises(RuntimeError):
        torch.tpu.get_device_properties(1)
    assert torch.tpu.is_bf16_supported()
    assert torch.bfloat16 in torch.tpu.get_amp_supported_dtype()
    assert torch.tpu.can_device_access_peer(0, 0) is False


def test_accelerator():
    a = torch.accelerator
    assert a.is_available() and a.current_accelerator() == torch.device("tpu") and a.device_count() == 1
    assert a.current_device_index() == 0
    a.set_device_index(0)
    with a.device_index(0):
        assert a.current_device_index() == 0
    a.synchronize()
    with pytest.raises(RuntimeError):
        a.set_device_index(3)


def test_module_and_tensor_methods():
    m = torch.nn.Linear(2, 2).tpu()
    assert m.weight.is_tpu and m(torch.ones(1, 2).tpu()).is_tpu
    assert torch.ones(2).untyped_storage().tpu().device.type == "tpu"
    assert torch.ones(2, device="tpu").untyped_storage().is_tpu
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 2, 1).tpu(), torch.tensor([2, 1]), batch_first=True)
    assert packed.data.is_tpu


def test_nothing_starts_at_import():
    run_python(
        """
        import torch
        x = torch.device("tpu")
        torch.manual_seed(0)
        torch.tpu.is_available(), torch.tpu.device_count(), torch.tpu.current_device(), torch.tpu.metrics()
        assert not torch.tpu.is_initialized()
        torch.ones(3, device="tpu")
        assert torch.tpu.is_initialized()
        """
    )


def test_device_count_setting():
    for value, count in (("3", 3), ("", 1)):
        run_python(f"import torch; assert torch.tpu.device_count() == {count}", TORCH_TPU_CPU_DEVICES=value)
    done = run_python("import torch; torch.ones(1, device='tpu')", check=False, TORCH_TPU_CPU_DEVICES="many")
    assert done.returncode == 1 and "TORCH_TPU_CPU_DEVICES=many is not a number from 1 to" in done.stderr
