"""Cost of a training step: minGPT, ResNet-18 and an MLP, from the first step to the steady state, in one run.

python benchmarks/training.py --device strict fused cpu --json training.json

`strict` and `fused` are the tpu device in these eager modes, `jax` is the same training written in JAX, exported to
StableHLO and run on the same plugin (jax_models.py), `inductor` is the CPU with the model under torch.compile.
"""

import argparse
import importlib.util
import statistics
import time

import torch
import torch.nn.functional as F
from common import compile_count, is_available, load_module, print_table, synchronize, write_json
from resnet import resnet18
from torch import nn

VOCABULARY = 128
MLP_INPUTS, MLP_CLASSES = 784, 10
RESNET_CLASSES = 1000


def mingpt(args):
    """Model, loss function and a batch, all on the CPU."""
    mingpt_model = load_module("examples/mingpt/model.py")
    config = mingpt_model.GPTConfig(VOCABULARY, args.context, args.layers, args.heads, args.width)
    tokens = torch.randint(VOCABULARY, (2, args.batch, args.context))
    return mingpt_model.GPT(config), mingpt_model.GPT.loss, (tokens[0], tokens[1])


def mlp(args):
    """Model, loss function and a batch, all on the CPU."""
    width = args.mlp_width
    model = nn.Sequential(
        nn.Linear(MLP_INPUTS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, MLP_CLASSES)
    )
    batch = torch.randn(args.mlp_batch, MLP_INPUTS), torch.randint(MLP_CLASSES, (args.mlp_batch,))
    return model, lambda model, inputs, targets: F.cross_entropy(model(inputs), targets), batch


def resnet(args):
    """ResNet-18 on small images, loss function and a batch, all on the CPU."""
    size = args.resnet_size
    batch = torch.randn(args.resnet_batch, 3, size, size), torch.randint(RESNET_CLASSES, (args.resnet_batch,))
    return resnet18(RESNET_CLASSES), lambda model, inputs, targets: F.cross_entropy(model(inputs), targets), batch


MODELS = {"mingpt": mingpt, "resnet": resnet, "mlp": mlp}
EAGER_MODES = {"strict": "STRICT", "fused": "FUSED"}


class Training:
    """A model in training on one device: AdamW, a learning rate that changes every step, gradient clipping."""

    def __init__(self, build, place, args):
        torch.manual_seed(0)
        model, self.loss, batch = build(args)
        self.mode = EAGER_MODES.get(place)
        self.device = torch.device("tpu" if self.mode else "cpu" if place == "inductor" else place)
        self.model = model.to(self.device)
        if place == "inductor":
            self.model.compile()
        self.batch = [tensor.to(self.device) for tensor in batch]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 0.99**step)
        self.seconds, self.compiles, self.losses = [], [], []

    def step(self):
        """One timed step, waited for."""
        if self.mode:
            torch.tpu.set_eager_mode(torch.tpu.EagerMode[self.mode])
        synchronize(self.device)
        compiled, started = compile_count(self.device), time.perf_counter()
        loss = self.loss(self.model, *self.batch)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        synchronize(self.device)
        self.seconds.append(time.perf_counter() - started)
        self.compiles.append(compile_count(self.device) - compiled)
        self.losses.append(loss.item())


def result(training):
    """Figures of a Training or JaxTraining."""
    steady, compiles = training.seconds[3:], getattr(training, "compiles", [1])
    return {
        "first_step_s": training.seconds[0],
        "steady_best_s": min(steady),
        "steady_median_s": statistics.median(steady),
        "compiles": sum(compiles),
        "compiles_after_step_3": sum(compiles[3:]),
        "step_s": training.seconds,
        "losses": training.losses,
    }


def train(name, place, args):
    if place != "jax":
        return Training(MODELS[name], place, args)
    from jax_models import JaxTraining

    torch.manual_seed(0)
    model, _, batch = MODELS[name](args)
    return JaxTraining(name, model, batch, args)


def run(args):
    """Results by model and device; the devices take turns, so that they see the same load on the machine."""
    results = {}
    for name in args.model:
        trainings = {device: train(name, device, args) for device in args.device}
        for _ in range(3 + args.steps):
            for training in trainings.values():
                training.step()
        results[name] = {device: result(training) for device, training in trainings.items()}
    return results


def has_jax():
    return importlib.util.find_spec("jax") is not None


SIZES = {
    "layers": 6,
    "heads": 6,
    "width": 384,
    "batch": 8,
    "context": 128,
    "resnet_batch": 8,
    "resnet_size": 64,
    "mlp_width": 1024,
    "mlp_batch": 128,
}


def add_sizes(parser, **defaults):
    """An option for each of SIZES, with these defaults where given."""
    for name, value in (SIZES | defaults).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    places = [*(EAGER_MODES if is_available("tpu") else ()), "cpu", *(["jax"] if has_jax() else [])]
    parser.add_argument("--device", nargs="+", default=places)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--steps", type=int, default=10, help="steady steps, after three others (default %(default)s)")
    add_sizes(parser)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    for device in args.device:
        name = "tpu" if device in EAGER_MODES else "cpu" if device == "inductor" else device
        if not (has_jax() if device == "jax" else is_available(name)):
            parser.error(f"{device} is not available here")
    if args.steps < 1:
        parser.error("--steps must be at least 1")

    results = run(args)
    columns = ["model", "device", "first step ms", "best ms", "median ms", "compiles", "after step 3"]
    rows = []
    for name, by_device in results.items():
        for device, r in by_device.items():
            times = [r[key] * 1e3 for key in ("first_step_s", "steady_best_s", "steady_median_s")]
            counts = [
                None if device in ("cpu", "inductor") else r[key] for key in ("compiles", "compiles_after_step_3")
            ]
            rows.append([name, device, *times, *counts])
    print_table("Training steps", columns, rows)
    if args.json:
        write_json(args.json, {"arguments": vars(args), "results": results})


if __name__ == "__main__":
    main()
