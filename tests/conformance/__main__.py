"""Command line of the conformance suite; run it with tests/ as the working directory.

    python -m conformance --kinds op --dtypes float32 int64 --ops '^(add|sub)$' --groups forward out
    python -m conformance --jobs 8 --markdown ../docs/conformance.md      # everything

Ends with status 1 when a check fails that expectations.json does not list, or passes although it is listed
and enough samples ran.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys
import time

# Before torch is imported: what runs on the CPU instead is a failure.
os.environ.setdefault("TORCH_TPU_FALLBACK", "error")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from . import catalog, expectations, runner, tables
from .outcome import Tally

# Samples of an entry. The one that a listed check fails with may not be among fewer.
ENOUGH = 6


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=catalog.KINDS, default=catalog.KINDS)
    parser.add_argument("--dtypes", nargs="+", default=catalog.DTYPES)
    parser.add_argument("--groups", nargs="+", help=f"of {sorted({g for gs in catalog.GROUPS.values() for g in gs})}")
    parser.add_argument("--ops", default="", help="regular expression over names")
    parser.add_argument("--samples", type=int, default=ENOUGH, help="of each entry, spread over OpInfo's; 0 for all")
    parser.add_argument("--shard", default="0/1", help="I/N: every Nth entry, from the Ith")
    parser.add_argument("--jobs", type=int, default=runner.default_jobs())
    parser.add_argument("--seconds", type=float, default=300, help="without progress until a worker is given up")
    parser.add_argument("--json", type=pathlib.Path, help="results to write, for --merge")
    parser.add_argument("--merge", type=pathlib.Path, nargs="+", default=[], help="results of earlier runs")
    parser.add_argument("--only-merge", action="store_true", help="run nothing")
    parser.add_argument("--markdown", type=pathlib.Path, help="tables to write")
    return parser.parse_args()


def _tasks(args):
    index, count = map(int, args.shard.split("/"))
    names = {}
    for unit in catalog.units(args.kinds, args.dtypes):
        position = names.setdefault((unit.kind, unit.name), len(names))
        if position % count != index or not re.search(args.ops, unit.name):
            continue
        groups = catalog.groups_of(unit, args.groups)
        if groups:
            yield unit, groups


def read(path):
    return {tuple(key.split("|")): Tally(*value) for key, value in json.loads(path.read_text()).items()}


def write(path, results):
    rows = {"|".join(key): [t.passed, t.failed, t.message] for key, t in results.items()}
    path.write_text(json.dumps(rows, indent=0) + "\n")


def main():
    args = _arguments()
    began = time.monotonic()
    results = {}
    for path in args.merge:
        results.update(read(path))
    known = expectations.load()
    ran = {}
    tasks = [] if args.only_merge else list(_tasks(args))
    for done, (unit, found) in enumerate(runner.run_all(tasks, args.jobs, args.samples, args.seconds), 1):
        for check, tally in found.items():
            key = (*unit, check)
            ran[key] = tally
            if tally.failed and key not in known:
                print(f"{unit.kind} {unit.name} {unit.dtype} {check}: {tally.message}", flush=True)
        if args.json and done % 50 == 0:
            write(args.json, ran)
    results.update(ran)
    order = {key: i for i, key in enumerate(catalog.units(catalog.KINDS, args.dtypes))}
    results = dict(sorted(results.items(), key=lambda item: order.get(catalog.Unit(*item[0][:3]), len(order))))
    if args.json:
        write(args.json, results)
    print(tables.text(results))
    if args.markdown:
        run = f"{args.samples or 'All'} samples of each entry at most, spread over OpInfo's list."
        args.markdown.write_text(tables.markdown(results, known, args.dtypes, run))
    failures, passes = expectations.judge(ran or results, known)
    if 0 < args.samples < ENOUGH:
        passes = {}
    for key, reason in passes.items():
        print(f"PASSES, but is listed: {' '.join(key)}: {reason}")
    print(f"{len(failures)} unexpected failures, {len(passes)} unexpected passes, {time.monotonic() - began:.0f} s")
    sys.exit(bool(failures or passes))


if __name__ == "__main__":
    main()
