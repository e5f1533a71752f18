"""Command line of the acceptance by libtpu; run it with tests/ as the working directory.

    python -m tpu_compile --generations v6e --dtypes float32 --ops '^(add|conv2d)$' --samples 3
    python -m tpu_compile --markdown ../docs/tpu_compile.md      # everything

Ends with status 1 when a program is refused or slow that nothing declares, or a lowering is reached by no call.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import sys

# Before torch is imported: what runs on the CPU instead is a failure.
os.environ.setdefault("TORCH_TPU_FALLBACK", "error")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from . import calls, judge, report
from .compiler import TOPOLOGIES, Compiler, libtpu_path
from .worker import Recorder

DTYPES = ["float32", "bfloat16", "int32", "int64", "bool"]


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m tpu_compile", description=__doc__.splitlines()[0])
    parser.add_argument("--generations", nargs="+", choices=sorted(TOPOLOGIES), default=["v6e"])
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--samples", type=int, default=2, help="of each entry, spread over OpInfo's; 0 for all")
    parser.add_argument("--ops", default="", help="regular expression over OpInfo's names")
    parser.add_argument("--json", type=pathlib.Path, help="results, one a line: appended to, what is there is kept")
    parser.add_argument("--markdown", type=pathlib.Path, help="tables to write")
    parser.add_argument("--only-report", action="store_true", help="compile nothing")
    return parser.parse_args()


def _read(path):
    if path is None or not path.exists():
        return []
    with path.open() as lines:
        return [json.loads(line) for line in lines]


def _compile(args, results):
    """Appends to `results`; what they hold already is not compiled again. Lowerings may share a program."""
    parts = ("seconds", "error", "temporaries", "code")
    outcomes = {(r["generation"], r["hash"]): {k: r[k] for k in parts if k in r} for r in results}
    listed = {(r["generation"], r["lowering"], r["hash"]) for r in results}
    compilers = {g: Compiler(g) for g in args.generations}
    recorder = Recorder()
    output = args.json.open("a") if args.json else None
    for dtype in args.dtypes:
        for name in [n for n in calls.table() if re.search(args.ops, n)]:
            for program in recorder.programs(name, dtype, args.samples):
                text = program.pop("text")
                for generation, compiler in compilers.items():
                    if (generation, program["lowering"], program["hash"]) in listed:
                        continue
                    listed.add((generation, program["lowering"], program["hash"]))
                    key = (generation, program["hash"])
                    if key not in outcomes:
                        outcomes[key] = compiler.compile(text) if text else {"seconds": 0.0, "error": program["error"]}
                    result = {**program, "generation": generation, "lowered": bool(text), **outcomes[key]}
                    results.append(result)
                    if output:
                        print(json.dumps(result), file=output, flush=True)
                    if problem := judge.problem(result):
                        print(f"{generation} {result['source']}: {result['op']}: {problem}", flush=True)
    for worker in (recorder, *compilers.values()):
        worker.close()


def main():
    args = _arguments()
    if libtpu_path() is None:
        sys.exit("libtpu is not installed: pip install --no-deps libtpu==0.0.52")
    results = _read(args.json)
    if not args.only_report:
        _compile(args, results)
    problems = [r for r in results if judge.problem(r)]
    unreached = judge.unreached(results) if not args.ops else []
    if args.markdown:
        args.markdown.write_text(report.page(results))
    print(f"{len(results)} programs, {len(problems)} problems; lowerings that no call reaches: {unreached or 'none'}")
    return 1 if problems or unreached else 0


if __name__ == "__main__":
    sys.exit(main())
