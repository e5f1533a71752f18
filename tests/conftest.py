"""Environment of the tests, set before torch is imported, and fixtures."""

import os
import shutil
import tempfile

# A missing lowering fails, and programs that another run compiled hide nothing. Workers of pytest-xdist and the
# subprocesses of tests share the run's cache folder. TORCH_TPU_TEST_CACHE_DIR keeps one, for a quicker second run.
os.environ["TORCH_TPU_FALLBACK"] = "error"
_own_cache = None
if "PYTEST_XDIST_WORKER" not in os.environ:
    _own_cache = None if "TORCH_TPU_TEST_CACHE_DIR" in os.environ else tempfile.mkdtemp(prefix="torch_tpu_test_")
    os.environ["TORCH_TPU_CACHE_DIR"] = _own_cache or os.environ["TORCH_TPU_TEST_CACHE_DIR"]
for _name in ("TORCH_TPU_CACHE", "TORCH_TPU_CACHE_MAX_BYTES", "TORCH_TPU_CPU_DEVICES", "TORCH_TPU_LAUNCH_BLOCKING"):
    os.environ.pop(_name, None)

import pytest  # noqa: E402
import torch  # noqa: E402

# Strict, or fused in the run with TORCH_TPU_DEFER_AND_FUSE=1.
_mode = torch.tpu.eager_mode


def pytest_unconfigure(config):
    if _own_cache is not None:
        shutil.rmtree(_own_cache, ignore_errors=True)


def pytest_collection_modifyitems(items):
    for item in items:
        # Forking and dlopen warnings of Python itself are not what is tested.
        item.add_marker(pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning"))


@pytest.fixture(autouse=True)
def _clean_state():
    """Each test starts from the same seed and leaves no deferred error and no mode behind."""
    torch.manual_seed(0)
    yield
    if torch.tpu.is_initialized():
        try:
            torch.tpu.synchronize()
        finally:
            torch.tpu.set_eager_mode(_mode)


@pytest.fixture
def strict_mode():
    """For tests that count programs or look at one op's run."""
    with torch.tpu.set_eager_mode(torch.tpu.EagerMode.STRICT):
        yield


@pytest.fixture
def debug_mode():
    with torch.tpu.set_eager_mode(torch.tpu.EagerMode.DEBUG):
        yield
