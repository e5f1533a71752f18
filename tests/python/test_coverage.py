"""docs/coverage.md is what the table of lowerings says."""

import pathlib
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not (ROOT / "tools").exists(), reason="needs the source tree")
def test_the_page_is_up_to_date():
    command = [sys.executable, "-W", "ignore", str(ROOT / "tools" / "coverage.py"), "--check"]
    done = subprocess.run(command, cwd=tempfile.gettempdir(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
