"""Train a small GPT on Python's own documentation, on any PyTorch device.

python examples/mingpt/train.py --device tpu
"""

import argparse
import math
import statistics
import sys
import time

import checkpoint
import report
import torch
from data import Corpus, random_batch, sequential_batches
from model import GPT, GPTConfig
from sample import generate
from tqdm import tqdm


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    run = parser.add_argument_group("run")
    run.add_argument("--device", default="tpu", help="tpu (default), cpu, or any other device that PyTorch knows")
    run.add_argument("--steps", type=int, default=1000)
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--log-every", type=int, default=10, help="steps between two reads of the loss from the device")
    run.add_argument("--eval-every", type=int, default=200, help="steps between validations (and checkpoints)")
    model = parser.add_argument_group("model and optimizer")
    model.add_argument("--layers", type=int, default=4)
    model.add_argument("--heads", type=int, default=4)
    model.add_argument("--width", type=int, default=128)
    model.add_argument("--context", type=int, default=64)
    model.add_argument("--batch", type=int, default=16)
    model.add_argument("--dropout", type=float, default=0.0)
    model.add_argument("--lr", type=float, default=3e-3, help="learning rate at the end of the warm-up")
    model.add_argument("--warmup", type=int, default=50, help="steps of linear warm-up")
    model.add_argument("--weight-decay", type=float, default=0.1)
    model.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient")
    files = parser.add_argument_group("files and output")
    files.add_argument("--checkpoint", metavar="FILE", help="save the run here at every validation")
    files.add_argument("--resume", metavar="FILE", help="go on from this checkpoint")
    files.add_argument("--json", metavar="FILE", help="write losses, speed and metrics here")
    files.add_argument("--plot", metavar="FILE", default="mingpt-loss.png", help="loss curve (default %(default)s)")
    files.add_argument("--prompt", default="The ")
    files.add_argument("--sample", type=int, default=400, metavar="N", help="characters to generate at the end")
    return parser.parse_args()


def select_device(name):
    if name.split(":")[0] == "tpu" and not (hasattr(torch, "tpu") and torch.tpu.is_available()):
        sys.exit(
            "--device tpu: torch_tpu is not installed, or it finds no device. Install it with `pip install .` in the "
            "root of the repository, see what it finds with `python -m torch_tpu.info`, or use --device cpu."
        )
    return torch.device(name)


def device_metrics(device):
    return torch.tpu.metrics() if device.type == "tpu" else {}


def learning_rate_factor(step, steps, warmup):
    """Linear warm-up to 1, then half a cosine down to 0.1."""
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))


@torch.no_grad()
def evaluate(model, batches):
    """Mean loss over `batches`; one read from the device at the end."""
    model.eval()
    total = sum(model.loss(inputs, targets) for inputs, targets in batches)
    model.train()
    return total.item() / len(batches)


def train(args, device, corpus):
    """Train a fresh or resumed model; returns it and what was measured."""
    torch.manual_seed(args.seed)
    config = GPTConfig(len(corpus.vocabulary), args.context, args.layers, args.heads, args.width, args.dropout)
    model = GPT(config)  # initialized on the CPU, so that every device starts from the same weights
    batches = torch.Generator().manual_seed(args.seed)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameter_groups(args.weight_decay), lr=args.lr, betas=(0.9, 0.95), fused=True)
    warmup = max(1, args.warmup)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, args.steps, warmup)
    )
    losses, val_losses = [], []
    if args.resume:
        losses, val_losses = checkpoint.load(args.resume, model, optimizer, scheduler, batches, device)
    val_batches = [
        (inputs.to(device), targets.to(device))
        for inputs, targets in sequential_batches(corpus.val, args.batch, args.context)
    ]
    pending, speeds, compiles_by_step, first_step_seconds = [], [], [], None
    first = len(losses) + 1
    compiles = device_metrics(device).get("compiles", 0)
    started = mark = time.perf_counter()
    bar = tqdm(range(first, args.steps + 1), initial=len(losses), total=args.steps, unit="step", mininterval=0.5)
    for step in bar:
        inputs, targets = random_batch(corpus.train, args.batch, args.context, batches)
        loss = model.loss(inputs.to(device), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        scheduler.step()
        pending.append(loss.detach())

        # The device runs ahead of Python until a value is read, so values are read only every few steps.
        validate = step in (first, args.steps) or step % args.eval_every == 0
        if validate or step % args.log_every == 0:
            losses += [value.item() for value in pending]
            torch.get_device_module(device).synchronize()
            now = time.perf_counter()
            first_step_seconds = first_step_seconds or now - started
            speeds.append(len(pending) * args.batch * args.context / (now - mark))
            pending.clear()
            if validate:
                val_losses.append((step, evaluate(model, val_batches)))
                if args.checkpoint:
                    checkpoint.save(args.checkpoint, model, optimizer, scheduler, batches, device, losses, val_losses)
            bar.set_postfix_str(f"loss {losses[-1]:.3f}, val {val_losses[-1][1]:.3f}, {speeds[-1]:,.0f} tokens/s")
            mark = time.perf_counter()
        compiles_by_step.append(device_metrics(device).get("compiles", 0) - compiles)
        compiles += compiles_by_step[-1]
    return model, {
        "losses": losses,
        "val_losses": val_losses,
        "tokens_per_second": statistics.median(speeds[1:] or speeds or [0.0]),
        "first_step_seconds": first_step_seconds,
        "compiles_by_step": compiles_by_step,
    }


def main():
    args = parse_args()
    device = select_device(args.device)
    corpus = Corpus()
    prompt = corpus.encode(args.prompt)
    report.console.print(
        f"{len(corpus):,} characters, {len(corpus.vocabulary)} distinct; unigram entropy {corpus.unigram_entropy:.3f} "
        f"nats a character; training on {device}"
    )
    started = time.perf_counter()
    model, result = train(args, device, corpus)
    seconds = time.perf_counter() - started
    val_loss = result["val_losses"][-1][1]
    sample = corpus.decode(generate(model, prompt, args.sample, device))
    metrics = device_metrics(device)

    report.console.rule("sample")
    report.console.print(sample, markup=False)
    report.console.rule()
    if metrics:
        report.print_metrics(metrics)
    report.plot_losses(args.plot, result["losses"], result["val_losses"], corpus.unigram_entropy)
    report.console.print(
        f"{seconds:.0f} s of training, {result['tokens_per_second']:,.0f} tokens/s, "
        f"first step after {result['first_step_seconds'] or 0:.2f} s; loss curve in {args.plot}"
    )
    report.console.print(report.verdict(val_loss, corpus.unigram_entropy))
    if args.json:
        parameters = sum(p.numel() for p in model.parameters())
        summary = {
            "device": str(device),
            "arguments": vars(args),
            "parameters": parameters,
            "unigram_entropy": corpus.unigram_entropy,
            "val_loss": val_loss,
            "seconds": seconds,
            "sample": sample,
            "metrics": metrics,
        }
        report.write_json(args.json, result | summary)


if __name__ == "__main__":
    main()
