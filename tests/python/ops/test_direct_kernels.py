"""Ops that modules reach by other ways than their functional form, or that only direct calls reach."""

import pytest
import torch
from harness import agree
from torch import nn


def tensors(device, *shapes, dtype=torch.float32):
    g = torch.Generator().manual_seed(3)
    return [torch.randn(s, generator=g, dtype=dtype).to(device).requires_grad_() for s in shapes]


def with_gradients(f, device, *shapes):
    xs = tensors(device, *shapes)
    y = f(*xs)
    torch.manual_seed(0)
    y.backward(torch.randn(y.shape).to(device))
    return y, [x.grad for x in xs]


CONVOLUTIONS = {
    "slow_conv3d": (
        lambda x, w, b: torch._C._nn.slow_conv3d(x, w, 2, b, (1, 2, 1), 1),
        ((2, 3, 5, 6, 4), (4, 3, 2, 2, 2), (4,)),
    ),
    "slow_conv_dilated2d": (
        lambda x, w, b: torch._C._nn.slow_conv_dilated2d(x, w, 3, b, 1, 2, (2, 1)),
        ((2, 3, 8, 7), (4, 3, 3, 3), (4,)),
    ),
    "slow_conv_dilated3d": (
        lambda x, w, b: torch._C._nn.slow_conv_dilated3d(x, w, 2, b, 1, 1, 2),
        ((2, 3, 5, 6, 5), (4, 3, 2, 2, 2), (4,)),
    ),
    "slow_conv_transpose2d": (
        lambda x, w, b: torch._C._nn.slow_conv_transpose2d(x, w, 3, b, 2, 1, 1),
        ((2, 3, 5, 4), (3, 4, 3, 3), (4,)),
    ),
    "slow_conv_transpose3d": (
        lambda x, w, b: torch._C._nn.slow_conv_transpose3d(x, w, 2, b, 2, 0, 1),
        ((2, 3, 3, 4, 3), (3, 4, 2, 2, 2), (4,)),
    ),
    "thnn_conv2d": (
        lambda x, w, b: torch._C._nn.thnn_conv2d(x, w, 3, b, (2, 1), 1),
        ((2, 3, 6, 5), (4, 3, 3, 3), (4,)),
    ),
}


@pytest.mark.parametrize("f,shapes", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_convolutions_by_algorithm(f, shapes):
    agree(lambda d: with_gradients(f, d, *shapes), tol=1e-4)


@pytest.mark.parametrize("causal,mask", [(False, False), (True, False), (False, True)])
def test_flash_attention_for_cpu(causal, mask):
    def body(device):
        q, k, v = tensors(device, (2, 3, 5, 8), (2, 3, 6 - causal, 8), (2, 3, 6 - causal, 8))
        bias = torch.linspace(-1, 1, 30).view(1, 1, 5, 6).expand(2, 3, 5, 6).to(device) if mask else None
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=bias)
        out.square().sum().backward()
        return out, lse, q.grad, k.grad, v.grad

    agree(body, tol=1e-4, strides=False)


@pytest.mark.parametrize("size", [(4, 5), (13, 3), (9, 17)])
def test_lanczos(size):
    agree(
        lambda d: with_gradients(lambda x: torch._C._nn._upsample_lanczos2d_aa(x, size, False), d, (1, 2, 9, 8)),
        tol=1e-5,
    )


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer_in_evaluation(norm_first, activation):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, activation=activation, norm_first=norm_first, batch_first=True).eval()
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    causal = nn.Transformer.generate_square_subsequent_mask(5)

    def body(device):
        moved = encoder.to(device)
        with torch.no_grad():
            return [
                moved(x.to(device)),
                moved(x.to(device), src_key_padding_mask=padding.to(device))[:, :3],
                moved(x.to(device), mask=causal.to(device)),
            ]

    agree(body, tol=1e-5)
    agree(lambda d: with_gradients(encoder.to(d), d, (2, 5, 16)), tol=1e-4)
