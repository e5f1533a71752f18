"""Errors say what happened, have CPU's types, and leave process and tensors usable."""

import importlib.util
import pathlib

import pytest
import torch
from harness import agree, run_python
from torch.nn import functional as F


def ones(device, *sizes, **options):
    return torch.ones(*sizes, device=device, **options)


def modified(x):
    y = x * 1
    z = y.pow(3)
    y.add_(1)  # which pow's gradient needs
    z.sum().backward()


ERRORS = {
    "broadcast": lambda d: ones(d, 3) + ones(d, 4),
    "mm_shape": lambda d: ones(d, 2, 3) @ ones(d, 2, 3),
    "mm_rank": lambda d: torch.mm(ones(d, 2), ones(d, 2, 2)),
    "mm_dtype": lambda d: torch.mm(ones(d, 2, 2), ones(d, 2, 2, dtype=torch.float64)),
    "bmm": lambda d: torch.bmm(ones(d, 2, 2, 2), ones(d, 3, 2, 2)),
    "linear": lambda d: F.linear(ones(d, 2, 3), ones(d, 2, 4)),
    "linear_dtype": lambda d: F.linear(ones(d, 2, 3), ones(d, 2, 3, dtype=torch.bfloat16)),
    "conv": lambda d: F.conv2d(ones(d, 1, 2, 4, 4), ones(d, 1, 3, 3, 3)),
    "conv_kernel": lambda d: F.conv2d(ones(d, 1, 1, 2, 2), ones(d, 1, 1, 3, 3)),
    "dim": lambda d: ones(d, 2, 3).sum(2),
    "softmax_dim": lambda d: ones(d, 2).softmax(1),
    "cat_shape": lambda d: torch.cat([ones(d, 2, 3), ones(d, 2, 4)]),
    "cat_empty": lambda d: torch.cat([]),
    "stack": lambda d: torch.stack([ones(d, 2), ones(d, 3)]),
    "view": lambda d: ones(d, 2, 3).view(4),
    "view_strides": lambda d: ones(d, 2, 3).t().view(6),
    "reshape": lambda d: ones(d, 6).reshape(4, -1),
    "expand": lambda d: ones(d, 2).expand(3),
    "permute": lambda d: ones(d, 2, 3).permute(0, 0),
    "squeeze": lambda d: ones(d, 2).squeeze(3),
    "as_strided": lambda d: ones(d, 4).as_strided((3,), (-1,)),
    "as_strided_bounds": lambda d: ones(d, 4).as_strided((3,), (4,)),
    "bitwise_float": lambda d: ones(d, 2) & ones(d, 2),
    "shift_float": lambda d: ones(d, 2) << "a",
    "not_float": lambda d: ~ones(d, 2),
    "bool_subtract": lambda d: ones(d, 2, dtype=torch.bool) - ones(d, 2, dtype=torch.bool),
    "neg_bool": lambda d: -ones(d, 2, dtype=torch.bool),
    "int_mean": lambda d: ones(d, 2, dtype=torch.int64).mean(),
    "complex_compare": lambda d: ones(d, 2, dtype=torch.complex64) < 1,
    "complex_max": lambda d: ones(d, 2, dtype=torch.complex64).max(),
    "max_empty": lambda d: torch.empty(0, device=d).max(),
    "argmax_empty": lambda d: torch.empty(0, 3, device=d).argmax(0),
    "item": lambda d: ones(d, 2).item(),
    "bool": lambda d: bool(ones(d, 2)),
    "int_power": lambda d: ones(d, 2, dtype=torch.int64) ** -1,
    "gather_dtype": lambda d: ones(d, 2).gather(0, ones(d, 2)),
    "gather_rank": lambda d: ones(d, 2).gather(0, ones(d, 2, 2, dtype=torch.int64)),
    "index_dtype": lambda d: ones(d, 2)[ones(d, 2)],
    "index_rank": lambda d: ones(d, 2)[0, 0],
    "index_many": lambda d: ones(d, 2)[
        torch.zeros(1, dtype=torch.int64, device=d), torch.zeros(1, dtype=torch.int64, device=d)
    ],
    "mask_shape": lambda d: ones(d, 3)[torch.ones(2, dtype=torch.bool, device=d)],
    "scatter_dtype": lambda d: ones(d, 2).scatter_(
        0, torch.zeros(1, dtype=torch.int64, device=d), ones(d, 1, dtype=torch.float64)
    ),
    "index_put_dtype": lambda d: ones(d, 2).index_put_(
        (torch.zeros(1, dtype=torch.int64, device=d),), ones(d, 1).double()
    ),
    "embedding": lambda d: F.embedding(ones(d, 2), ones(d, 2, 2)),
    "cross_entropy": lambda d: F.cross_entropy(ones(d, 2, 3), torch.zeros(3, dtype=torch.int64, device=d)),
    "cross_entropy_dtype": lambda d: F.cross_entropy(ones(d, 2, 3), torch.zeros(2, dtype=torch.int32, device=d)),
    "layer_norm": lambda d: F.layer_norm(ones(d, 2, 3), (4,)),
    "batch_norm": lambda d: F.batch_norm(ones(d, 1, 3), None, None, training=True),
    "max_pool": lambda d: F.max_pool2d(ones(d, 1, 1, 2, 2), 3),
    "topk": lambda d: ones(d, 3).topk(4),
    "kthvalue": lambda d: ones(d, 3).kthvalue(0),
    "leaf_in_place": lambda d: ones(d, 2, requires_grad=True).add_(1),
    "backward_twice": lambda d: (lambda y: (y.backward(), y.backward()))(ones(d, 2, requires_grad=True).pow(2).sum()),
    "modified": lambda d: modified(ones(d, 2, requires_grad=True)),
    "dropout": lambda d: F.dropout(ones(d, 2), -0.1),
    "multinomial": lambda d: torch.multinomial(ones(d, 2), 3),
    "repeat": lambda d: ones(d, 2, 2).repeat(2),
    "unfold": lambda d: ones(d, 2).unfold(0, 3, 1),
    "where_dtype": lambda d: torch.where(ones(d, 2), ones(d, 2), ones(d, 2)),
    "dot": lambda d: torch.dot(ones(d, 2), ones(d, 3)),
    "lerp_dtype": lambda d: torch.lerp(ones(d, 2), ones(d, 2).double(), 0.5),
    "cumsum_dim": lambda d: ones(d, 2).cumsum(1),
    "chunk": lambda d: ones(d, 2).chunk(0),
    "split": lambda d: ones(d, 4).split([1, 2]),
    "einsum": lambda d: torch.einsum("ij,jk->ik", ones(d, 2, 3), ones(d, 2, 3)),
    "set_item": lambda d: ones(d, 2).__setitem__(slice(0, 2), ones(d, 3)),
}


