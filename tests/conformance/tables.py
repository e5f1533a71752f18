"""docs/conformance.md: how much passes, for each check and dtype, and what does not, with reasons."""

from __future__ import annotations

import collections

from .catalog import ANY

_INTRODUCTION = """# Conformance

Written by `make conformance`: PyTorch's own descriptions of its operators (OpInfo), modules and optimizers, run on the
tpu device (XLA's CPU plugin) and compared with the CPU, with CPU fallback as an error. A cell is entries that pass /
entries that CPU claims for the dtype; an entry passes when all of its samples do. {run}

- *strides*: of results, in samples. *noncontiguous*: the same samples as strided views.
- *out*: given tensors of the right shape, strided, of a wrong shape, empty, of another dtype, of another device.
- *lazy views*: inputs with a conjugation or negation bit. *gradcheck*: numerical first and second derivatives.
- *error inputs*: the CPU's exception type.
- Random and empty-memory entries are compared by dtype, shape and strides; `tests/python/aten/test_random.py` tests
  distributions.
"""

_TITLES = {
    "op": "Operators",
    "foreach": "Foreach operators",
    "autocast": "Autocast lists",
    "module": "Modules",
    "optimizer": "Optimizers",
}

# Columns that count samples, not entries.
_BY_SAMPLE = ("strides", "noncontiguous strides")


def cells(results):
    """{kind: {check: {dtype: [passed, all]}}} of {(kind, name, dtype, check): tally}."""
    table = collections.defaultdict(lambda: collections.defaultdict(dict))
    for (kind, _, dtype, check), tally in results.items():
        cell = table[kind][check].setdefault(dtype, [0, 0])
        if check in _BY_SAMPLE:
            cell[0] += tally.passed
            cell[1] += tally.passed + tally.failed
        else:
            cell[0] += not tally.failed
            cell[1] += 1
    return table


def _cell(cell):
    if cell is None:
        return "-"
    passed, count = cell
    percent = 100 * passed / count
    return f"{passed}/{count}" + ("" if passed == count else f" ({percent:.1f}%)")


def text(results):
    """The tables as plain text, for the terminal."""
    lines = []
    for kind, checks in cells(results).items():
        for check, dtypes in checks.items():
            parts = "  ".join(f"{d} {_cell(c)}" for d, c in dtypes.items())
            lines.append(f"{kind:10s} {check:22s} {parts}")
    return "\n".join(lines)


def markdown(results, known, dtypes, run):
    parts = [_INTRODUCTION.format(run=run)]
    for kind, checks in cells(results).items():
        columns = [d for d in (*dtypes, ANY) if any(d in row for row in checks.values())]
        parts.append(f"## {_TITLES[kind]}\n")
        parts.append(f"| check | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
        for check, row in checks.items():
            parts.append(f"| {check} | {' | '.join(_cell(row.get(d)) for d in columns)} |")
        parts.append("")
    parts.append("## What does not pass\n")
    parts += _failures(results, known)
    return "\n".join(parts) + "\n"


def _failures(results, known):
    """One line for each entry and check, under the reason it is listed with."""
    by_reason = collections.defaultdict(lambda: collections.defaultdict(list))
    messages = {}
    for (kind, name, dtype, check), tally in results.items():
        if tally.failed:
            reason = known.get((kind, name, dtype, check), "Not listed in expectations.json")
            by_reason[reason][kind, name, check].append(dtype)
            messages[kind, name, check] = tally.message
    if not by_reason:
        yield "Everything passes."
    for reason, entries in sorted(by_reason.items()):
        yield f"**{reason}**\n"
        for (kind, name, check), dtypes in sorted(entries.items()):
            message = messages[kind, name, check].replace("|", "\\|").replace("`", "'")[:110]
            yield f"- {kind} `{name}`, {check} ({', '.join(dtypes)}): {message}"
        yield ""
