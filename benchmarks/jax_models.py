"""The benchmark's models as a JAX user writes them, exported to StableHLO: what XLA gives without PyTorch.

The exported step runs through torch_tpu's own PJRT layer (run_stablehlo.cc), on the same plugin as the tpu device.
Same sizes, initial values, loss, clipping and AdamW as training.py.
"""

import functools
import os
import time

import numpy as np
import torch
from common import StableHloProgram
from resnet import STAGES

torch.tpu.get_device_properties()  # chooses the plugin, before jax points TPU_LIBRARY_PATH at libtpu
os.environ.setdefault("JAX_PLATFORMS", "cpu")  # it only traces
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

BETAS, EPSILON, WEIGHT_DECAY, RATE, DECAY, MAX_NORM = (0.9, 0.999), 1e-8, 0.01, 1e-3, 0.99, 1.0


def cross_entropy(logits, targets):
    rows = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(rows, targets[:, None], 1))


def linear(p, x):
    return x @ p["weight"].T + p["bias"]


def layer_norm(p, x):
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * p["weight"] + p["bias"]


def mingpt(args, params, tokens, targets):
    batch, length = tokens.shape
    x = params["tokens"]["weight"][tokens] + params["positions"]["weight"][:length]
    for i in range(args.layers):
        p = params["blocks"][str(i)]
        qkv = linear(p["attention"]["qkv"], layer_norm(p["norm1"], x))
        q, k, v = (t.reshape(batch, length, args.heads, -1).transpose(0, 2, 1, 3) for t in jnp.split(qkv, 3, axis=-1))
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(args.width // args.heads).astype(np.float32)
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
        y = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)
        x = x + linear(p["attention"]["proj"], y.transpose(0, 2, 1, 3).reshape(x.shape))
        y = jax.nn.gelu(linear(p["mlp"]["0"], layer_norm(p["norm2"], x)), approximate=False)
        x = x + linear(p["mlp"]["2"], y)
    logits = layer_norm(params["norm"], x) @ params["tokens"]["weight"].T
    return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def convolve(weight, x, stride, padding):
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), [(padding, padding)] * 2)


def batch_norm(p, x):
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
    scale, shift = p["weight"][:, None, None], p["bias"][:, None, None]
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def resnet(args, params, images, targets):
    x = jax.nn.relu(batch_norm(params["1"], convolve(params["0"]["weight"], images, 2, 3)))
    padding = [(0, 0), (0, 0), (1, 1), (1, 1)]
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), padding)
    number = 4
    for _, first_stride in STAGES:
        for stride in (first_stride, 1):
            p = params[str(number)]
            y = jax.nn.relu(batch_norm(p["norm1"], convolve(p["conv1"]["weight"], x, stride, 1)))
            y = batch_norm(p["norm2"], convolve(p["conv2"]["weight"], y, 1, 1))
            if "shortcut" in p:
                x = batch_norm(p["shortcut"]["1"], convolve(p["shortcut"]["0"]["weight"], x, stride, 0))
            x = jax.nn.relu(x + y)
            number += 1
    return cross_entropy(linear(params[str(number + 2)], x.mean((2, 3))), targets)


def mlp(args, params, inputs, targets):
    x = jax.nn.relu(linear(params["0"], inputs))
    return cross_entropy(linear(params["4"], jax.nn.relu(linear(params["2"], x))), targets)


MODELS = {"mingpt": mingpt, "resnet": resnet, "mlp": mlp}


def training_step(loss, state, *batch):
    """(parameters, first moments, second moments, steps taken), batch -> the next state and the loss."""
    params, first, second, count = state
    value, gradients = jax.value_and_grad(loss)(params, *batch)
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda g: g * jnp.minimum(MAX_NORM / (norm + 1e-6), 1.0), gradients)
    rate = RATE * DECAY**count
    count = count + 1
    first = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, first, gradients)
    second = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, second, gradients)

    def update(p, m, v):
        m, v = m / (1 - BETAS[0] ** count), v / (1 - BETAS[1] ** count)
        return p * (1 - rate * WEIGHT_DECAY) - rate * m / (jnp.sqrt(v) + EPSILON)

    return (jax.tree.map(update, params, first, second), first, second, count), value


def nest(named):
    """{"a.b": x} -> {"a": {"b": x}}"""
    result = {}
    for name, value in named.items():
        *path, last = name.split(".")
        inner = result
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return result


class JaxTraining:
    """The same training as training.Training, from the same PyTorch model and batch, as one program that JAX made."""

    def __init__(self, name, model, batch, args):
        params = nest({key: value.detach().numpy() for key, value in model.named_parameters()})
        zeros = jax.tree.map(np.zeros_like, params)
        state = (params, zeros, jax.tree.map(np.zeros_like, params), np.float32(0))
        arrays = [t.numpy().astype(np.int32) if t.numpy().dtype == np.int64 else t.numpy() for t in batch]
        step = functools.partial(training_step, functools.partial(MODELS[name], args))
        started = time.perf_counter()
        exported = jax.export.export(jax.jit(step, donate_argnums=0), platforms=["cpu"])(state, *arrays)
        module = exported.mlir_module()
        self.export_seconds = time.perf_counter() - started
        leaves = jax.tree.leaves(state)
        self.program = StableHloProgram(module, [*leaves, *arrays], feedback=len(leaves))
        self.seconds, self.losses = [], []

    def step(self):
        """One timed step, waited for. The first counts the compilation too, as in training.Training."""
        seconds, loss = self.program.run()
        self.seconds.append(seconds + (0 if self.seconds else self.program.compile_seconds))
        self.losses.append(loss)
