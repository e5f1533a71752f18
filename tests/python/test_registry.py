"""The table of lowerings against PyTorch's dispatcher."""

import torch_tpu


def test_every_lowering_is_of_an_op_that_exists():
    assert torch_tpu._C.unknown_lowerings() == []


def test_families_are_registered():
    ops = set(torch_tpu._C.registered_ops())
    assert len(ops) > 600
    assert {"add.Tensor", "convolution_overrideable", "native_layer_norm", "_foreach_add.List", "_fused_adamw_"} <= ops
