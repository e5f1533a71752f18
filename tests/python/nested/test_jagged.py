"""Nested tensors of the jagged layout, and what the strided layout has."""

import pytest
import torch
from harness import agree


def rows(device, width=4, requires_grad=False):
    torch.manual_seed(0)
    return [torch.randn(n, width).to(device).requires_grad_(requires_grad) for n in (2, 5, 3)]


def jagged(device, **options):
    return torch.nested.nested_tensor(rows(device), layout=torch.jagged, device=device, **options)


def pieces(nested):
    return list(nested.unbind())


def test_construction():
    def body(d):
        made = [jagged(d), torch.nested.as_nested_tensor(rows(d), layout=torch.jagged)]
        values, offsets = torch.cat(rows(d)), torch.tensor([0, 2, 7, 10], device=d)
        made.append(torch.nested.nested_tensor_from_jagged(values, offsets))
        made.append(torch.nested.nested_tensor_from_jagged(values, lengths=torch.tensor([2, 5, 3], device=d)))
        return [[*pieces(n), n.values(), n.offsets()] for n in made]

    agree(body)


def test_padding():
    def body(d):
        n = jagged(d)
        padded = n.to_padded_tensor(-1.0)
        longer = torch.nested.to_padded_tensor(n, 0.5, output_size=(3, 7, 4))
        values, offsets = n.values(), n.offsets()
        forward = torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets], [3], 9.0)
        back = torch.ops.aten._padded_dense_to_jagged_forward(padded, [offsets], 10)
        counted = torch.ops.aten._padded_dense_to_jagged_forward(padded, [offsets])
        return padded, longer, forward, back, counted

    agree(body)


def test_no_sequences_and_empty_ones():
    def body(d):
        offsets = torch.tensor([0, 0, 2, 2], device=d)
        values = torch.arange(6.0, device=d).reshape(2, 3)
        padded = torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets], [2], 0.0)
        nothing = torch.ops.aten._jagged_to_padded_dense_forward(values[:0], [offsets * 0], [2], 7.0)
        return padded, nothing, torch.ops.aten._padded_dense_to_jagged_forward(padded, [offsets], 2)

    agree(body)


@pytest.mark.parametrize(
    "function",
    [
        lambda n: n + n,
        lambda n: n * 2 - 1,
        lambda n: torch.nn.functional.gelu(n),
        lambda n: n.sin().exp(),
        lambda n: n.clone(),
        lambda n: n.transpose(1, 2),
        lambda n: n.unsqueeze(-1),
        lambda n: torch.softmax(n, -1),
        lambda n: n.sum(-1, keepdim=True),
        lambda n: torch.nn.functional.layer_norm(n, (4,)),
        lambda n: torch.where(n > 0, n, n * 0.1),
        lambda n: n.to(torch.float64),
    ],
)
def test_functions(function):
    agree(lambda d: pieces(function(jagged(d))), tol=1e-5)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sums(dim):
    def body(d):
        out = jagged(d).sum(dim)
        return pieces(out) if out.is_nested else out

    agree(body, tol=1e-5)


def test_modules_and_gradients():
    def body(d):
        leaves = rows(d, requires_grad=True)
        n = torch.nested.as_nested_tensor(leaves, layout=torch.jagged)
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.LayerNorm(6), torch.nn.ReLU()).to(d)
        model(n).values().square().sum().backward()
        return [t.grad for t in leaves] + [p.grad for p in model.parameters()]

    agree(body, tol=1e-5)


def test_gradients_of_padding():
    def body(d):
        leaves = rows(d, requires_grad=True)
        n = torch.nested.as_nested_tensor(leaves, layout=torch.jagged)
        n.to_padded_tensor(0.0).square().sum().backward()
        return [t.grad for t in leaves]

    agree(body)


def test_matmul():
    agree(lambda d: pieces(jagged(d) @ torch.arange(12.0, device=d).reshape(4, 3)), tol=1e-5)


def test_attention():
    def body(d):
        leaves = [t.requires_grad_() for t in rows(d, width=8)]
        n = torch.nested.as_nested_tensor(leaves, layout=torch.jagged)
        heads = n.unflatten(-1, (2, 4)).transpose(1, 2)
        out = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        out.transpose(1, 2).values().square().sum().backward()
        return [*pieces(out.transpose(1, 2)), *[t.grad for t in leaves]]

    agree(body, tol=1e-4)


def test_strided_layout():
    def body(d):
        n = torch.nested.nested_tensor(rows(d), device=d)
        return [n.to_padded_tensor(0.0), *pieces(n), *pieces(n * 2), *pieces(n + n), *pieces(n.relu())]

    agree(body)


def test_strided_layout_names_what_it_lacks():
    n = torch.nested.nested_tensor(rows("tpu"), device="tpu")
    with pytest.raises(NotImplementedError):
        n.erf()
