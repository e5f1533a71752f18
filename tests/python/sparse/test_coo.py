"""COO tensors: values, entries and errors as on the CPU."""

import io

import pytest
import torch
from harness import agree

VALUE_DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.complex64, torch.float16]


def values_of(shape, dtype):
    n = torch.Size(shape).numel()
    values = torch.arange(1, n + 1).reshape(shape)
    if dtype == torch.bool:
        return values % 3 != 0
    if dtype.is_complex:
        return values.to(dtype) * (1 - 2j)
    return values.to(dtype)


def duplicates(device, dtype=torch.float32):
    """3 x 4, six entries, two places twice."""
    indices = torch.tensor([[0, 2, 2, 0, 1, 2], [1, 3, 1, 1, 0, 3]], device=device)
    return torch.sparse_coo_tensor(indices, values_of((6,), dtype).to(device), (3, 4), check_invariants=True)


def hybrid(device, dtype=torch.float32):
    indices = torch.tensor([[1, 0, 1], [0, 2, 0]], device=device)
    return torch.sparse_coo_tensor(indices, values_of((3, 2), dtype).to(device), (2, 3, 2), check_invariants=False)


def empty(device, dtype=torch.float32):
    return torch.sparse_coo_tensor((3, 4), dtype=dtype, device=device)


def other(device, dtype=torch.float32):
    indices = torch.tensor([[2, 0, 2, 2], [1, 1, 0, 3]], device=device)
    return torch.sparse_coo_tensor(indices, values_of((4,), dtype).to(device), (3, 4), check_invariants=False)


MAKERS = [duplicates, hybrid, empty]


def parts(t):
    return [t._indices(), t._values(), t.is_coalesced(), t._nnz(), t.sparse_dim(), t.dense_dim(), tuple(t.shape)]


@pytest.mark.parametrize("dtype", VALUE_DTYPES)
@pytest.mark.parametrize("maker", MAKERS)
class TestEachDtype:
    def test_coalesce(self, maker, dtype):
        agree(lambda d: parts(maker(d, dtype).coalesce()))

    def test_to_dense(self, maker, dtype):
        agree(lambda d: [maker(d, dtype).to_dense(), maker(d, dtype).coalesce().to_dense()])

    def test_from_dense(self, maker, dtype):
        agree(lambda d: parts(maker(d, dtype).to_dense().to_sparse()))
        agree(lambda d: parts(maker(d, dtype).to_dense().to_sparse(1)))

    def test_sum_of_two(self, maker, dtype):
        if dtype in (torch.bool, torch.float16):  # the CPU has no such kernel: dense sums are the reference
            expected = maker("cpu", dtype).to_dense() * 2
            assert torch.equal((maker("tpu", dtype) + maker("tpu", dtype)).to_dense().cpu(), expected.to(dtype))
            return
        agree(lambda d: parts(maker(d, dtype).coalesce() + maker(d, dtype).coalesce()))
        agree(lambda d: (maker(d, dtype) + maker(d, dtype)).coalesce())

    def test_added_to_dense(self, maker, dtype):
        def body(d):
            sparse = maker(d, dtype)
            dense = torch.ones(sparse.shape, dtype=dtype, device=d)
            out = dense + sparse
            dense.add_(sparse)
            return out, dense

        agree(body)

    def test_products(self, maker, dtype):
        def body(d):
            sparse = maker(d, dtype)
            dense = values_of(sparse.shape, dtype).to(d)
            return [parts(t) for t in (sparse * dense, dense * sparse, sparse * dense[:1], sparse.coalesce() * sparse)]

        agree(body)

    def test_copies(self, maker, dtype):
        def body(d):
            sparse = maker(d, dtype)
            there_and_back = sparse.cpu().to(d)
            copied = torch.sparse_coo_tensor(sparse.shape, dtype=dtype, device=d).to_sparse(sparse.sparse_dim())
            copied = torch.empty_like(sparse).copy_(sparse)
            return [parts(t) for t in (sparse.clone(), there_and_back, copied, sparse.to(torch.complex128))]

        agree(body)

    def test_transposition(self, maker, dtype):
        agree(lambda d: [parts(maker(d, dtype).transpose(0, 1)), parts(maker(d, dtype).unsqueeze(0))])

    def test_index_select(self, maker, dtype):
        def body(d):
            sparse = maker(d, dtype)
            pick = torch.tensor([1, 0, 1], device=d)
            return [parts(sparse.index_select(dim, pick)) for dim in range(sparse.dim())]

        agree(body)

    def test_narrow_copy(self, maker, dtype):
        agree(lambda d: [parts(maker(d, dtype).narrow_copy(k, 0, 2)) for k in range(2)])

    def test_mask(self, maker, dtype):
        def body(d):
            mask = maker(d, dtype)
            dense = values_of(mask.shape, dtype).to(d)
            sparse = maker(d, dtype).coalesce()
            return parts(dense.sparse_mask(mask)), parts(sparse.sparse_mask(mask)), parts(sparse.sparse_mask(sparse))

        agree(body)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    "name",
    [
        "abs",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "deg2rad",
        "erf",
        "erfinv",
        "expm1",
        "floor",
        "frac",
        "isinf",
        "isnan",
        "isneginf",
        "isposinf",
        "log1p",
        "nan_to_num",
        "neg",
        "rad2deg",
        "relu",
        "round",
        "sgn",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    ],
)
def test_zero_preserving_functions(name, maker):
    agree(lambda d: parts(getattr(torch, name)(maker(d).coalesce() / 8)), tol=1e-6)


