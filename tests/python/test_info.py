"""`python -m torch_tpu.info`."""

import torch

from torch_tpu import info


def test_report_names_what_runs_and_checks_it(capsys):
    assert info.main() == 0
    text = capsys.readouterr().out
    assert torch.tpu.get_device_properties().plugin in text
    assert "self-check   ok" in text
    for name in info.VARIABLES:
        assert name in text


def test_self_check_can_fail(monkeypatch, capsys):
    monkeypatch.setattr(torch, "allclose", lambda *args: False)
    assert info.main() == 1
    assert "other numbers than the CPU" in capsys.readouterr().out


def test_cache_folder(monkeypatch):
    monkeypatch.setenv("TORCH_TPU_CACHE_DIR", "/somewhere")
    assert info.cache_folder() == "/somewhere"
    monkeypatch.setenv("TORCH_TPU_CACHE", "0")
    assert "off" in info.cache_folder()
