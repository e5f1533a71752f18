"""Which devices there are, and which is current."""

from __future__ import annotations

import dataclasses

import torch

from torch_tpu import _C


def device_index(device=None) -> int:
    """The index that a device argument means (None and "tpu" mean the current device), checked to exist."""
    if device is None:
        return _C.current_device()
    if not isinstance(device, int):
        device = torch.device(device)
        if device.type != "tpu":
            raise ValueError(f"expected a tpu device, got {device}")
        if device.index is None:
            return _C.current_device()
        device = device.index
    count = _C.device_count()
    if not 0 <= device < count:
        raise RuntimeError(f"invalid device index {device}: there are {count} tpu devices")
    return device


def is_available() -> bool:
    """Whether a plugin is there that has devices. Does not start them."""
    return _C.device_count() > 0


def device_count() -> int:
    return _C.device_count()


def is_initialized() -> bool:
    return _C.is_initialized()


def init() -> None:
    """Loads the plugin and makes the client, unless that was done. Raises RuntimeError that says what to install."""
    _C.init()


def current_device() -> int:
    return _C.current_device()


def set_device(device) -> None:
    """Makes `device` current; a negative index is ignored, as by torch.cuda."""
    if isinstance(device, int) and device < 0:
        return
    _C.set_device(device_index(device))


class device:
    """Context manager: the device with this index is current inside."""

    def __init__(self, device):
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else device_index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _C.current_device()
        if self.idx >= 0:
            _C.set_device(self.idx)
        return self

    def __exit__(self, *exc_info):
        _C.set_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: the device of a tensor or storage is current inside; others change nothing."""

    def __init__(self, obj):
        super().__init__(obj.device.index if obj.device.type == "tpu" else None)


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """What really runs: the device's kind as the plugin names it, and the plugin.

    total_memory is in bytes. coords and core_count are None where the plugin does not give them (the CPU plugin).
    """

    name: str
    platform: str
    platform_version: str
    plugin: str
    plugin_reason: str
    pjrt_api_version: str
    xla_version: str
    total_memory: int
    device_id: int
    has_host_memory: bool
    core_count: int | None
    coords: str | None
    attributes: dict[str, str]


def get_device_properties(device=None) -> DeviceProperties:
    values = _C.device_properties(device_index(device))
    attributes = values["attributes"]
    cores = attributes.get("num_cores", attributes.get("core_count"))
    return DeviceProperties(
        **{name: values[name] for name in ("name", "platform", "platform_version", "plugin", "plugin_reason")},
        pjrt_api_version=values["pjrt_api_version"],
        xla_version=str(values["plugin_attributes"].get("xla_version", "unknown")),
        total_memory=values["total_memory"],
        device_id=values["device_id"],
        has_host_memory=values["has_host_memory"],
        core_count=int(cores) if cores is not None else None,
        coords=attributes.get("coords"),
        attributes=attributes,
    )


def get_device_name(device=None) -> str:
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple[int, int]:
    """(generation, 0) of a TPU, (0, 0) on other platforms: code that asks for a CUDA level takes its portable path."""
    device_index(device)
    digits = "".join(c for c in get_device_name(device) if c.isdigit())
    is_tpu = get_device_properties(device).platform == "tpu"
    return (int(digits[0]) if is_tpu and digits else 0, 0)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.bfloat16, torch.float16]


def can_device_access_peer(device, peer_device) -> bool:
    """Whether arrays can be copied between the two devices without passing through this process's tensors."""
    return device_index(device) != device_index(peer_device)


def synchronize(device=None) -> None:
    """Waits for all work of the device; raises what went wrong in it, IndexError for broken index bounds too."""
    _C.synchronize(device_index(device))
