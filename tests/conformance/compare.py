"""When two results agree: values within a tolerance, or as close to the exact numbers as the CPU's are."""

from __future__ import annotations

import torch

from .samples import tensors

# Entries whose values are random or never written: dtype, shape and strides are compared here. Distributions are
# tested in tests/python/aten/test_random.py.
RANDOM = {
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout.with_train",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "normal",
    "normal.in_place",
    "normal.number_mean",
    "pca_lowrank",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "svd_lowrank",
    "uniform",
}

# CPU's float64 results have the digits of float32.
INEXACT_ON_CPU = {"special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1"}

# Results that are positions, where the order of equal elements is not specified.
ARBITRARY_TIES = {"argsort": 0, "kthvalue": 1, "mode": 1, "sort": 1, "topk": 1}

# Whose gradients go to the elements that were chosen: with 16 bits, many are equal.
CHOOSE_AMONG_TIES = {"kthvalue", "mode", "msort", "sort", "topk"}

# Eigenvectors and singular vectors have a free sign or phase, eigenvalues of general matrices no order.
FREE_SIGN = {"linalg.eig", "linalg.eigh", "linalg.svd", "svd"}
FREE_ORDER = {"linalg.eig", "linalg.eigvals"}

_TOLERANCE = {
    torch.float64: dict(rtol=1e-6, atol=1e-7),
    torch.complex128: dict(rtol=1e-6, atol=1e-7),
    torch.float32: dict(rtol=2e-4, atol=2e-5),
    torch.complex64: dict(rtol=2e-4, atol=2e-5),
    torch.float16: dict(rtol=5e-3, atol=5e-3),
    torch.complex32: dict(rtol=5e-3, atol=5e-3),
    torch.bfloat16: dict(rtol=3e-2, atol=3e-2),
}


def tolerance(name, dtype):
    return _TOLERANCE.get(torch.float32 if name in INEXACT_ON_CPU else dtype, {})


def is_random(name, sample):
    return name in RANDOM or sample.kwargs.get("dropout_p", 0) > 0


def canonical(name, sample, outputs):
    """The outputs in a form that is unique: OpInfo's own for signs, eigenvalues sorted."""
    if name in FREE_SIGN and sample.output_process_fn_grad is not None:
        outputs = sample.output_process_fn_grad(outputs)
    if name not in FREE_ORDER:
        return outputs
    values, *vectors = tensors(outputs)
    key = (values.detach().cpu() * 1e3).resolve_conj()
    real, imag = key.real.round(), key.imag.round()  # conjugate pairs have equal real parts but for rounding
    order = imag.argsort(dim=-1, stable=True)
    order = order.gather(-1, real.gather(-1, order).argsort(dim=-1, stable=True)).to(values.device)
    return [values.gather(-1, order), *(t.gather(-1, order.unsqueeze(-2).expand(t.shape)) for t in vectors)]


def on_host(tensor):
    host = tensor.detach().cpu().resolve_conj().resolve_neg()
    # assert_close knows no float8 and few unsigned types.
    if host.dtype.is_floating_point and host.element_size() == 1:
        return host.float()
    return host.to(torch.int64) if host.dtype in (torch.uint16, torch.uint32, torch.uint64) else host


def is_no_worse(reference, expected, actual):
    """Whether `actual` is about as close to `reference` as CPU's result, `expected`, is."""
    kind = torch.complex128 if reference.is_complex() else torch.float64
    reference, expected, actual = (t.detach().to(kind) for t in (reference, expected, actual))
    finite = reference.isfinite()
    if not torch.equal(actual.isnan(), expected.isnan()) or not finite.any():
        return False
    error, cpu_error = ((t - reference)[finite].abs().max() for t in (actual, expected))
    return bool(error <= 2 * cpu_error)


def difference(expected, actual, bounds=None, by_value=lambda i: True, reference=None):
    """'' when equal, else the first difference.

    `by_value(i)` says whether the numbers of tensor i count; `reference()` gives the results in wider arithmetic, to
    which the actual ones may be as close as the expected ones are.
    """
    want, got = tensors(expected), tensors(actual)
    if len(want) != len(got):
        return f"{len(got)} tensors, expected {len(want)}"
    if not want and expected is not None:
        return _scalar_difference(expected, actual, by_value(0))
    for i, (w, g) in enumerate(zip(want, got)):
        if (w.dtype, w.shape, w.layout) != (g.dtype, g.shape, g.layout):
            return f"[{i}] {_summary(g)}, expected {_summary(w)}"
        if not by_value(i):
            continue
        if w.layout != torch.strided:
            w, g = w.detach().to_dense(), g.detach().cpu().to_dense()
        w, g = on_host(w), on_host(g)
        try:
            torch.testing.assert_close(g, w, equal_nan=True, **(bounds or {}))
        except AssertionError as e:
            if reference is not None and _explained(reference, i, w, g):
                continue
            return f"[{i}] " + " ".join(str(e).split())[:200]
    return ""


def _summary(tensor):
    layout = "" if tensor.layout == torch.strided else f", {tensor.layout}"
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}{layout}"


def _scalar_difference(expected, actual, by_value):
    """Of results that are no tensors: numbers, dtypes, lists of them."""
    if type(expected) is not type(actual):
        return f"{type(actual).__name__}, expected {type(expected).__name__}"
    if not by_value or isinstance(expected, torch.device) or expected == actual:
        return ""
    try:
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    except (AssertionError, TypeError, ValueError):
        return f"{actual!r}, expected {expected!r}"[:200]
    return ""


def _explained(reference, i, expected, actual):
    if not (expected.is_floating_point() or expected.is_complex()):
        return False
    try:
        return is_no_worse(tensors(reference())[i], expected, actual)
    except Exception:  # there is no wider form of this sample
        return False


def stride_difference(expected, actual):
    """'' when the strides of all results are CPU's. Those of tensors with fewer than two elements say nothing."""
    for i, (w, g) in enumerate(zip(tensors(expected), tensors(actual))):
        strided = w.layout == torch.strided and g.layout == torch.strided
        if strided and w.numel() > 1 and w.shape == g.shape and w.stride() != g.stride():
            return f"[{i}] strides {g.stride()}, expected {w.stride()}"
    return ""
