"""The part of the conformance suite that `make test` runs: every entry, few samples, float32 and one more dtype.

`make conformance` runs all of it. What expectations.json lists may pass here, where fewer samples run, but not there.
"""

import zlib

import pytest

from conformance import catalog, expectations, runner

# Of these, each entry takes one by its name: together they cover every dtype.
ROTATION = ("float64", "bfloat16", "float16", "int64", "int32", "bool", "complex64")

# Of the second dtype; of float32, all that apply.
OTHER_GROUPS = ("forward", "gradient", "out", "autocast", "module", "optimizer")

KNOWN = expectations.load()


def slices():
    """{(kind, name): [(unit, groups)]}"""
    found = {}
    for unit in catalog.units(dtypes=("float32", *ROTATION)):
        found.setdefault((unit.kind, unit.name), []).append(unit)
    for (kind, name), units in found.items():
        fixed = [u for u in units if u.dtype in ("float32", catalog.ANY)]
        others = [u for u in units if u not in fixed]
        turn = zlib.crc32(name.encode())
        if kind == "op" and others:
            fixed.append(others[turn % len(others)])
        elif not fixed:
            fixed = [others[turn % len(others)]]
        tasks = [(u, catalog.groups_of(u, OTHER_GROUPS if u.dtype in ROTATION else None)) for u in fixed]
        found[kind, name] = [(unit, groups) for unit, groups in tasks if groups]
    return found


SLICES = slices()


@pytest.fixture(scope="session")
def worker():
    made = runner.Worker(limit=1, seconds=120)
    yield made
    made.stop()


@pytest.mark.parametrize("entry", SLICES, ids=lambda e: f"{e[0]}-{e[1]}")
def test_conforms(worker, entry):
    results = {}
    for unit, groups in SLICES[entry]:
        results |= {(*unit, check): tally for check, tally in worker.run(unit, groups).items()}
    failures, _ = expectations.judge(results, KNOWN)
    assert not failures, "\n".join(f"{' '.join(key)}: {message}" for key, message in failures.items())


def test_expectations_name_what_exists():
    for kind, name, dtype, _ in KNOWN:
        assert name in catalog.entries(kind), f"{kind} {name} is no entry"
        assert dtype == catalog.ANY or dtype in catalog.DTYPES, f"{dtype} has no column"
