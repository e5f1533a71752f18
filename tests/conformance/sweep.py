"""Compares ops on the tpu device with the CPU over PyTorch's OpInfo samples.

    python tests/conformance/sweep.py [--dtypes float32 int64] [--samples 3] [--ops REGEX] [--shard I/N] [--json FILE]

Each op runs in a worker process, which is replaced when it crashes or exceeds the time limit. A result is one line:
op, dtype, check (forward, gradient, strides), "ok" or what went wrong.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import re
import time
import warnings

CHECKS = ("forward", "gradient", "strides")

# Entries whose values are random or never written: dtype and shape are compared.
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
ARBITRARY_TIES = {"argsort": 0, "kthvalue": 1, "sort": 1, "topk": 1}

# Whose tensor arguments stay on the CPU, as with CUDA.
HOST_ARGUMENTS = {"tensor_split"}


def _to(device, value):
    import torch

    if isinstance(value, torch.Tensor):
        source = value.detach()
        strided = value.layout == torch.strided and value.device.type == "cpu"
        if strided and source.untyped_storage().nbytes() != source.numel() * source.element_size():
            # With all of its storage, so that it is the same view there.
            whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
            moved = whole.to(device).as_strided(source.shape, source.stride(), source.storage_offset())
            moved = moved.conj() if source.is_conj() else moved
            moved = moved._neg_view() if source.is_neg() else moved
        else:
            moved = source.to(device)
        return moved.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items = [_to(device, v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: _to(device, v) for k, v in value.items()}
    if isinstance(value, torch.device):
        return torch.device(device)
    if isinstance(value, str) and value == "cpu":
        return device
    return value


def _tensors(value):
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    return []


def _widened(value):
    """The sample in the next wider type, as a reference for what rounding may do."""
    import torch

    wider = {
        torch.bfloat16: torch.float32,
        torch.float16: torch.float32,
        torch.float32: torch.float64,
        torch.complex64: torch.complex128,
    }
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        wide = value.detach().to(wider.get(value.dtype, value.dtype))
        return wide.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return wider.get(value, value)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        items = [_widened(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: _widened(v) for k, v in value.items()}
    return value


def _is_no_worse(reference, expected, actual):
    """Whether `actual` is about as close to `reference` as CPU's result, `expected`, is."""
    import torch

    kind = torch.complex128 if reference.is_complex() else torch.float64
    reference, expected, actual = (t.detach().to(kind) for t in (reference, expected, actual))
    finite = reference.isfinite()
    if not torch.equal(actual.isnan(), expected.isnan()) or not finite.any():
        return False
    error, cpu_error = ((t - reference)[finite].abs().max() for t in (actual, expected))
    return bool(error <= 2 * cpu_error)


def _compare(expected, actual, tolerance, by_value=lambda i: True, reference=None):
    """'' when equal, else the first difference. `by_value(i)` says whether the numbers of tensor i count; `reference()`
    gives the results in wider arithmetic, to which the actual ones may be as close as the expected ones are."""
    import torch

    want, got = _tensors(expected), _tensors(actual)
    if len(want) != len(got):
        return f"{len(got)} tensors, expected {len(want)}"
    for i, (w, g) in enumerate(zip(want, got)):
        if w.dtype != g.dtype:
            return f"[{i}] dtype {g.dtype}, expected {w.dtype}"
        if w.shape != g.shape:
            return f"[{i}] shape {tuple(g.shape)}, expected {tuple(w.shape)}"
        if w.layout != torch.strided or not by_value(i):
            continue
        g = g.detach().cpu().resolve_conj().resolve_neg()
        w = w.detach().resolve_conj().resolve_neg()
        try:
            torch.testing.assert_close(g, w, equal_nan=True, **tolerance)
        except AssertionError as e:
            if reference and (w.is_floating_point() or w.is_complex()):
                try:
                    if _is_no_worse(_tensors(reference())[i], w, g):
                        continue
                except Exception:
                    pass
            return f"[{i}] " + " ".join(str(e).split())[:200]
    return ""


def _tolerance(dtype):
    import torch

    return {
        torch.float32: dict(rtol=2e-4, atol=2e-5),
        torch.bfloat16: dict(rtol=3e-2, atol=3e-2),
        torch.float16: dict(rtol=5e-3, atol=5e-3),
        torch.complex64: dict(rtol=2e-4, atol=2e-5),
        torch.float64: dict(rtol=1e-6, atol=1e-7),
    }.get(dtype, {})


def _gradients(op, sample, device, prepare=None):
    import torch

    prepare = prepare or _to
    others = "cpu" if entry_name(op) in HOST_ARGUMENTS else device
    args = [prepare(device, sample.input), *prepare(others, sample.args)]
    kwargs = prepare(device, sample.kwargs)
    leaves = [t for t in _tensors([*args, *kwargs.values()]) if t.requires_grad]
    outputs = op(*args, **kwargs)
    if sample.output_process_fn_grad is not None:
        outputs = sample.output_process_fn_grad(outputs)
    if entry_name(op) in FREE_ORDER:
        outputs = _canonical(op, sample, outputs)
    outputs = [t for t in _tensors(outputs) if t.requires_grad]
    if not leaves or not outputs:
        return []
    torch.manual_seed(0)
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}  # one stream for all types
    seeds = [torch.randn(t.shape, dtype=narrow.get(t.dtype, t.dtype)).to(t.dtype).to(device) for t in outputs]
    return list(torch.autograd.grad(outputs, leaves, seeds, allow_unused=True))


# Eigenvectors and singular vectors have a free sign or phase, eigenvalues of general matrices no order.
FREE_SIGN = {"linalg.eig", "linalg.eigh", "linalg.svd", "svd"}
FREE_ORDER = {"linalg.eig", "linalg.eigvals"}


