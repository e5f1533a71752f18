"""Save and restore a run. A checkpoint written on one device resumes on any other."""

import os
from dataclasses import asdict

import torch


def save(path, model, optimizer, scheduler, batches, device, losses, val_losses):
    """Write everything that the next step depends on; the file is replaced in one go, so a kill leaves the old one."""
    state = {
        "config": asdict(model.config),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "batches": batches.get_state(),
        "rng": {"cpu": torch.get_rng_state()},
        "losses": losses,
        "val_losses": val_losses,
    }
    if device.type != "cpu":
        state["rng"][device.type] = torch.get_device_module(device).get_rng_state(device)
    torch.save(state, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def load(path, model, optimizer, scheduler, batches, device):
    """Restore what `save` wrote; returns the losses and validation losses so far."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    if state["config"] != asdict(model.config):
        raise ValueError(f"{path} was written by another model: {state['config']}, not {asdict(model.config)}")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    batches.set_state(state["batches"])
    torch.set_rng_state(state["rng"]["cpu"])
    if device.type != "cpu" and device.type in state["rng"]:
        torch.get_device_module(device).set_rng_state(state["rng"][device.type], device)
    return state["losses"], state["val_losses"]
