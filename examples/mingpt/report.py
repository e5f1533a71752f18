"""What a run leaves behind: a table of the device's counters, a verdict, a JSON file and a loss curve."""

import json
import statistics

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

WELL_UNDER = 0.7
"""A validation loss below this share of the unigram entropy can only come from using the context."""

console = Console(highlight=False, soft_wrap=True)


def verdict(val_loss, entropy):
    """One line that says whether the model learned more than how often each character occurs."""
    share = f"validation loss {val_loss:.3f} is {val_loss / entropy:.0%} of the unigram entropy {entropy:.3f} (nats)"
    if val_loss < WELL_UNDER * entropy:
        return f"[bold green]learned[/]: {share}"
    return f"[bold yellow]not yet well under the unigram entropy[/]: {share}"


def print_metrics(metrics):
    """Table of torch.tpu.metrics(): compiles, cache hits, fallbacks, transfers."""
    table = Table("counter", "value", title="torch.tpu.metrics()")
    table.columns[1].justify = "right"
    for name, value in metrics.items():
        table.add_row(name, _cell(value))
    console.print(table)


def _cell(value):
    if isinstance(value, dict):
        return ", ".join(f"{name} x {count}" for name, count in value.items()) or "none"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write_json(path, result):
    with open(path, "w") as file:
        json.dump(result, file, indent=1)


def plot_losses(path, losses, val_losses, entropy):
    """Training loss (raw and smoothed), validation loss and the unigram entropy, as a PNG."""
    half = max(1, len(losses) // 50)
    smooth = [statistics.fmean(losses[max(0, i - half) : i + half + 1]) for i in range(len(losses))]
    steps = range(1, len(losses) + 1)
    axes = (figure := Figure(figsize=(8, 5), layout="constrained")).subplots()
    axes.plot(steps, losses, color="tab:blue", alpha=0.25)
    axes.plot(steps, smooth, color="tab:blue", label="training")
    axes.plot(*zip(*val_losses, strict=True), "o-", color="tab:orange", label="validation")
    axes.axhline(entropy, color="gray", linestyle="--", label="unigram entropy")
    axes.set(xlabel="step", ylabel="loss (nats a character)")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
