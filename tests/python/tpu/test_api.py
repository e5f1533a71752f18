"""Public names: all of them exist, use does not warn, and their signatures change on purpose only."""

import inspect
import warnings

import torch
from harness import run_python

# name -> signature; None for what has none. A change here is a change of the public interface: see docs/api.md.
SNAPSHOT = {
    "EagerMode": None,
    "Event": None,
    "Precision": None,
    "Stream": None,
    "allow_excess_precision": None,
    "can_device_access_peer": "(device, peer_device) -> 'bool'",
    "current_device": "() -> 'int'",
    "current_stream": "(device=None) -> 'Stream'",
    "default_generators": None,
    "default_stream": "(device=None) -> 'Stream'",
    "device": "(device)",
    "device_count": "() -> 'int'",
    "device_of": "(obj)",
    "eager_mode": None,
    "empty_cache": "() -> 'None'",
    "get_amp_supported_dtype": "() -> 'list[torch.dtype]'",
    "get_device_capability": "(device=None) -> 'tuple[int, int]'",
    "get_device_name": "(device=None) -> 'str'",
    "get_device_properties": "(device=None) -> 'DeviceProperties'",
    "get_rng_state": "(device='tpu') -> 'torch.Tensor'",
    "get_rng_state_all": "() -> 'list[torch.Tensor]'",
    "init": "() -> 'None'",
    "initial_seed": "() -> 'int'",
    "is_available": "() -> 'bool'",
    "is_bf16_supported": "(including_emulation: 'bool' = True) -> 'bool'",
    "is_initialized": "() -> 'bool'",
    "manual_seed": "(seed: 'int') -> 'None'",
    "manual_seed_all": "(seed: 'int') -> 'None'",
    "max_memory_allocated": "(device=None) -> 'int'",
    "max_memory_reserved": "(device=None) -> 'int'",
    "mem_get_info": "(device=None) -> 'tuple[int, int]'",
    "memory_allocated": "(device=None) -> 'int'",
    "memory_reserved": "(device=None) -> 'int'",
    "memory_stats": "(device=None) -> 'dict[str, int]'",
    "memory_summary": "(device=None, abbreviated: 'bool' = False) -> 'str'",
    "metrics": "() -> 'dict'",
    "precision": "(mode: 'Precision')",
    "reset_accumulated_memory_stats": "(device=None) -> 'None'",
    "reset_metrics": "() -> 'None'",
    "reset_peak_memory_stats": "(device=None) -> 'None'",
    "seed": "() -> 'None'",
    "seed_all": "() -> 'None'",
    "set_device": "(device) -> 'None'",
    "set_eager_mode": "(mode: 'EagerMode')",
    "set_rng_state": "(new_state: 'torch.Tensor', device='tpu') -> 'None'",
    "set_rng_state_all": "(new_states) -> 'None'",
    "set_stream": "(stream) -> 'None'",
    "stream": "(stream)",
    "synchronize": "(device=None) -> 'None'",
}


def test_snapshot():
    assert sorted(torch.tpu.__all__) == sorted(SNAPSHOT)
    for name, signature in SNAPSHOT.items():
        value = getattr(torch.tpu, name)
        if signature is not None:
            assert str(inspect.signature(value)) == signature, name
            assert value.__doc__ or inspect.isclass(value) or len(inspect.signature(value).parameters) <= 2, name


def test_settings_are_properties():
    assert isinstance(torch.tpu.allow_excess_precision, bool)
    assert isinstance(torch.tpu.eager_mode, torch.tpu.EagerMode)
    assert [m.name for m in torch.tpu.EagerMode] == ["DEFER_NEVER", "DEFER_NEVER_AND_LAUNCH_BLOCKING", "DEFER_AND_FUSE"]
    assert [m.name for m in torch.tpu.Precision] == ["DEFAULT", "HIGH", "HIGHEST"]
    assert all(isinstance(g, torch.Generator) for g in torch.tpu.default_generators)


def test_import_is_the_same_module():
    import torch.tpu as by_import

    import torch_tpu

    assert by_import is torch.tpu is torch_tpu.tpu
    assert torch_tpu.__version__.count(".") == 2


def test_correct_use_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t = torch.tpu
        t.is_available(), t.is_initialized(), t.init(), t.device_count(), t.current_device(), t.set_device(0)
        t.get_device_name(), t.get_device_properties(), t.get_device_capability(), t.is_bf16_supported()
        t.get_amp_supported_dtype(), t.can_device_access_peer(0, 0), t.synchronize()
        t.current_stream(), t.default_stream(), t.set_stream(t.Stream()), t.set_stream(t.default_stream())
        t.Event(enable_timing=True).record()
        t.manual_seed(1), t.manual_seed_all(1), t.seed(), t.seed_all(), t.initial_seed()
        t.set_rng_state(t.get_rng_state()), t.set_rng_state_all(t.get_rng_state_all())
        t.memory_stats(), t.memory_summary(), t.mem_get_info(), t.empty_cache()
        t.reset_peak_memory_stats(), t.reset_accumulated_memory_stats()
        t.metrics(), t.reset_metrics()
        x = torch.ones(2, device="tpu")
        x.tpu(), x.is_tpu, torch.nn.Linear(1, 1).tpu(), torch.Generator("tpu"), repr(x), x.tolist()
        with t.device(0), t.device_of(x), t.stream(t.Stream()), t.precision(t.Precision.HIGH):
            x + 1


def test_nothing_is_printed():
    """Importing and using the device writes nothing, XLA's log lines included."""
    done = run_python(
        "import torch; x = torch.ones(3, device='tpu'); (x @ x).item()",
        TF_CPP_MIN_LOG_LEVEL=None,
        TORCH_TPU_LOG=None,
    )
    assert done.stdout == "" and done.stderr == ""
