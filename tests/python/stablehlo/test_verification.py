"""What the builder prints is valid StableHLO: jaxlib's bindings parse and verify it, and it survives serialization."""

import pytest
import torch
import torch.nn.functional as F

import torch_tpu

jaxlib_mlir = pytest.importorskip("jaxlib.mlir", reason="jaxlib brings the StableHLO parser")


@pytest.fixture(scope="module")
def context():
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, stablehlo

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    ctx = ir.Context()
    ctx.append_dialect_registry(registry)
    ctx.load_all_available_dialects()
    stablehlo.register_dialect(ctx)
    chlo.register_dialect(ctx)
    with ctx:
        yield ctx


def _run_ops():
    """A wide choice of ops, with shapes that nothing else uses, so that each of them builds a program."""
    x = torch.linspace(-2, 3, 3 * 7 * 11).view(3, 7, 11).to("tpu")
    c = torch.complex(x[0], x[1])
    image = x.reshape(1, 3, 7, 11)
    weight = torch.linspace(-1, 1, 5 * 3 * 9).view(5, 3, 3, 3).to("tpu")
    return [
        x + 1,
        torch.where(x > 0, x, torch.tensor(float("inf"))),
        x.sum(1),
        x.softmax(-1),
        x.cumsum(2),
        x.sort(2)[0],
        x.topk(3, dim=1)[1],
        torch.bmm(x, x.transpose(1, 2)),
        F.conv2d(image, weight, padding=1),
        F.max_pool2d(image, 2),
        F.gelu(x),
        torch.erfinv(x.clamp(-0.9, 0.9)),
        x.gather(2, torch.ones(3, 7, 2, dtype=torch.int64, device="tpu")),
        torch.zeros(3, 7, 11, device="tpu").scatter_add(1, (x > 0).long(), x),
        c * c.conj(),
        torch.rand(13, 7, device="tpu"),
        torch.digamma(x.abs() + 1),
        x[:, 2:5, ::3].clone(),
        x.to(torch.float64).var(),
        x.to(torch.bfloat16) * 0.5,
        x.view(torch.int32) >> 2,
    ]


def _round_trip(text):
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    artifact = stablehlo.serialize_portable_artifact_str(text, stablehlo.get_minimum_version())
    return ir.Module.parse(stablehlo.deserialize_portable_artifact_str(artifact))


def _operations(module):
    """(name, result types) of the ops of @main."""
    main = next(iter(module.body.operations))
    return [(op.operation.name, [str(r.type) for r in op.operation.results]) for op in main.regions[0].blocks[0]]


def test_modules_parse_verify_and_round_trip(context):
    from jaxlib.mlir import ir

    torch_tpu._C.set_module_recording(True)
    try:
        _run_ops()
        torch.tpu.synchronize()
    finally:
        torch_tpu._C.set_module_recording(False)
    modules = torch_tpu._C.take_recorded_modules()
    assert len(modules) >= 20
    for op, text in modules:
        module = ir.Module.parse(text)
        assert module.operation.verify(), op
        if "chlo." in text:  # portable artifacts hold StableHLO only
            continue
        restored = _round_trip(text)
        # Attributes that equal their defaults are left out on the way; from then on nothing changes.
        assert str(_round_trip(str(restored))) == str(restored), op
        assert _operations(restored) == _operations(module), op


def test_a_broken_module_is_refused(context):
    from jaxlib.mlir import ir

    text = "func.func @main(%a: tensor<2xf32>) -> tensor<3xf32> { return %a : tensor<2xf32> }"
    with pytest.raises(ir.MLIRError):
        ir.Module.parse(text)
