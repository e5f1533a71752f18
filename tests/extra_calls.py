"""Calls of lowered ops that no OpInfo sample reaches. Arguments that are not listed are made up from the schema."""

from __future__ import annotations

import torch


class Maker:
    """Small tensors on a device: `x` of the type asked for, `f` of it or else float32, `i` of indices."""

    def __init__(self, device, dtype):
        self.device, self.dtype = device, dtype
        floating = dtype.is_floating_point
        self.float_dtype = dtype if floating else torch.float32

    def _range(self, shape, dtype):
        numel = torch.Size(shape).numel()
        # Positive and below one, so that logarithms, powers and probabilities are defined.
        values = (torch.arange(numel, dtype=torch.float64) * 7 % 11 + 1) / (12 if dtype.is_floating_point else 2)
        return values.reshape(shape).to(dtype).to(self.device)

    def x(self, *shape):
        return self._range(shape, self.dtype)

    def f(self, *shape):
        return self._range(shape, self.float_dtype)

    def f32(self, *shape):
        return self._range(shape, torch.float32)

    def i(self, *shape, high=3, dtype=torch.int64):
        return (torch.arange(torch.Size(shape).numel()) % high).reshape(shape).to(dtype).to(self.device)

    def mask(self, *shape):
        return self.i(*shape, high=2).bool()

    def scalar(self, value=0.5):
        return torch.tensor(value, device=self.device)


def _fused(m, states, steps=True, **more):
    named = dict(self=[m.f(5), m.f(2, 3)], grads=[m.f(5), m.f(2, 3)], lr=0.1, weight_decay=0.01, maximize=False)
    for name in states:
        named[name] = [m.f(5), m.f(2, 3)]
    if steps:
        named["state_steps"] = [m.f32(), m.f32()]
    return named | more


def _adam(m, **more):
    states = ["exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"]
    return _fused(m, states, beta1=0.9, beta2=0.99, eps=1e-8, amsgrad=True, **more)


def _sgd(m, **more):
    options = dict(momentum=0.9, dampening=0.0, nesterov=True, is_first_step=False)
    return _fused(m, ["momentum_buffer_list"], steps=False, **options, **more)


def _adagrad(m, **more):
    return _fused(m, ["state_sums"], lr_decay=0.1, eps=1e-8, **more)


def _batch_norm(m):
    named = dict(input=m.f(2, 3, 4), weight=m.f(3), bias=m.f(3), momentum=0.1, eps=1e-5)
    return named | dict(running_mean=m.f(3), running_var=m.f(3), training=True)


def _without(named, *names):
    return {k: v for k, v in named.items() if k not in names}


def _quantize(m, channels=False, tensors=True, **more):
    # zero_point is float32 where it is learned, int32 else.
    shape = (3,) if channels else (1,)
    named = dict(self=m.f(3, 4), quant_min=-8, quant_max=7, **more)
    scale, zero = (m.f32(*shape), m.f32(*shape)) if tensors else (0.1, 0)
    return named | dict(scale=scale, zero_point=zero) | (dict(axis=0) if channels else {})


def _ctc(m):
    return dict(log_probs=m.f(6, 2, 4).log(), targets=m.i(2, 2, high=2) + 1, **_lengths(m))


def _lengths(m):
    return dict(input_lengths=m.i(2, high=1) + 6, target_lengths=m.i(2, high=1) + 2)


def _ctc_backward(m):
    loss, alpha = torch.ops.aten._ctc_loss.Tensor(**_ctc(m))
    return dict(grad=m.f(2), neg_log_likelihood=loss, log_alpha=alpha, blank=0, **_ctc(m))


def _embedding_bag_backward(m):
    named = dict(grad=m.f(2, 3), indices=m.i(4), offset2bag=m.i(4, high=2).sort()[0], bag_size=m.i(2, high=1) + 2)
    named["maximum_indices"] = m.i(0)
    return named | dict(num_weights=4, scale_grad_by_freq=False, mode=0, per_sample_weights=None)


def _attention(m):
    named = dict(query=m.f(2, 3, 8), key=m.f(2, 3, 8), value=m.f(2, 3, 8), embed_dim=8, num_head=2)
    return named | dict(qkv_weight=m.f(24, 8), qkv_bias=m.f(24), proj_weight=m.f(8, 8), proj_bias=m.f(8))


