"""The part of the acceptance by libtpu that `make test` runs: one signature an op, float32 and int64, for v6e and v5e.

`make conformance` runs more samples and types, and writes docs/tpu_compile.md.
"""

import pytest
import torch

from tpu_compile import calls, judge
from tpu_compile.compiler import Compiler, libtpu_path
from tpu_compile.recorder import programs_of
from tpu_compile.worker import identify

pytestmark = pytest.mark.skipif(libtpu_path() is None, reason="libtpu is not installed")

SHARDS = 24
NAMES = list(calls.table())


@pytest.fixture(scope="session")
def compilers():
    made = {generation: Compiler(generation) for generation in ("v6e", "v5e")}
    yield made
    for compiler in made.values():
        compiler.close()


@pytest.fixture(scope="session")
def signatures():
    """(lowering, types) that this process has compiled."""
    return set()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_libtpu_compiles(compilers, signatures, shard):
    problems = []
    for name in NAMES[shard::SHARDS]:
        for dtype in (torch.float32, torch.int64):
            for body in calls.bodies(name, dtype, 1):
                for program in programs_of(body):
                    signature = (program["lowering"], *program["types"])
                    if signature in signatures:
                        continue
                    signatures.add(signature)
                    # One of them each: the generations seldom differ in what they refuse.
                    generation = "v5e" if len(signatures) % 4 == 0 else "v6e"
                    problems += _problems(compilers[generation], identify(program, f"{name} {dtype}"))
    assert not problems, "\n".join(problems)


def _problems(compiler, program):
    text = program["text"]
    outcome = compiler.compile(text) if text else {"seconds": 0.0}
    result = {**program, "lowered": bool(text), **outcome}
    message = judge.problem(result)
    return [f"{program['op']} ({program['source']}): {message}"] if message else []


def test_a_refused_program_is_a_problem(compilers):
    negate = '%1 = "stablehlo.negate"(%0) : (tensor<2xi1>) -> tensor<2xi1>'
    text = f"func.func @main(%0: tensor<2xi1>) -> tensor<2xi1> {{ {negate} return %1 : tensor<2xi1> }}"
    program = {"op": "aten::neg", "lowering": "neg", "types": ["bool"], "nbytes": 2, "text": text, "error": ""}
    assert "negate" in _problems(compilers["v6e"], identify(program, "neg bool"))[0]


def test_a_slow_program_is_a_problem():
    result = {
        "lowering": "add.Tensor",
        "types": ["float32"],
        "error": "",
        "lowered": True,
        "seconds": 6.0,
        "nbytes": 100,
    }
    assert judge.problem(result)
    assert not judge.problem({**result, "nbytes": 2 << 20})


def test_only_declared_failures_of_lowering_are_accepted():
    result = {"lowering": "hash_tensor", "types": ["float32"], "seconds": 0.0, "nbytes": 4, "lowered": False}
    (reason,) = {r for d in judge.torch_tpu._C.lowerings() if d["name"] == "hash_tensor" for _, r in d["not_on_tpu"]}
    assert not judge.problem({**result, "error": reason})
    assert judge.problem({**result, "error": "something else"})
    assert judge.problem({**result, "error": reason, "lowered": True})
