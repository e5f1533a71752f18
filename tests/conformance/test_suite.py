"""The suite itself: it finds differences, keeps crashes and hangs apart, and holds expectations to what happens."""

import json

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from conformance import catalog, checks_op, checks_write, compare, expectations, runner, samples
from conformance.outcome import Tally

ADD = next(op for op in op_db if op.full_name == "add")


@pytest.fixture
def worker():
    made = runner.Worker(limit=1, seconds=3, source="conformance.faulty_checks")
    yield made
    made.stop()


@pytest.mark.parametrize(
    "group, message", [("crash", "exit code -11"), ("hang", "HANG: over 3 s"), ("fault", "HARNESS ValueError")]
)
def test_one_groups_end_is_not_the_others(worker, group, message):
    results = worker.run("unit", ["pass 1", group, "pass 2", "fail"])
    assert not results["pass 1"].failed and not results["pass 2"].failed
    assert message in results[group].message and results[group].failed
    assert results["fail"].message == "unit failed"


def test_every_task_is_answered_by_several_workers(monkeypatch):
    monkeypatch.setattr(runner.Worker.__init__, "__defaults__", ("conformance.faulty_checks",))
    tasks = [(i, ["pass", "crash"] if i == 3 else ["pass"]) for i in range(7)]
    found = dict(runner.run_all(tasks, jobs=2, limit=1, seconds=30))
    assert sorted(found) == list(range(7))
    assert [i for i, results in found.items() if any(t.failed for t in results.values())] == [3]


@pytest.mark.parametrize(
    "actual, message",
    [
        (torch.ones(2, 3), ""),
        (torch.ones(2, 3, dtype=torch.float64), "float64[2, 3], expected float32[2, 3]"),
        (torch.ones(3, 2), "float32[3, 2], expected float32[2, 3]"),
        (torch.ones(2, 3) + 1e-3, "not close"),
        (torch.full((2, 3), torch.nan), "not close"),
        ([torch.ones(2, 3)] * 2, "2 tensors, expected 1"),
        (1.0, "0 tensors, expected 1"),
    ],
)
def test_differences_are_found(actual, message):
    found = compare.difference(torch.ones(2, 3), actual)
    assert message in found and bool(message) == bool(found)


def test_wider_arithmetic_excuses_what_is_as_good_as_the_cpu():
    exact, cpu = torch.full((4,), 1.0, dtype=torch.float64), torch.full((4,), 1.01)
    assert compare.difference(cpu, torch.full((4,), 0.99), reference=lambda: exact) == ""
    assert compare.difference(cpu, torch.full((4,), 0.97), reference=lambda: exact) != ""


def test_strides_are_compared():
    assert compare.stride_difference(torch.ones(2, 3), torch.ones(3, 2).T) == "[0] strides (1, 2), expected (3, 1)"
    assert compare.stride_difference(torch.ones(2, 3), torch.ones(2, 3)) == ""


def test_copies_are_the_same_views():
    base = torch.arange(12.0)
    first, second = base[2::2], base.view(3, 4).T
    moved = samples.Copier("tpu")([first, {"x": second}, first])
    assert moved[0].stride() == (2,) and moved[0].storage_offset() == 2 and moved[0] is moved[2]
    assert moved[1]["x"].untyped_storage().data_ptr() == moved[0].untyped_storage().data_ptr()
    assert torch.equal(moved[1]["x"].cpu(), second)


@pytest.mark.parametrize(
    "check, groups",
    [(checks_op.forward, ["forward"]), (checks_op.gradient, ["gradient"]), (checks_write.out, ["out"])],
)
def test_checks_fail_for_a_wrong_op(monkeypatch, check, groups):
    few = samples.samples_of(ADD, torch.float32, 2, requires_grad=True)
    assert not any(check(ADD, torch.float32, few)[g].failed for g in groups)

    def wrong(x, *args, **kwargs):
        return torch.add(x * 2 if x.device.type == "tpu" else x, *args, **kwargs)

    monkeypatch.setattr(ADD, "op", wrong)
    assert all(check(ADD, torch.float32, few)[g].failed for g in groups)


def test_expectations_are_held_to(tmp_path):
    file = tmp_path / "expectations.json"
    file.write_text(json.dumps([{"reason": "r", "kind": "op", "entries": {"add": {"out": ["int64", "bool"]}}}]))
    known = expectations.load(file)
    results = {
        ("op", "add", "int64", "out"): Tally(1, 1, "listed"),
        ("op", "add", "bool", "out"): Tally(2, 0),
        ("op", "add", "float32", "out"): Tally(0, 1, "new"),
    }
    failures, passes = expectations.judge(results, known)
    assert failures == {("op", "add", "float32", "out"): "new"}
    assert list(passes) == [("op", "add", "bool", "out")]


def test_a_changed_dispatcher_is_told(monkeypatch):
    key, name = torch._C.DispatchKey.FuncTorchDynamicLayerBackMode, "forward mode"

    def check(op, dtype, samples):
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, True)
        return {name: Tally(1, 0)}

    monkeypatch.setitem(catalog._OP_CHECKS, name, check)
    unit = next(u for u in catalog.units(["op"]) if (u.name, u.dtype) == ("add", "float32"))
    try:
        *_, (_, results) = catalog.run(unit, [name], 1)
    finally:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
    assert results[name].failed and "dispatcher" in results[name].message
