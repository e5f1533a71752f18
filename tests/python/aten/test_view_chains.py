"""Random chains of views and writes equal CPU's, element for element."""

import torch
from harness import compare
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# A small set of base shapes keeps the number of compiled programs bounded.
BASES = [(4, 6), (2, 3, 4), (12,)]


@st.composite
def view_step(draw, t):
    """One view of `t` (the CPU tensor, which the device's mirrors) as a function."""
    options = ["slice", "select", "step"] if t.dim() and t.numel() else []
    options += ["unsqueeze", "expand", "as_strided", "identity"]
    if t.dim() >= 2:
        options += ["transpose", "diagonal", "flip_order"]
    if t.is_contiguous() and t.numel() % 2 == 0 and t.numel():
        options.append("view")
    kind = draw(st.sampled_from(options))
    if kind == "identity":
        return lambda x: x
    if kind == "unsqueeze":
        d = draw(st.integers(0, t.dim()))
        return lambda x: x.unsqueeze(d)
    if kind == "expand":
        return lambda x: x.expand(2, *x.shape) if x.dim() < 3 else x
    if kind == "as_strided":
        # Inside the storage, with any offset.
        n = t.untyped_storage().nbytes() // t.element_size()
        size, stride = draw(st.integers(1, 3)), draw(st.integers(1, 4))
        size = min(size, (n - 1) // stride + 1)
        offset = draw(st.integers(0, n - 1 - (size - 1) * stride))
        return lambda x: x.as_strided((size,), (stride,), offset)
    if kind == "view":
        return lambda x: x.view(2, -1)
    if kind == "diagonal":
        return lambda x: x.diagonal()
    if kind == "flip_order":
        return lambda x: x.permute(*reversed(range(x.dim())))
    d = draw(st.integers(0, t.dim() - 1))
    n = t.shape[d]
    if kind == "transpose":
        e = draw(st.integers(0, t.dim() - 1))
        return lambda x: x.transpose(d, e)
    if n == 0:
        return lambda x: x
    start = draw(st.integers(0, n - 1))
    if kind == "select":
        return lambda x: x.select(d, start)
    length = draw(st.integers(1, n - start))
    if kind == "slice":
        return lambda x: x.narrow(d, start, length)
    index = (slice(None),) * d + (slice(start, start + length, 2),)
    return lambda x: x[index]


WRITES = {
    "add": lambda v, k: v.add_(k),
    "fill": lambda v, k: v.fill_(k),
    "copy": lambda v, k: v.copy_(v * 2 + k),
    "from_host": lambda v, k: v.copy_(torch.arange(float(v.numel())).reshape(v.shape) * k),
    "zero": lambda v, k: v.zero_(),
}


def overlaps(v):
    return any(s == 0 and n > 1 for s, n in zip(v.stride(), v.shape, strict=True))


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_chains_of_views_and_writes(data):
    shape = data.draw(st.sampled_from(BASES))
    n = 1
    for s in shape:
        n *= s
    cpu = torch.arange(float(n)).reshape(shape)
    tpu = cpu.to("tpu")
    views = [(cpu, tpu)]
    for _ in range(data.draw(st.integers(1, 4))):
        c, t = views[data.draw(st.integers(0, len(views) - 1))]
        step = data.draw(view_step(c))
        c, t = step(c), step(t)
        assert (c.shape, c.stride(), c.storage_offset()) == (t.shape, t.stride(), t.storage_offset())
        views.append((c, t))
        if not overlaps(c):
            name = data.draw(st.sampled_from(sorted(WRITES)))
            k = data.draw(st.integers(-3, 3))
            WRITES[name](c, k)
            WRITES[name](t, k)
    for i, (c, t) in enumerate(views):
        compare(t, c, path=f"view {i}")
