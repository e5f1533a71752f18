"""Cost of small eager calls: torch_tpu (strict, and fused as `fused`) against PyTorch's CPU device and JAX, in one run.

python benchmarks/dispatch.py --json dispatch.json
"""

import argparse
import importlib.util
import os
import time
import timeit
from dataclasses import dataclass

import torch
from common import compile_count, is_available, print_table, synchronize, write_json


@dataclass
class Case:
    name: str
    torch: str
    jax: str
    calls: int = 500


# JAX arrays are immutable, so its column has the expression that gives the same values.
CASES = [
    Case("x + y, 8x8", "x + y", "x + y"),
    Case("x.add_(y), 8x8", "x.add_(y)", "x + y"),
    Case("x * 0.37, 8x8", "x * 0.37", "x * 0.37"),
    Case("a.mm(b), 64x64", "a.mm(b)", "a @ b"),
    Case("x.view(64)", "x.view(64)", "x.reshape(64)"),
    Case("c.add_(1), 8x8", "c.add_(1)", "c + 1"),
    Case("c[1:3].add_(1)", "c[1:3].add_(1)", "c.at[1:3].add(1)"),
    Case("x.sum().item()", "x.sum().item()", "x.sum().item()"),
    Case("chain of 40 ops", "chain(x, y)", "chain(x, y)", calls=25),
    Case("chain and a read", "chain(x, y)[0, 0].item()", "chain(x, y)[0, 0].item()", calls=25),
]


class Torch:
    def __init__(self, name):
        self.name = name
        self.mode = {"tpu": "STRICT", "fused": "FUSED"}.get(name)
        self.device = torch.device("tpu" if self.mode else name)
        generator = torch.Generator().manual_seed(0)
        self.names = {
            key: torch.randn(size, size, generator=generator).to(self.device)
            for key, size in {"x": 8, "y": 8, "c": 8, "a": 64, "b": 64}.items()
        }
        self.names["chain"] = lambda x, y: chain(x, y, torch.tanh)
        self.names["out"] = [None]

    def statement(self, case):
        return case.torch

    def prepare(self):
        if self.mode:
            torch.tpu.set_eager_mode(torch.tpu.EagerMode[self.mode])

    def finish(self):
        synchronize(self.device)

    def compiles(self):
        return compile_count(self.device)


class Jax:
    name = "jax"

    def __init__(self):
        # A TPU belongs to one client of a process, so JAX stays on the host unless it is told otherwise.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax

        self.jax = jax
        keys = jax.random.split(jax.random.key(0), 5)
        self.names = {
            name: jax.random.normal(key, (size, size))
            for key, (name, size) in zip(keys, {"x": 8, "y": 8, "c": 8, "a": 64, "b": 64}.items(), strict=True)
        }
        self.names["chain"] = lambda x, y: chain(x, y, jax.numpy.tanh)
        self.names["out"] = [None]

    def statement(self, case):
        return case.jax

    def prepare(self):
        pass

    def finish(self):
        self.jax.block_until_ready(self.names["out"])

    def compiles(self):
        return 0


def chain(x, y, tanh):
    """40 dependent pointwise operations."""
    for _ in range(10):
        x = tanh(x * 0.9 + y) - 0.1
    return x


def measure(backend, case):
    """(dispatch, wall) in µs a call: until Python has issued all calls, and until the device has finished them."""
    backend.prepare()
    backend.finish()
    loop = timeit.Timer(f"out[0] = {backend.statement(case)}", globals=backend.names)
    started = time.perf_counter()
    dispatch = loop.timeit(case.calls)
    backend.finish()
    wall = time.perf_counter() - started
    return dispatch / case.calls * 1e6, wall / case.calls * 1e6


def run(backends, repeats):
    """Best of `repeats` for every case; the backends take turns, so that they see the same load on the machine."""
    results = []
    for case in CASES:
        for backend in backends:
            measure(backend, case)  # compiles, and warms up caches and allocators
        before = {backend.name: backend.compiles() for backend in backends}
        samples = {backend.name: [] for backend in backends}
        for _ in range(repeats):
            for backend in backends:
                samples[backend.name].append(measure(backend, case))
        result = {"case": case.name, "calls": case.calls}
        for backend in backends:
            dispatch, wall = (min(values) for values in zip(*samples[backend.name], strict=True))
            compiles = backend.compiles() - before[backend.name]
            result[backend.name] = {"dispatch_us": dispatch, "wall_us": wall, "compiles_while_timing": compiles}
        results.append(result)
    return results


def print_results(results, names):
    """Dispatch and wall time of each device (one figure for cpu, which is synchronous); ratios are of wall times."""
    columns, getters = ["µs a call"], [lambda result: result["case"]]
    for name in names:
        for figure in ("wall",) if name == "cpu" else ("dispatch", "wall"):
            columns.append(name if name == "cpu" else f"{name} {figure}")
            getters.append(lambda result, name=name, figure=figure: result[name][f"{figure}_us"])
    for peer in names[1:]:
        columns.append(f"{names[0]}/{peer}")
        getters.append(lambda result, peer=peer: result[names[0]]["wall_us"] / result[peer]["wall_us"])
    print_table("Eager calls", columns, [[get(result) for get in getters] for result in results])
    compiles = sum(result[name]["compiles_while_timing"] for result in results for name in names)
    print(f"programs compiled while timing: {compiles}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    installed = ["tpu", "fused", "cpu"] if is_available("tpu") else ["cpu"]
    installed += ["jax"] if importlib.util.find_spec("jax") else []
    parser.add_argument(
        "--device",
        nargs="+",
        default=installed,
        help="tpu, fused, cpu, jax, ...; ratios are of the first to the others",
    )
    parser.add_argument("--repeats", type=int, default=7, help="the best one counts")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    for name in args.device:
        if name not in installed and (name == "jax" or not is_available(name)):
            parser.error(f"{name} is not available here")
    results = run([Jax() if name == "jax" else Torch(name) for name in args.device], args.repeats)
    print_results(results, args.device)
    if args.json:
        write_json(args.json, {"repeats": args.repeats, "results": results})


if __name__ == "__main__":
    main()
