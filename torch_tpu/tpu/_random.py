"""Random number state. A state is a CPU byte tensor of 16 bytes: seed and counter."""

from __future__ import annotations

import torch

from torch_tpu import _C
from torch_tpu.tpu._device import device_count, device_index


def _generator(device) -> torch.Generator:
    return _C.default_generator(device_index(device))


def get_rng_state(device="tpu") -> torch.Tensor:
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device="tpu") -> None:
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seeds the current device."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds all devices; torch.manual_seed calls it."""
    for i in range(device_count()):
        _C.default_generator(i).manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device with a random number."""
    _generator(None).seed()


def seed_all() -> None:
    """Seeds all devices with one random number."""
    if device_count():
        _generator(0).seed()
        manual_seed_all(_generator(0).initial_seed())


def initial_seed() -> int:
    return _generator(None).initial_seed()
