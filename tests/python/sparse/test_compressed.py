"""CSR, CSC, BSR and BSC tensors: values, indices and errors as on the CPU."""

import pytest
import torch
from harness import agree

DTYPES = [torch.float32, torch.float64, torch.complex64]
LAYOUTS = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


def dense(device, dtype=torch.float32):
    x = torch.tensor([[1.0, 0, 2, 0], [0, 0, 0, 0], [3, 4, 0, 5], [0, 6, 0, 0]])
    return (x * (1 + 2j) if dtype.is_complex else x).to(dtype).to(device)


def compressed(device, layout=torch.sparse_csr, dtype=torch.float32):
    blocks = {"blocksize": (2, 2)} if layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
    return dense(device, dtype).to_sparse(layout=layout, **blocks)


def parts(t):
    row_wise = t.layout in (torch.sparse_csr, torch.sparse_bsr)
    indices = (t.crow_indices(), t.col_indices()) if row_wise else (t.ccol_indices(), t.row_indices())
    return [*indices, t.values(), tuple(t.shape), str(t.layout)]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64, torch.bool])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_conversions(layout, dtype):
    def body(d):
        t = compressed(d, layout, dtype)
        there_and_back = t.cpu().to(d)
        return [parts(t), t.to_dense(), t.to_sparse().to_dense(), parts(there_and_back), parts(t.clone())]

    agree(body)


@pytest.mark.parametrize("target", [torch.sparse_csr, torch.sparse_csc])
@pytest.mark.parametrize("source", [torch.sparse_csr, torch.sparse_csc])
def test_conversions_between_layouts(source, target):
    agree(lambda d: parts(compressed(d, source).to_sparse(layout=target)))
    agree(lambda d: parts(dense(d).to_sparse().to_sparse(layout=target)))


@pytest.mark.parametrize("blocks", [(2, 2), (4, 1)])
def test_conversions_to_blocks(blocks):
    agree(lambda d: parts(compressed(d).to_sparse_bsr(blocks)))
    agree(lambda d: parts(dense(d).to_sparse().to_sparse_bsr(blocks)))
    agree(lambda d: compressed(d, torch.sparse_csc).to_sparse_bsc(blocks).to_dense())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_vectors_of_blocks_as_values(layout):
    agree(lambda d: (compressed(d, layout) * 2).to_dense())


@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
def test_creation(index_type):
    def body(d):
        crow, col = (torch.tensor(v, dtype=index_type, device=d) for v in ([0, 2, 2, 3], [0, 2, 1]))
        t = torch.sparse_csr_tensor(crow, col, torch.tensor([1.0, 2, 3], device=d), (3, 3), check_invariants=True)
        nothing = torch.sparse_csr_tensor(crow * 0, col[:0], torch.zeros(0, device=d), (3, 3))
        return parts(t), t.to_dense(), parts(t * 2), nothing.to_dense(), parts(nothing + nothing), parts(t + t)

    agree(body)


@pytest.mark.parametrize(
    "crow, col",
    [
        ([1, 2, 3], [0, 1, 0]),
        ([0, 2, 2], [0, 1, 0]),
        ([0, 2, 3], [0, 5, 0]),
        ([0, 2, 3], [1, 0, 0]),
        ([0, 4, 3], [0, 1, 0]),
    ],
)
def test_invalid_indices_are_refused(crow, col):
    def body(d):
        crow_d, col_d = torch.tensor(crow, device=d), torch.tensor(col, device=d)
        return torch.sparse_csr_tensor(crow_d, col_d, torch.ones(3, device=d), (2, 3), check_invariants=True)

    assert isinstance(agree(body), RuntimeError)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_products(layout, dtype):
    def body(d):
        t, x = compressed(d, layout, dtype), dense(d, dtype) + 1
        return [t @ x, x @ t, t @ x[0], torch.addmm(x, t, x, beta=2, alpha=3), torch.addmm(x, t, x, beta=0)]

    agree(body, tol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_results(dtype):
    def body(d):
        t = compressed(d, dtype=dtype)
        u = (dense(d, dtype).t() * 2).to_sparse_csr()
        sums = [t + u, torch.add(t, u, alpha=2), t - u, t * u, t * 3, t / 2, -t]
        return [*map(parts, sums), (t @ u).to_dense(), dense(d, dtype) + t]

    agree(body, tol=1e-5)


def test_functions_and_reductions():
    def body(d):
        t = compressed(d)
        reduced = [torch.sum(t, dim, keepdim=True) for dim in ((0,), (1,), (0, 1))]
        return [t.sum(), *map(parts, [t.sin(), t.abs(), t.sqrt(), t.relu(), t.transpose(0, 1), *reduced])]

    agree(body, tol=1e-6)


def test_sampled_products():
    def body(d):
        x = torch.arange(12.0, device=d).reshape(4, 3)
        out = torch.sparse.sampled_addmm(compressed(d), x, x.t().contiguous(), beta=0.5, alpha=2)
        return parts(out)

    agree(body, tol=1e-6)


def test_gradients():
    def body(d):
        t = compressed(d).requires_grad_()
        x = (dense(d) + 1).requires_grad_()
        (t @ x).square().sum().backward()
        return t.grad.to_dense(), x.grad

    agree(body, tol=1e-5)


def test_printing_names_the_device():
    text = repr(compressed("tpu"))
    assert "device='tpu:0'" in text and "layout=torch.sparse_csr" in text


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reducing_products(reduce):
    # Row 1 is empty, and equal products compete in row 2.
    dense = torch.tensor([[2.0, 0, -1, 4], [0, 0, 0, 0], [3, 3, 0, 3]])
    other = torch.tensor([[1.0, -2], [1, 5], [-3, 0], [1, -2]])

    def body(device, matrix):
        csr = matrix.to(device).to_sparse_csr().requires_grad_()
        x = other.clone().to(device).requires_grad_()
        out = torch.sparse.mm(csr, x, reduce)
        out.backward(torch.arange(out.numel(), dtype=out.dtype, device=device).view_as(out) + 1)
        return out, csr.grad.to_dense(), x.grad

    agree(body, dense, tol=1e-6)

    def forward(device, matrix):
        return torch.sparse.mm(matrix.to(device).to_sparse_csr(), other.to(device), reduce)

    agree(forward, torch.zeros(3, 4))
    assert isinstance(agree(forward, torch.ones(3, 5)), RuntimeError)
