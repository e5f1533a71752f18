"""docs/tpu_compile.md."""

from __future__ import annotations

import collections

from . import judge

_HEADER = """# Programs for TPUs

Made by `python -m tpu_compile --markdown ../docs/tpu_compile.md` in `tests/`, which `make conformance` runs. The
program of each lowering, for the calls of PyTorch's OpInfo samples as they reach it, is compiled ahead of time by
libtpu {libtpu} for TPUs that are not there. The limit is {limit:.0f} s for arguments under 1 MiB; larger ones may take
longer. Declared impossible: the call fails with that reason before anything is compiled.
"""


def _table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _dtype(result):
    return result["source"].rpartition(" ")[2]


def _summary(results):
    groups = collections.defaultdict(list)
    for r in results:
        groups[r["generation"], _dtype(r)].append(r)
    for (generation, dtype), rs in sorted(groups.items()):
        compiled = [r for r in rs if not r["error"]]
        times = sorted(r["seconds"] for r in compiled) or [0.0]
        yield [
            generation,
            dtype,
            len({r["lowering"] for r in rs}),
            len(rs),
            len(compiled),
            sum(map(judge.declared, rs)),
            sum(bool(r["error"]) and not judge.declared(r) for r in rs),
            sum(map(judge.slow, compiled)),
            f"{times[len(times) // 2]:.2f}",
            f"{times[-1]:.1f}",
        ]


def _by_lowering(results):
    """Each lowering's worst program of each kind of argument."""
    groups = collections.defaultdict(list)
    for r in results:
        groups[r["lowering"], r["generation"], _dtype(r)].append(r)
    for (lowering, generation, dtype), rs in sorted(groups.items()):
        errors = sorted({r["error"] for r in rs if r["error"]})
        seconds, temporaries = max(r["seconds"] for r in rs), max(r.get("temporaries", 0) for r in rs)
        yield [f"`{lowering}`", generation, dtype, len(rs), f"{seconds:.2f}", temporaries, "; ".join(errors)[:200]]


def page(results):
    import importlib.metadata

    results = [r for r in results if not r["lowering"].startswith("tpu.")]
    slow = sorted((r for r in results if r["seconds"] > judge.LIMIT_SECONDS), key=lambda r: -r["seconds"])
    parts = [_HEADER.format(libtpu=importlib.metadata.version("libtpu"), limit=judge.LIMIT_SECONDS)]
    columns = ["TPU", "dtype", "lowerings", "programs", "compiled", "declared impossible", "refused", "over the limit"]
    parts.append(_table([*columns, "median s", "longest s"], _summary(results)))
    parts.append("## Longer than the limit\n")
    rows = [[f"`{r['lowering']}`", r["generation"], r["source"], r["nbytes"], f"{r['seconds']:.1f}"] for r in slow]
    parts.append(_table(["lowering", "TPU", "sample", "bytes of arguments", "seconds"], rows) if rows else "None.\n")
    parts.append("## Each lowering\n\nThe longest compilation and the most temporary memory of its programs.\n")
    header = ["lowering", "TPU", "sample dtype", "programs", "seconds", "temporary bytes", "error"]
    parts.append(_table(header, _by_lowering(results)))
    return "\n".join(parts)
