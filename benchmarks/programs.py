"""The slow programs of a strict training step: time of each against its arithmetic and its memory traffic.

python benchmarks/programs.py --model mingpt --json programs.json

Each program that the step compiles runs alone, on ones, in run_stablehlo: best of `--repeats` runs. GFLOP/s and GB/s
are XLA's counts over that time; a program far below the others in both wants another form.
"""

import argparse
import re

import numpy as np
from common import MLIR_TYPES, StableHloProgram, print_table, write_json
from training import MODELS, Training, add_sizes

import torch_tpu

NUMPY_TYPES = {mlir: numpy for numpy, mlir in MLIR_TYPES.items()}


def recorded_programs(args):
    """(op, module text) of the programs of two steps: the second has those of an optimizer that has its state."""
    torch_tpu._C.set_module_recording(True)
    try:
        training = Training(MODELS[args.model], "strict", args)
        torch_tpu._C.take_recorded_modules()
        for _ in range(2):
            training.step()
        return torch_tpu._C.take_recorded_modules()
    finally:
        torch_tpu._C.set_module_recording(False)


def arguments(text):
    """Arrays of ones (zeros for integers, which are indices) for @main; None where a type is not a plain one."""
    signature = re.search(r"func\.func (?:public )?@main\((.*?)\) ->", text, re.S).group(1)
    arrays = []
    for shape in re.findall(r"tensor<([^>]*)>", signature):
        *dims, kind = shape.split("x")
        if kind not in NUMPY_TYPES:
            return None
        make = np.ones if kind.startswith("f") else np.zeros
        arrays.append(make([int(d) for d in dims], NUMPY_TYPES[kind]))
    return arrays


def measure(op, text, repeats):
    # Nothing is fed back here, so nothing may be donated.
    text = re.sub(r" ?\{tf\.aliasing_output = \d+ : i32\}", "", text)
    arrays = arguments(text)
    if arrays is None:
        return None
    program = StableHloProgram(text, arrays, options=torch_tpu._C.compile_options())
    seconds = min(program.run()[0] for _ in range(repeats))
    program.close()
    shapes = " ".join("x".join(map(str, array.shape)) for array in arrays if array.dtype.kind == "f")
    return {"op": op, "arguments": shapes, "seconds": seconds, "flops": program.flops, "bytes": program.bytes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="mingpt")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--top", type=int, default=30, help="programs in the table (default %(default)s)")
    parser.add_argument("--json", metavar="FILE")
    add_sizes(parser)
    args = parser.parse_args()

    measured = [measure(op, text, args.repeats) for op, text in recorded_programs(args)]
    results = sorted((r for r in measured if r), key=lambda r: -r["seconds"])
    rows = []
    for r in results[: args.top]:
        rates = [r[key] / r["seconds"] * 1e-9 for key in ("flops", "bytes")]
        rows.append([f"{r['op']} {r['arguments']}"[:44], r["seconds"] * 1e6, *rates])
    print_table(f"Programs of a strict step of {args.model}", ["program", "µs", "GFLOP/s", "GB/s"], rows)
    if args.json:
        write_json(args.json, {"arguments": vars(args), "results": results})


if __name__ == "__main__":
    main()
