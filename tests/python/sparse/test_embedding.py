"""Sparse gradients of embeddings and the optimizers that take them, as DLRM trains."""

import pytest
import torch
from harness import agree

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SparseAdam": lambda p: torch.optim.SparseAdam(list(p), lr=0.1),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("bag", [False, True])
def test_training(name, bag):
    def body(d):
        torch.manual_seed(0)
        make = torch.nn.EmbeddingBag if bag else torch.nn.Embedding
        options = {"mode": "sum"} if bag else {"padding_idx": 2}
        table = make(10, 3, sparse=True, **options).to(d)
        optimizer = OPTIMIZERS[name](table.parameters())
        losses, grads = [], []
        for step in range(4):
            tokens = torch.tensor([[1, 2, 1], [4, step, 9]], device=d)
            optimizer.zero_grad()
            loss = table(tokens).square().sum()
            loss.backward()
            grads.append(table.weight.grad.coalesce())
            optimizer.step()
            losses.append(loss.detach())
        return losses, grads, table.weight

    agree(body, tol=1e-5)


def test_gradients_of_two_uses_accumulate():
    def body(d):
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 3, sparse=True).to(d)
        for tokens in ([1, 2, 2], [2, 5]):
            table(torch.tensor(tokens, device=d)).sum().backward()
        mixed = torch.nn.Embedding(10, 3, sparse=True).to(d)
        (mixed(torch.tensor([1, 1], device=d)).sum() + mixed.weight.square().sum()).backward()
        return table.weight.grad.coalesce(), mixed.weight.grad

    agree(body, tol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_with_offsets_and_weights(mode):
    def body(d):
        torch.manual_seed(0)
        bag = torch.nn.EmbeddingBag(10, 3, mode=mode, sparse=True).to(d)
        tokens, offsets = torch.tensor([1, 2, 4, 5, 4], device=d), torch.tensor([0, 2, 2], device=d)
        weights = {"per_sample_weights": torch.arange(5.0, device=d)} if mode == "sum" else {}
        bag(tokens, offsets, **weights).square().sum().backward()
        return bag.weight.grad.coalesce()

    agree(body, tol=1e-6)