@pytest.mark.parametrize("maker", MAKERS)
def test_scalar_arithmetic(maker):
    def body(d):
        s = maker(d)
        out = [s * 2, 2 * s, s / 4, s // 2, -s, s**2, s.mul(torch.tensor(3.0, device=d)), s - s]
        s = s.clone()
        s *= 2
        s /= 4
        s += s.clone()
        return [t.coalesce() for t in [*out, s]]

    agree(body)


@pytest.mark.parametrize("maker", MAKERS)
def test_reductions(maker):
    def body(d):
        s = maker(d)
        sums = [torch.sparse.sum(s, dim) for dim in (0, 1, [0, 1], list(range(s.dim())))]
        return [
            s.sum(),
            torch.sparse.sum(s),
            s.norm(),
            s.coalesce().norm(),
            *[t.coalesce() if t.is_sparse else t for t in sums],
        ]

    agree(body, tol=1e-6)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("log", [False, True])
def test_softmax(maker, log):
    function = torch.sparse.log_softmax if log else torch.sparse.softmax

    def body(d):
        results = []
        for dim in range(maker(d).dim()):
            s = maker(d).coalesce().double().requires_grad_()
            out = function(s, dim)
            (out * torch.arange(out.shape[1], device=d).reshape(-1, *[1] * (out.dim() - 2))).to_dense().sum().backward()
            results += [parts(out.detach()), s.grad.to_dense()]
        return results

    agree(body, tol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.complex64])
def test_products_with_dense_results(dtype):
    def body(d):
        s, dense = duplicates(d, dtype), values_of((4, 5), dtype).to(d)
        return torch.sparse.mm(s, dense), s @ dense[:, 0], torch.bmm(torch.stack([s, s]), torch.stack([dense, dense]))

    agree(body, tol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("maker", [duplicates, empty])
def test_matrix_products(maker, dtype):
    def body(d):
        s, dense = maker(d, dtype), values_of((4, 5), dtype).to(d)
        left, bias = values_of((2, 3), dtype).to(d), values_of((3, 5), dtype).to(d)
        return [
            torch.sparse.mm(s, dense),
            s @ dense,
            s.mm(dense.t().contiguous().t()),
            left @ s,
            s @ dense[:, 0],
            torch.addmm(bias, s, dense, beta=2, alpha=3),
            torch.sparse.addmm(bias, s, dense, beta=0),
            bias.clone().addmm_(s, dense),
            torch.addmm(bias[0], s, dense),
            torch.bmm(torch.stack([s, s * 2]), torch.stack([dense, dense + 1])),
            parts(torch.hspmm(s, dense)),
            torch.sspaddmm(torch.zeros(3, 5, dtype=dtype, device=d).to_sparse(), s, dense).coalesce(),
            parts(torch.sparse.mm(s, s.t())),
        ]

    agree(body, tol=1e-5)


def test_gradients_of_products():
    def body(d):
        s = duplicates(d).double().requires_grad_()
        dense = torch.arange(20.0, dtype=torch.float64, device=d).reshape(4, 5).requires_grad_()
        torch.sparse.mm(s, dense).square().sum().backward()
        return s.grad.to_dense(), dense.grad

    agree(body, tol=1e-12)


def test_gradients_of_sparse_products():
    def body(d):
        a, b = (duplicates(d).double().coalesce().requires_grad_() for _ in range(2))
        torch.sparse.sum(torch.sparse.mm(a, b.t())).backward()
        return a.grad.to_dense(), b.grad.to_dense()

    agree(body, tol=1e-12)


def test_gradients_of_conversions():
    def body(d):
        x = torch.arange(12.0, device=d).reshape(3, 4).requires_grad_()
        (x.to_sparse() * 3).to_dense().square().sum().backward()
        values = torch.ones(3, device=d, requires_grad=True)
        s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 2]], device=d), values, (2, 3))
        torch.sparse.sum(s.coalesce(), 0).to_dense().square().sum().backward()
        return x.grad, values.grad

    agree(body)


