"""torch_tpu: a native PyTorch backend for TPUs. Importing torch is enough; this package loads itself."""

from __future__ import annotations

import atexit
import importlib.util
import os


def _autoload() -> None:
    """Entry point of `torch.backends`: PyTorch calls it at the end of `import torch`."""


# Below the entry point: where this package is imported first, torch looks for it while this line runs.
import torch  # noqa: E402

__version__ = "0.1.0"

_ENABLED = False


def _plugin_file(package: str, *parts: str) -> str:
    """The plugin's file in an installed package, without importing the package; '' when it is not there."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return ""
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = os.path.join(folder, *parts)
        if os.path.exists(path):
            return path
    return ""


def _enable() -> None:
    """Makes `torch.device("tpu")` and `torch.tpu` known to PyTorch. No plugin is loaded and no client is made yet."""
    global _ENABLED
    if _ENABLED:
        return
    _ENABLED = True
    from torch_tpu import _C, _interchange, _printing, tpu

    xla_cpu = _plugin_file("xla_plugins.xla_cpu_pjrt", "xla_cpu_pjrt.so")
    _C.set_plugin_paths(xla_cpu, _plugin_file("libtpu", "libtpu.so"))
    if os.environ.get("TORCH_TPU_RECORD_LINES") != "0":
        packages = (torch.__file__, __file__)
        _C.record_python_lines([os.path.dirname(package) + os.sep for package in packages])
    atexit.register(_C.drain_backward_threads)  # registered this early, it runs after nearly all others
    tpu._modes.set_from_environment()
    torch.utils.rename_privateuse1_backend("tpu")
    torch._register_device_module("tpu", tpu)
    _printing.install()
    _interchange.install()
    torch.set_autocast_dtype("tpu", torch.bfloat16)  # PyTorch's own default for PrivateUse1 is float16
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True, unsupported_dtype=[torch.quint8])


_enable()