def _convolution(m, spatial, transposed=False, backward=False):
    weight = m.f(*((3, 2) if transposed else (2, 3)), *(2,) * spatial)
    named = dict(self=m.f(1, 3, *(4,) * spatial), weight=weight, kernel_size=[2] * spatial)
    named |= dict(stride=[1] * spatial, padding=[0] * spatial)
    if backward:
        return named | dict(grad_output=m.f(1, 2, *(3,) * spatial), output_mask=[True, True, True])
    return named | dict(bias=m.f(2))


def _flash_attention(m):
    return dict(query=m.f(1, 2, 3, 4), key=m.f(1, 2, 5, 4), value=m.f(1, 2, 5, 4))


def _flash_attention_backward(m):
    out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(**_flash_attention(m))
    return _flash_attention(m) | dict(
        grad_out=m.f(1, 2, 3, 4), out=out, logsumexp=logsumexp, dropout_p=0.0, is_causal=False
    )


def _observer(m):
    named = dict(self=m.f32(3, 4), observer_on=m.i(1, high=1) + 1, fake_quant_on=m.i(1, high=1) + 1)
    named |= dict(running_min=m.f32(1), running_max=m.f32(1), scale=m.f32(1), zero_point=m.i(1, dtype=torch.int32))
    return named | dict(averaging_const=0.1, quant_min=-8, quant_max=7, ch_axis=0)


def _matrices(m, *names, batch=()):
    return {name: m.x(*batch, 4, 4) for name in names}