@pytest.mark.parametrize("dims", [[0], [1], [0, 1], [2], [0, 2], [0, 1, 2]])
def test_gradients_of_sums(dims):
    def body(d):
        s = hybrid(d).coalesce().requires_grad_()
        out = torch.sparse.sum(s, dims)
        (out.to_dense() if out.is_sparse else out).square().sum().backward()
        return s.grad.to_dense()

    agree(body)


def test_products_of_two_layouts_of_entries():
    def body(d):
        s, t = duplicates(d), other(d)
        pairs = [(s.coalesce(), t.coalesce()), (t.coalesce(), s.coalesce()), (s.coalesce(), t), (s, t.coalesce())]
        far = torch.sparse_coo_tensor(torch.tensor([[1], [3]], device=d), torch.ones(1, device=d), (3, 4)).coalesce()
        return [parts((a * b).coalesce()) for a, b in [*pairs, (s.coalesce(), far)]]

    agree(body)


def test_in_place_and_out_forms():
    def body(d):
        s, t = duplicates(d).coalesce(), other(d).coalesce()
        out = torch.sparse_coo_tensor((3, 4), device=d)
        torch.add(s, t, alpha=2, out=out)
        added = s.clone().add_(t)
        multiplied = s.clone().mul_(t)
        zeroed = s.clone().zero_()
        rooted = torch.sqrt(s, out=torch.sparse_coo_tensor((3, 4), device=d))
        return [parts(x.coalesce()) for x in (out, added, multiplied, zeroed, rooted, s.clone().neg_())]

    agree(body)


def test_catenation_and_resizing():
    def body(d):
        s = duplicates(d)
        wide = s.clone().sparse_resize_((5, 6), 2, 0)
        cleared = s.clone().sparse_resize_and_clear_((2, 2, 2), 2, 1)
        return [parts(x) for x in (torch.cat([s, s], 0), torch.cat([s, s], 1), torch.stack([s, s]), wide, cleared)]

    agree(body)


@pytest.mark.parametrize(
    "body",
    [
        lambda d: duplicates(d) + torch.ones(3, 4, device=d),
        lambda d: duplicates(d) + hybrid(d),
        lambda d: duplicates(d) / torch.ones(3, 4, device=d),
        lambda d: duplicates(d) @ torch.ones(3, 4, device=d),
        lambda d: duplicates(d) @ torch.ones(4, 3, device=d, dtype=torch.float64),
        lambda d: duplicates(d).exp(),
        lambda d: duplicates(d).indices(),
        lambda d: duplicates(d).index_select(0, torch.tensor([5], device=d)),
        lambda d: torch.sparse_coo_tensor(
            torch.tensor([[0, 3]], device=d), torch.ones(2, device=d), (3,), check_invariants=True
        ),
        lambda d: torch.sparse_coo_tensor(torch.tensor([[0, -1]], device=d), torch.ones(2, device=d)),
        lambda d: torch.ones(2, 2, device=d).sparse_mask(duplicates(d)),
        lambda d: torch.ones(2, 2, device=d).sspaddmm(duplicates(d), torch.ones(4, 2, device=d)),
        lambda d: duplicates(d).mul(hybrid(d)),
        lambda d: torch.sparse.softmax(duplicates(d, torch.int64), 0),
    ],
)
def test_errors(body):
    assert isinstance(agree(body), Exception)


def test_printing_names_the_device():
    text = repr(duplicates("tpu"))
    assert "device='tpu:0'" in text and "nnz=6" in text and "layout=torch.sparse_coo" in text
    assert text.replace("device='tpu:0', ", "") == repr(duplicates("cpu"))


def test_saving():
    s = duplicates("tpu")
    file = io.BytesIO()
    torch.save(s, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded.device.type == "tpu" and loaded.is_sparse
    assert torch.equal(loaded.cpu().to_dense(), duplicates("cpu").to_dense())


def test_many_counts_reuse_the_programs_of_coalescing():
    from harness import count_programs

    def distinct(n):
        indices = (torch.arange(40) % n).reshape(1, -1).to("tpu")
        return torch.sparse_coo_tensor(indices, torch.ones(40, device="tpu"), (40,), check_invariants=False)

    distinct(17).coalesce()
    with count_programs() as programs:
        for n in (18, 19, 25, 31):
            assert distinct(n).coalesce()._nnz() == n
    assert programs.value == 0
