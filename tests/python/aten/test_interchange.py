"""numpy and DLPack. Device memory has no address that others could read, so only PyTorch itself shares it."""

import numpy as np
import pytest
import torch
from harness import compare


def test_numpy_needs_force():
    x = torch.arange(6.0, device="tpu").view(2, 3)
    for call in (x.numpy, lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(TypeError, match=r"can't convert tpu:0 device type tensor to numpy.*cpu\(\)"):
            call()
    y = torch.ones(2, device="tpu", requires_grad=True)
    assert x.numpy(force=True).tolist() == x.tolist() and y.numpy(force=True).tolist() == [1, 1]
    array = x.numpy(force=True)
    x.add_(1)
    assert array[0, 0] == 0
    assert torch.from_numpy(np.arange(3)).to("tpu").tolist() == [0, 1, 2]
    assert torch.as_tensor(np.arange(3.0), device="tpu").dtype == torch.float64
    assert torch.tensor(np.float32(2), device="tpu").item() == 2


def test_dlpack_round_trip_shares():
    x = torch.arange(12.0, device="tpu").view(3, 4)
    y = torch.from_dlpack(x)
    assert y.device == x.device
    compare(y, x.cpu())
    y.add_(1)
    x[0, 0] = -5
    compare(y, x.cpu())
    capsule = torch.utils.dlpack.to_dlpack(x.t()[1:])
    z = torch.utils.dlpack.from_dlpack(capsule)
    compare(z, x.cpu().t()[1:])
    z[0] = 7
    assert x[:, 1].tolist() == [7, 7, 7] and z.sum().item() == x[:, 1:].sum().item()
    z.copy_(torch.zeros(3, 3))
    assert x[:, 1:].sum().item() == 0
    del x, y
    z.add_(2)
    assert z.cpu().sum().item() == 18
    b = torch.from_dlpack(torch.zeros(4, device="tpu", dtype=torch.bool)[1:])
    b[0] = True
    assert b.tolist() == [True, False, False]


def test_dlpack_device():
    assert torch.ones(2, device="tpu").__dlpack_device__() == (12, 0)  # kDLExtDev
    with pytest.raises(BufferError):
        torch.ones(2, device="tpu", requires_grad=True).__dlpack__()


def test_dlpack_to_other_libraries():
    """An importer that does not know the device refuses; a copy on the host goes everywhere."""
    x = torch.arange(3.0, device="tpu")
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(x)
    assert np.from_dlpack(x.cpu()).tolist() == [0, 1, 2]
    assert torch.from_dlpack(np.arange(3.0)).to("tpu").tolist() == [0, 1, 2]
    compare(torch.from_dlpack(x.cpu()), x.cpu())


def test_imported_tensors_cannot_be_resized():
    y = torch.from_dlpack(torch.ones(4, device="tpu"))
    with pytest.raises(RuntimeError, match="resiz"):
        y.resize_(100)
    assert y.tolist() == [1, 1, 1, 1]


def test_data_pointers_are_identities():
    x = torch.zeros(8, device="tpu")
    y = torch.zeros(8, device="tpu")
    assert x.data_ptr() != 0 and x.data_ptr() != y.data_ptr()
    assert x[2:].data_ptr() - x.data_ptr() == 8
    assert x.view(2, 4).data_ptr() == x.data_ptr() and x.detach().data_ptr() == x.data_ptr()
    p = x.data_ptr()
    x.add_(1)
    assert x.data_ptr() == p
    assert abs(x.data_ptr() - y.data_ptr()) >= x.untyped_storage().nbytes()
    assert torch.empty(0, device="tpu").data_ptr() == 0


def test_print():
    x = torch.tensor([[1.0, 2.5], [float("nan"), -3e10]])
    assert repr(x.to("tpu")) == repr(x)[:-1] + ",\n       device='tpu:0')" or "device='tpu:0'" in repr(x.to("tpu"))
    assert (
        repr(torch.ones(2, device="tpu", requires_grad=True)) == "tensor([1., 1.], device='tpu:0', requires_grad=True)"
    )
    assert str(torch.tensor(3, device="tpu")) == "tensor(3, device='tpu:0')"
    assert repr(torch.zeros(0, 2, device="tpu")) == "tensor([], device='tpu:0', size=(0, 2))"
    assert "Parameter containing" in repr(torch.nn.Parameter(torch.ones(1, device="tpu")))
    assert repr(torch.tensor([1 + 2j], device="tpu").conj()) == "tensor([1.-2.j], device='tpu:0')"
    big = torch.arange(2000.0, device="tpu")
    assert repr(big) == repr(big) and "..." in repr(big)