# Lowering: function of a Maker that gives arguments by name.
ARGUMENTS = {
    "_cummax_helper": lambda m: dict(values=m.x(3, 4), indices=m.i(3, 4), dim=1),
    "_cummin_helper": lambda m: dict(values=m.x(3, 4), indices=m.i(3, 4), dim=1),
    "_addmm_activation": lambda m: _matrices(m, "self", "mat1", "mat2"),
    "_int_mm": lambda m: {k: m.i(32, 32, dtype=torch.int8) for k in ("self", "mat2")},
    "mm.dtype": lambda m: _matrices(m, "self", "mat2") | dict(out_dtype=torch.float32),
    "addmm.dtype": lambda m: _matrices(m, "mat1", "mat2") | dict(self=m.f32(4, 4), out_dtype=torch.float32),
    "bmm.dtype": lambda m: _matrices(m, "self", "mat2", batch=(2,)) | dict(out_dtype=torch.float32),
    "baddbmm.dtype": lambda m: (
        _matrices(m, "batch1", "batch2", batch=(2,)) | dict(self=m.f32(2, 4, 4), out_dtype=torch.float32)
    ),
    "_transform_bias_rescale_qkv": lambda m: dict(qkv=m.f(2, 3, 24), qkv_bias=m.f(24), num_heads=2),
    "_native_multi_head_attention": _attention,
    "_upsample_bicubic2d_aa": lambda m: dict(self=m.f(1, 2, 5, 5), output_size=[3, 4], align_corners=False),
    "_upsample_bicubic2d_aa_backward": lambda m: dict(
        grad_output=m.f(1, 2, 3, 4), output_size=[3, 4], input_size=[1, 2, 5, 5], align_corners=False
    ),
    "_upsample_lanczos2d_aa": lambda m: dict(self=m.f(1, 2, 5, 5), output_size=[3, 4], align_corners=False),
    "_upsample_lanczos2d_aa_backward": lambda m: dict(
        grad_output=m.f(1, 2, 3, 4), output_size=[3, 4], input_size=[1, 2, 5, 5], align_corners=False
    ),
    "_slow_conv2d_forward": lambda m: _convolution(m, 2),
    "_slow_conv2d_backward.output_mask": lambda m: _convolution(m, 2, backward=True),
    "slow_conv_dilated2d": lambda m: _convolution(m, 2),
    "slow_conv_transpose2d": lambda m: _convolution(m, 2, transposed=True),
    "slow_conv3d_forward": lambda m: _convolution(m, 3),
    "slow_conv_dilated3d": lambda m: _convolution(m, 3),
    "slow_conv_transpose3d": lambda m: _convolution(m, 3, transposed=True),
    "_scaled_dot_product_flash_attention_for_cpu": _flash_attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _flash_attention_backward,
    "_weight_int8pack_mm": lambda m: dict(self=m.f(4, 64), mat2=m.i(16, 64, dtype=torch.int8), scales=m.f(16)),
    "_convert_weight_to_int4pack_for_cpu": lambda m: dict(self=m.i(80, 64, dtype=torch.int32), innerKTiles=2),
    "_weight_int4pack_mm_for_cpu": lambda m: dict(
        self=m.f(4, 64), mat2=m.i(80, 32, dtype=torch.uint8), qGroupSize=32, qScaleAndZeros=m.f(2, 80, 2)
    ),
    "_fused_moving_avg_obs_fq_helper": _observer,
    "reflection_pad3d": lambda m: dict(self=m.f(1, 2, 3, 4, 5), padding=[1, 2, 1, 0, 1, 1]),
    "reflection_pad3d_backward": lambda m: dict(
        grad_output=m.f(1, 2, 5, 5, 8), self=m.f(1, 2, 3, 4, 5), padding=[1, 2, 1, 0, 1, 1]
    ),
    "replication_pad3d": lambda m: dict(self=m.f(1, 2, 3, 4, 5), padding=[1, 2, 1, 0, 1, 1]),
    "replication_pad3d_backward": lambda m: dict(
        grad_output=m.f(1, 2, 5, 5, 8), self=m.f(1, 2, 3, 4, 5), padding=[1, 2, 1, 0, 1, 1]
    ),
    "_weight_norm_interface": lambda m: dict(v=m.f(3, 4), g=m.f(3, 1), dim=0),
    "_weight_norm_interface_backward": lambda m: dict(
        grad_w=m.f(3, 4), saved_v=m.f(3, 4), saved_g=m.f(3, 1), saved_norms=m.f(3, 1), dim=0
    ),
    "_native_batch_norm_legit": _batch_norm,
    "_native_batch_norm_legit.no_stats": lambda m: _without(_batch_norm(m), "running_mean", "running_var"),
    "_native_batch_norm_legit_functional": _batch_norm,
    "_batch_norm_with_update_functional": lambda m: _without(_batch_norm(m), "training"),
    "_batch_norm_no_update": lambda m: _without(_batch_norm(m), "training"),
    "batch_norm_update_stats": lambda m: _without(_batch_norm(m), "training", "weight", "bias", "eps"),
    "_masked_softmax": lambda m: dict(self=m.f(2, 3, 4, 4), mask=m.mask(2, 3, 4, 4), dim=3, mask_type=2),
    "_masked_softmax_backward": lambda m: dict(
        grad_output=m.f(2, 3, 4, 4), output=m.f(2, 3, 4, 4), mask=m.mask(2, 3, 4, 4), dim=3
    ),
    "_unsafe_index.Tensor": lambda m: dict(self=m.x(3, 4), indices=[m.i(2), m.i(2)]),
    "_unsafe_index_put": lambda m: dict(self=m.x(3, 4), indices=[m.i(2), m.i(2)], values=m.x(2)),
    "scatter.reduce": lambda m: dict(self=m.x(3, 4), dim=0, index=m.i(2, 4), src=m.x(2, 4), reduce="add"),
    "scatter.value_reduce": lambda m: dict(self=m.x(3, 4), dim=0, index=m.i(2, 4), value=2, reduce="multiply"),
    "embedding_renorm": lambda m: dict(self=m.f(4, 3), indices=m.i(5), max_norm=0.5, norm_type=2.0),
    "_embedding_bag_forward_only": lambda m: dict(weight=m.f(4, 3), indices=m.i(5), offsets=m.i(2, high=2) * 2),
    "_embedding_bag_dense_backward": _embedding_bag_backward,
    "_ctc_loss.Tensor": _ctc,
    "_ctc_loss_backward.Tensor": _ctc_backward,
    "bernoulli.p": lambda m: dict(self=m.x(3, 4), p=0.3),
    "bernoulli_.Tensor": lambda m: dict(self=m.x(3, 4), p=m.f(3, 4)),
    "random_.to": lambda m: dict(self=m.x(3, 4), to=9),
    "_amp_foreach_non_finite_check_and_unscale_": lambda m: dict(
        self=[m.f(5), m.f(2, 3)], found_inf=m.f32(1), inv_scale=m.f32(1)
    ),
    "_amp_update_scale_": lambda m: dict(
        self=m.f32(1),
        growth_tracker=m.i(1, dtype=torch.int32),
        found_inf=m.f32(1),
        scale_growth_factor=2.0,
        scale_backoff_factor=0.5,
        growth_interval=5,
    ),
    "fake_quantize_per_tensor_affine_cachemask": lambda m: _quantize(m, tensors=False),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": lambda m: (
        _quantize(m) | dict(zero_point=m.i(1, dtype=torch.int32), fake_quant_enabled=m.i(1) + 1)
    ),
    "fake_quantize_per_channel_affine_cachemask": lambda m: (
        _quantize(m, channels=True) | dict(zero_point=m.i(3, dtype=torch.int32))
    ),
    "_fake_quantize_learnable_per_tensor_affine": _quantize,
    "_fake_quantize_learnable_per_channel_affine": lambda m: _quantize(m, channels=True),
    "_fake_quantize_learnable_per_tensor_affine_backward": lambda m: _quantize(m, grad=m.f(3, 4)),
    "_fake_quantize_learnable_per_channel_affine_backward": lambda m: _quantize(m, channels=True, grad=m.f(3, 4)),
    "_thnn_fused_lstm_cell": lambda m: dict(
        input_gates=m.f(2, 12), hidden_gates=m.f(2, 12), cx=m.f(2, 3), input_bias=m.f(12), hidden_bias=m.f(12)
    ),
    "_thnn_fused_lstm_cell_backward_impl": lambda m: dict(
        grad_hy=m.f(2, 3), grad_cy=m.f(2, 3), cx=m.f(2, 3), cy=m.f(2, 3), workspace=m.f(2, 12), has_bias=True
    ),
    "_thnn_fused_gru_cell": lambda m: dict(
        input_gates=m.f(2, 9), hidden_gates=m.f(2, 9), hx=m.f(2, 3), input_bias=m.f(9), hidden_bias=m.f(9)
    ),
    "_thnn_fused_gru_cell_backward": lambda m: dict(grad_hy=m.f(2, 3), workspace=m.f(2, 15), has_bias=True),
    "_linalg_eigvals": lambda m: dict(self=m.f(3, 3)),
    "_compute_linear_combination": lambda m: dict(input=m.f(3, 4), coefficients=m.f(2, 3)),
    "norm.ScalarOpt_dtype": lambda m: dict(self=m.f(3, 4), p=2, dtype=torch.float32),
    "norm.ScalarOpt_dim_dtype": lambda m: dict(self=m.f(3, 4), p=2, dim=[1], keepdim=False, dtype=torch.float32),
    "linalg__powsum": lambda m: dict(self=m.f(3, 4), ord=3),
    "bucketize.Scalar": lambda m: dict(self=2, boundaries=m.x(5).sort()[0]),
    "_convert_indices_from_coo_to_csr": lambda m: dict(self=m.i(5).sort()[0], size=4),
    "_convert_indices_from_csr_to_coo": lambda m: dict(crow_indices=m.i(4, high=4), col_indices=m.i(3)),
    "_jagged_to_padded_dense_forward": lambda m: dict(values=m.x(5, 2), offsets=[m.i(3) * 2], max_lengths=[3]),
    "div.Scalar_mode": lambda m: dict(rounding_mode="floor"),
    "fill.Tensor": lambda m: dict(value=m.x()),
    "_foreach_addcmul.Tensor": lambda m: dict(scalars=torch.tensor([1.0, 2.0])),
    "_foreach_addcdiv.Tensor": lambda m: dict(scalars=torch.tensor([1.0, 2.0])),
    "_foreach_add.Tensor": lambda m: dict(other=m.x()),
    "_foreach_mul.Tensor": lambda m: dict(other=m.x()),
    "_foreach_div.Tensor": lambda m: dict(other=m.x()),
    "_fused_adam_": _adam,
    "_fused_adamw_": _adam,
    "_fused_sgd_": _sgd,
    "_fused_adagrad_": _adagrad,
    "_fused_adam_.tensor_lr": lambda m: _adam(m) | dict(lr=m.scalar()),
    "_fused_adamw_.tensor_lr": lambda m: _adam(m) | dict(lr=m.scalar()),
    "_fused_sgd_.tensor_lr": lambda m: _sgd(m) | dict(lr=m.scalar()),
    "_fused_adagrad_.tensor_lr": lambda m: _adagrad(m) | dict(lr=m.scalar()),
}