@pytest.mark.parametrize("bad", ERRORS.values(), ids=ERRORS.keys())
def test_same_error_as_cpu(bad):
    with torch.random.fork_rng(devices=[]):
        error = agree(bad)
    assert isinstance(error, Exception), "the case is no error"
    text = str(error)
    assert "a defect" not in text and "INTERNAL ASSERT" not in text and "stablehlo" not in text


@pytest.mark.parametrize("name", ["broadcast", "mm_shape", "conv", "cat_shape", "bool_subtract", "topk"])
def test_texts_are_cpus(name):
    texts = []
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError) as error:
            ERRORS[name](device)
        texts.append(str(error.value).split("\n")[0].replace("tpu:0", "cpu"))
    assert texts[0] == texts[1]


def test_errors_in_a_row_and_in_debug_mode(debug_mode):
    x = torch.arange(4.0, device="tpu")
    for _ in range(3):
        for name in ("broadcast", "mm_dtype", "view"):
            with pytest.raises(RuntimeError):
                ERRORS[name]("tpu")
        assert (x + 1).tolist() == [1, 2, 3, 4]


MISSING = """
import torch
assert not torch.tpu.is_available() and torch.tpu.device_count() == 0
torch.manual_seed(0)
assert torch.ones(2).sum().item() == 2
x = torch.ones(2)
for call in (lambda: torch.ones(2, device="tpu"), lambda: x.to("tpu"), torch.tpu.init, x.tpu):
    for _ in range(2):
        try:
            call()
            raise SystemExit("no error")
        except RuntimeError as e:
            assert {text!r} in str(e), e
assert torch.ones(2).sum().item() == 2
"""


def test_missing_plugin():
    code = MISSING.replace("{text!r}", "'/nonexistent.so'")
    run_python(code + "print('done')", TPU_LIBRARY_PATH="/nonexistent.so")
    done = run_python("import torch; torch.ones(1, device='tpu')", check=False, TPU_LIBRARY_PATH="/nonexistent.so")
    assert "pip install" in done.stderr and "TPU_LIBRARY_PATH" in done.stderr


def test_files_that_are_no_plugins(tmp_path):
    text = tmp_path / "text.so"
    text.write_text("no library")
    done = run_python("import torch; torch.ones(1, device='tpu')", check=False, TPU_LIBRARY_PATH=text)
    assert done.returncode == 1 and "RuntimeError" in done.stderr and str(text) in done.stderr
    library = torch._C.__file__
    done = run_python("import torch; torch.ones(1, device='tpu')", check=False, TPU_LIBRARY_PATH=library)
    assert done.returncode == 1 and "is no PJRT plugin" in done.stderr and "pip install" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed")
def test_a_named_plugin_without_its_hardware():
    """What `import jax` does to a machine without TPUs where libtpu is installed."""
    path = str(pathlib.Path(importlib.util.find_spec("libtpu").origin).with_name("libtpu.so"))
    done = run_python(
        'import torch; torch.ones(1, device="tpu")', check=False, TPU_LIBRARY_PATH=path, TPU_SKIP_MDS_QUERY=1
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: creating a client of") and "importing JAX sets" in last, last
