"""Ten steps of minGPT in a fresh process: with an empty program cache, and with the one that such a process left.

python benchmarks/cold_start.py --json cold_start.json

Seconds count from the first batch, after the import, the model and its move to the device. `two at once`: two processes
that start together on an empty cache, and the programs that both compiled. `jax` traces, exports and compiles the same
training written in JAX (jax_models.py), for which there is no cache.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
from common import print_table, write_json
from training import EAGER_MODES, MODELS, SIZES, add_sizes, has_jax, train

STEPS = 10


def measure(args):
    """In the child: seconds to the end of the first and of the tenth step, and what was compiled."""
    training = train(args.model, args.child, args)
    for _ in range(STEPS):
        training.step()
    before = getattr(training, "export_seconds", 0)
    metrics = torch.tpu.metrics() if args.child in EAGER_MODES else {}
    keys = ("compiles", "cache_hits_disk", "compile_seconds", "cache_load_seconds", "lowering_seconds")
    return {
        "first_s": before + training.seconds[0],
        "ten_s": before + sum(training.seconds),
        **{key: metrics.get(key) for key in keys},
    }


def start(place, cache, arguments):
    environment = {**os.environ, "TORCH_TPU_CACHE_DIR": cache}
    command = [sys.executable, __file__, *arguments, "--child", place]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finish(process):
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args} ended with {process.returncode}")
    return json.loads(output.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="+", default=[*EAGER_MODES, "cpu", *(["jax"] if has_jax() else [])])
    parser.add_argument("--model", choices=MODELS, default="mingpt")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    add_sizes(parser)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args)))
        return

    arguments = ["--model", args.model]
    for name in SIZES:
        arguments += ["--" + name.replace("_", "-"), str(getattr(args, name))]
    rows, results = [], {}
    for place in args.device:
        with tempfile.TemporaryDirectory() as cache:
            runs = {"cold": finish(start(place, cache, arguments))}
            if place in EAGER_MODES:
                runs["warm disk"] = finish(start(place, cache, arguments))
        if place in EAGER_MODES:
            with tempfile.TemporaryDirectory() as cache:
                pair = [finish(process) for process in [start(place, cache, arguments) for _ in range(2)]]
            runs["two at once"] = {
                key: None if pair[0][key] is None else (max if key.endswith("_s") else sum)(run[key] for run in pair)
                for key in pair[0]
            }
        results[place] = runs
        for name, run in runs.items():
            rows.append([f"{place}, {name}", run["first_s"], run["ten_s"], run["compiles"], run["cache_hits_disk"]])
    print_table("Ten steps", ["run", "first step s", "ten steps s", "compiles", "from disk"], rows)
    if args.json:
        write_json(args.json, {"arguments": vars(args), "results": results})


if __name__ == "__main__":
    main()
