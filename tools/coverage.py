"""Writes docs/coverage.md: every op that the tpu device has, from the table of lowerings and PyTorch's own records.

python tools/coverage.py            # writes the page
python tools/coverage.py --check    # status 1 when the page is not what would be written
"""

from __future__ import annotations

import collections
import importlib.util
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"
sys.path.insert(0, str(ROOT / "tests"))

import aten_calls  # noqa: E402
import extra_calls  # noqa: E402
import torch  # noqa: E402

import torch_tpu  # noqa: E402

_HEADER = """# Ops

Made by `python tools/coverage.py` from the table of lowerings (`csrc/lowering`), the one declaration of each op; a
test fails where it is out of date. {lowerings} lowerings serve {overloads} overloads of {bases} ops. What PyTorch
composes of these needs no entry.

- **overloads**: what is registered with PyTorch. In-place and out forms follow from the functional one.
- **dtypes**: what the CPU claims for the op in PyTorch's OpInfo; [conformance](conformance.md) has the results. Where
  an op has no entry of its own: of the entries that call it. ints: int8 to int64 and uint8; floats: float16, bfloat16,
  float32, float64; complex: complex64, complex128.
- **gradient**: whether PyTorch can differentiate through it.
- **note**: algorithms, limits of TPUs, and differences that the conformance run expects. A call that TPUs cannot serve
  fails with that reason before anything is compiled. [Programs for TPUs](tpu_compile.md) has compilation times.
"""

_COLUMNS = "| op | overloads | dtypes | gradient | note |\n|---|---|---|---|---|"

_GROUPS = {
    "ints": {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64},
    "floats": {torch.float16, torch.bfloat16, torch.float32, torch.float64},
    "complex": {torch.complex64, torch.complex128},
}
_EXTRA_DTYPES = [torch.bool, *(t for group in _GROUPS.values() for t in sorted(group, key=str))]


def base_of(name):
    return name.partition(".")[0]


def dtype_names(dtypes):
    dtypes, names = set(dtypes), []
    if torch.bool in dtypes:
        names.append("bool")
    for group, members in _GROUPS.items():
        names += [group] if members <= dtypes else sorted(str(t)[6:] for t in members & dtypes)
    known = {torch.bool}.union(*_GROUPS.values())
    return ", ".join(names + sorted(str(t)[6:] for t in dtypes - known))


def own_entries():
    """{base name: the OpInfo entries that are named after the op}."""
    found = collections.defaultdict(list)
    for op in aten_calls.entries():
        for name in {op.aten_name or op.name, op.name, op.name.replace(".", "_"), op.name.rpartition(".")[2]}:
            found[name].append(op)
    return found


def claimed_dtypes(base, own, callers):
    """Of its own entries, of those that call it, or of the calls that the tests make up."""
    backward = "backward" in base
    for entries in (own.get(base), callers.get(base)):
        if entries:
            return set().union(*(e.supported_backward_dtypes("cpu") if backward else e.dtypes for e in entries))
    return set().union(*(_accepted(name) for name in extra_calls.NAMES if base_of(name) == base), set())


def _accepted(name):
    """Types that the CPU takes in the tests' own call of a lowering. Without a CPU kernel: floats."""
    overload, dtypes = aten_calls.find_overload(name), set()
    for dtype in _EXTRA_DTYPES:
        try:
            named = extra_calls.arguments(name, overload, "cpu", dtype)
            if not any(t.dtype == dtype for t in aten_calls.tensors(named)):
                continue
            overload(**named)
        except NotImplementedError as e:
            if "backend" not in str(e) or not dtype.is_floating_point:
                continue
        except Exception:
            continue
        dtypes.add(dtype)
    return dtypes


def differentiable_ops():
    """{overload: whether some result has a derivative}, from PyTorch's derivatives.yaml."""
    (folder,) = importlib.util.find_spec("torchgen").submodule_search_locations
    text = (pathlib.Path(folder) / "packaged" / "autograd" / "derivatives.yaml").read_text()
    found = {}
    for block in re.split(r"^- name: ", text, flags=re.MULTILINE)[1:]:
        name = block.partition("(")[0].strip()
        formulas = re.findall(r"^  ([\w, ]+): (.*)$", block, flags=re.MULTILINE)
        flags = [v for k, v in formulas if k == "output_differentiability"]
        inputs = [v for k, v in formulas if k not in ("output_differentiability", "result", "dispatch")]
        found[name] = not (flags and "True" not in flags[0]) and any(
            v not in ("non_differentiable",) and not v.startswith("not_implemented") for v in inputs
        )
    return found


def gradient(base, names, own, derivatives):
    if base.startswith("_foreach_"):
        return "as the plain op"
    known = [derivatives[n] for n in names if n in derivatives]
    if base in own and not any(e.supports_autograd for e in own[base]):
        return "no"
    if known:
        return "yes" if any(known) else "no"
    return "yes" if base in own else "no"


def expectations():
    """{OpInfo name: reasons} of what the conformance run expects to differ."""
    path, found = ROOT / "tests" / "conformance" / "expectations.json", collections.defaultdict(list)
    for group in json.loads(path.read_text()) if path.exists() else []:
        if group["kind"] == "op":
            for name in group["entries"]:
                found[name].append(group["reason"])
    return found


def notes(lowerings, entries, expected):
    found = []
    for lowering in lowerings:
        found.append(lowering["note"])
        for types, reason in lowering["not_on_tpu"]:
            found.append(f"not on TPU for {', '.join(types)}: {reason}")
    for entry in entries:
        name = f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name
        found += expected.get(name, [])
    return "; ".join(dict.fromkeys(n for n in found if n)).replace("|", "\\|")


def bridge_overloads(lowerings):
    """Kernels for the device that are no lowerings: views, copies, factories, data-dependent shapes."""
    lowered = {o for d in lowerings for o in d["overloads"]}
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    names = {n.removeprefix("aten::") for n in registered if n.startswith("aten::")}
    return sorted(names - lowered)


def page():
    lowerings = torch_tpu._C.lowerings()
    own, callers, derivatives, expected = own_entries(), aten_calls.callers(), differentiable_ops(), expectations()
    groups = collections.defaultdict(list)
    for lowering in lowerings:
        groups[base_of(lowering["name"])].append(lowering)
    counts = {"lowerings": len(lowerings), "overloads": sum(len(d["overloads"]) for d in lowerings)}
    lines = [
        _HEADER.format(**counts, bases=len(groups)),
        _COLUMNS,
    ]
    for base, members in sorted(groups.items(), key=lambda item: (item[0].strip("_"), item[0])):
        overloads = [o for m in members for o in m["overloads"]]
        cells = [
            f"`{base}`",
            " ".join(f"`{o}`" for o in overloads),
            dtype_names(claimed_dtypes(base, own, callers)),
            gradient(base, [m["name"] for m in members], own, derivatives),
            notes(members, own.get(base, []), expected),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    bridge = bridge_overloads(lowerings)
    lines += [
        "",
        "## Without a lowering",
        "",
        f"{len(bridge)} overloads have kernels in `csrc/aten`: views and storage, copies, factories, shapes that "
        "depend on data, and compositions of lowerings.",
        "",
        ", ".join(f"`{name}`" for name in bridge),
        "",
    ]
    return "\n".join(lines)


def main():
    text = page()
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print(f"{PAGE} is out of date: run python tools/coverage.py")
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
