"""Memory of minGPT's training step by eager mode, and what a thousand steps add.

python benchmarks/memory.py --json memory.json
"""

import argparse
import gc

import torch
from common import print_table, write_json
from training import MODELS, Training, add_sizes


def resident_megabytes():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096 / 1e6


def measure(mode, args):
    training = Training(MODELS["mingpt"], mode, args)
    for _ in range(5):
        training.step()
    gc.collect()
    torch.tpu.reset_peak_memory_stats()
    training.step()
    result = {"peak_mb": torch.tpu.max_memory_allocated() / 1e6}
    result["allocated_mb"] = torch.tpu.memory_allocated() / 1e6
    resident = resident_megabytes()
    for _ in range(args.steps):
        training.step()
    gc.collect()
    result["allocated_after_mb"] = torch.tpu.memory_allocated() / 1e6
    result["resident_mb"], result["resident_after_mb"] = resident, resident_megabytes()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    add_sizes(parser, layers=2, heads=4, width=64, batch=4, context=32)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    results = {mode: measure(mode, args) for mode in ("strict", "fused")}
    columns = ["mode", "peak MB", "live MB", f"after {args.steps}", "resident MB", f"after {args.steps} "]
    print_table("Memory", columns, [[mode, *r.values()] for mode, r in results.items()])
    if args.json:
        write_json(args.json, {"arguments": vars(args), "results": results})


if __name__ == "__main__":
    main()