# Whose schemas alone make a sensible call.
FROM_SCHEMA = [
    "conj_physical_",
    "_add_relu.Tensor",
    "_add_relu.Scalar",
    "fmod.Scalar",
    "remainder.Scalar_Tensor",
    "floor_divide.Scalar",
    *(f"__{i}{side}shift__.{kind}" for i in ("", "i") for side in "lr" for kind in ("Tensor", "Scalar")),
    *(f"bitwise_{name}.{kind}" for name in ("and", "or", "xor") for kind in ("Scalar", "Scalar_Tensor")),
    *(f"bitwise_{side}_shift.{kind}" for side in ("left", "right") for kind in ("Tensor_Scalar", "Scalar_Tensor")),
    "clamp_max",
    "xlogy.Scalar_Other",
    "xlogy.Scalar_Self",
    *(f"special_{name}.{kind}" for name in ("xlog1py", "zeta") for kind in ("other_scalar", "self_scalar")),
    *(
        f"special_{name}.{kind}"
        for name in (
            *(f"{shifted}chebyshev_polynomial_{letter}" for shifted in ("", "shifted_") for letter in "tuvw"),
            "hermite_polynomial_h",
            "hermite_polynomial_he",
            "laguerre_polynomial_l",
            "legendre_polynomial_p",
        )
        for kind in ("x_scalar", "n_scalar")
    ),
    "glu_jvp",
    "hardshrink_backward",
    "glu_backward_jvp",
    "_aminmax",
    "_aminmax.dim",
    "_logcumsumexp",
    "isin.Tensor_Scalar",
    "isin.Scalar_Tensor",
    "normal.float_Tensor",
    "random_",
    "poisson",
    "binomial",
    "_standard_gamma",
    "_standard_gamma_grad",
    "_sample_dirichlet",
    "_dirichlet_grad",
    *(f"_foreach_{name}.ScalarList" for name in ("add", "sub", "mul", "div", "clamp_min", "clamp_max", "pow", "lerp")),
    *(f"_foreach_{name}.{kind}" for name in ("maximum", "minimum") for kind in ("List", "Scalar", "ScalarList")),
    "_foreach_pow.ScalarAndTensor",
    "_foreach_addcmul.ScalarList",
    "_foreach_addcdiv.ScalarList",
    "_foreach_powsum.Scalar",
    "_foreach_copy",
    "_foreach_zero",
]


def _from_schema(name, argument, m):
    kind = str(argument.real_type)
    if name.startswith("glu") and kind == "Tensor":
        # The gradient's and the gated half's size against the input's.
        return m.f(3, 2) if argument.name in ("glu", "dgrad_glu", "grad_glu") else m.f(3, 4)
    values = {
        "Tensor": lambda: m.x(3, 4),
        "List[Tensor]": lambda: [m.x(5), m.x(2, 3)],
        "List[number]": lambda: [2, 3],
        "number": lambda: 2,
        "float": lambda: 0.5,
        "int": lambda: 1,
    }
    return values[kind]()


def arguments(name, overload, device, dtype):
    """Named arguments of a call of the lowering `name`, which is the dispatcher's `overload`."""
    m = Maker(device, dtype)
    named = ARGUMENTS[name](m) if name in ARGUMENTS else {}
    for a in overload._schema.arguments:
        if a.name not in named and not a.has_default_value() and "Optional" not in str(a.real_type):
            named[a.name] = _from_schema(name, a, m)
    return named


NAMES = [*FROM_SCHEMA, *ARGUMENTS]