def _canonical(op, sample, outputs):
    """The outputs in a form that is unique: OpInfo's own for signs, eigenvalues sorted."""
    name = entry_name(op)
    if name in FREE_SIGN and sample.output_process_fn_grad is not None:
        outputs = sample.output_process_fn_grad(outputs)
    if name not in FREE_ORDER:
        return outputs
    tensors = _tensors(outputs)
    key = (tensors[0].detach().cpu() * 1e3).resolve_conj()
    real, imag = key.real.round(), key.imag.round()  # conjugate pairs have equal real parts but for rounding
    order = imag.argsort(dim=-1, stable=True)
    order = order.gather(-1, real.gather(-1, order).argsort(dim=-1, stable=True)).to(tensors[0].device)
    vectors = [t.gather(-1, order.unsqueeze(-2).expand(t.shape)) for t in tensors[1:]]
    return [tensors[0].gather(-1, order), *vectors]


def entry_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def _check_op(op, dtype, limit):
    """{check: message} over the op's first `limit` samples ('' is ok)."""
    import torch

    results = {}
    differentiable = dtype in (torch.float32, torch.float64, torch.complex64) and op.supports_autograd
    name = entry_name(op)
    tolerance = _tolerance(torch.float32 if name in INEXACT_ON_CPU else dtype)
    torch.manual_seed(0)
    samples = []
    for sample in op.sample_inputs("cpu", dtype, requires_grad=differentiable):
        samples.append(sample)
        if len(samples) == limit:
            break
    for sample in samples:
        try:
            want = op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        random = name in RANDOM or sample.kwargs.get("dropout_p", 0) > 0

        def by_value(i, random=random):
            return not random and ARBITRARY_TIES.get(name) != i

        results.setdefault("forward", "")
        results.setdefault("strides", "")
        try:
            others = "cpu" if name in HOST_ARGUMENTS else "tpu"
            got = op(_to("tpu", sample.input), *_to(others, sample.args), **_to("tpu", sample.kwargs))
            torch.tpu.synchronize()

            def reference(sample=sample):
                outputs = op(_widened(sample.input), *_widened(sample.args), **_widened(sample.kwargs))
                return _canonical(op, sample, outputs)

            message = _compare(
                _canonical(op, sample, want), _canonical(op, sample, got), tolerance, by_value, reference
            )
            layouts = [
                (w.stride(), g.stride())
                for w, g in zip(_tensors(want), _tensors(got))
                if w.layout == torch.strided and g.layout == torch.strided and w.numel() > 1 and w.shape == g.shape
            ]
            for w, g in layouts:
                if w != g and not results["strides"]:
                    results["strides"] = f"{g}, expected {w}"
        except Exception as e:
            message = f"{type(e).__name__}: {' '.join(str(e).split())[:250]}"
        if message:
            results["forward"] = message
            break
        if differentiable:
            try:
                expected = _gradients(op, sample, "cpu")
            except Exception:
                continue
            results.setdefault("gradient", "")
            try:
                message = _compare(
                    expected,
                    _gradients(op, sample, "tpu"),
                    tolerance,
                    lambda i, random=random: not random,
                    lambda sample=sample: _gradients(op, sample, "cpu", lambda _, value: _widened(value)),
                )
            except Exception as e:
                message = f"{type(e).__name__}: {' '.join(str(e).split())[:250]}"
            if message:
                results["gradient"] = message
                break
    return results


def _worker(connection, dtypes, limit):
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    import torch_tpu  # noqa: F401 - registers the device where autoload is off

    torch.set_num_threads(1)
    ops = {entry_name(o): o for o in op_db}
    while True:
        try:
            name = connection.recv()
        except EOFError:  # the sweep is over
            return
        results = {}
        for dtype in dtypes:
            dtype = getattr(torch, dtype)
            if dtype in ops[name].supported_dtypes("cpu"):
                results[str(dtype).removeprefix("torch.")] = _check_op(ops[name], dtype, limit)
        connection.send(results)


class Worker:
    def __init__(self, context, *args):
        self.context, self.args = context, args
        self.start()

    def start(self):
        self.connection, child = self.context.Pipe()
        self.process = self.context.Process(target=_worker, args=(child, *self.args), daemon=True)
        self.process.start()

    def run(self, name, seconds):
        """The op's results, or a message when the worker died or hung."""
        self.connection.send(name)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.connection.poll(0.2):
                try:
                    return self.connection.recv()
                except EOFError:
                    break
            if not self.process.is_alive():
                break
        crashed = not self.process.is_alive()
        self.process.kill()
        self.process.join()
        code = self.process.exitcode
        self.start()
        return f"CRASH (exit code {code})" if crashed else f"HANG (over {seconds} s)"


def op_names():
    from torch.testing._internal.common_methods_invocations import op_db

    return [entry_name(o) for o in op_db]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--ops", default="")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--json")
    args = parser.parse_args()
    index, count = map(int, args.shard.split("/"))
    names = [n for n in op_names() if re.search(args.ops, n)][index::count]
    worker = Worker(multiprocessing.get_context("spawn"), args.dtypes, args.samples)
    table, tally = {}, collections.defaultdict(collections.Counter)
    for name in names:
        table[name] = results = worker.run(name, args.seconds)
        if isinstance(results, str):
            print(f"{name:50s} {results}", flush=True)
            tally["all"]["crash or hang"] += 1
            continue
        for dtype, checks in results.items():
            for check, message in checks.items():
                tally[f"{check} {dtype}"]["ok" if not message else "failed"] += 1
                if message:
                    print(f"{name:50s} {dtype:10s} {check:9s} {message}", flush=True)
    for key, counts in sorted(tally.items()):
        print(key, dict(counts))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(table, f, indent=1)


if __name__ == "__main__":
    main()
