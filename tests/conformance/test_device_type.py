"""PyTorch's own test machinery generates device-generic tests for the tpu device and they run."""

import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase


class TestDeviceType(TestCase):
    def test_device(self, device):
        self.assertEqual(torch.device(device).type, "tpu")
        self.assertEqual(torch.ones(3, device=device) + 1, torch.full((3,), 2.0, device=device))

    @dtypes(torch.float32, torch.int64)
    def test_dtypes(self, device, dtype):
        x = torch.arange(6, dtype=dtype, device=device).reshape(2, 3)
        self.assertEqual((x @ x.T).cpu(), x.cpu() @ x.cpu().T)

    @ops([op for op in op_db if op.full_name in ("add", "cumsum")], allowed_dtypes=(torch.float32,))
    def test_ops(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            expected = op(sample.transform(_on_host).input, *_host(sample.args), **_host(sample.kwargs))
            self.assertEqual(op(sample.input, *sample.args, **sample.kwargs), expected, exact_device=False)


def _on_host(value):
    return value.cpu() if isinstance(value, torch.Tensor) else value


def _host(values):
    if isinstance(values, dict):
        return {k: _on_host(v) for k, v in values.items()}
    return [_on_host(v) for v in values]


instantiate_device_type_tests(TestDeviceType, globals(), only_for="tpu")


def test_classes_were_generated():
    (generated,) = (c for name, c in globals().items() if name.startswith("TestDeviceType"))
    names = [n for n in dir(generated) if n.startswith("test_")]
    assert any(n.startswith("test_dtypes_") and n.endswith("float32") for n in names), names
    assert any(n.startswith("test_ops_add_") and n.endswith("float32") for n in names), names
