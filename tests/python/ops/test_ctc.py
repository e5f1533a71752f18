"""ctc_loss with lengths that the host knows: CPU's numbers, and no new program for new lengths."""

import pytest
import torch
from harness import agree, count_programs
from torch.nn import functional as F


def loss_and_gradient(device, input_lengths, target_lengths, packed):
    torch.manual_seed(0)
    logits = torch.randn(12, 3, 6)
    targets = torch.randint(1, 6, (3, 7))
    if packed:
        targets = torch.cat([row[:n] for row, n in zip(targets, target_lengths)])
    x = logits.to(device).requires_grad_()
    loss = F.ctc_loss(x.log_softmax(2), targets.to(device), input_lengths, target_lengths, reduction="none")
    loss.sum().backward()
    return loss, x.grad


LENGTHS = [((12, 10, 8), (3, 2, 1)), ((12, 12, 12), (7, 0, 5)), ((9, 2, 12), (4, 4, 6))]


@pytest.mark.parametrize("packed", [False, True], ids=["rows", "packed"])
def test_int_lengths(packed):
    for input_lengths, target_lengths in LENGTHS:
        agree(loss_and_gradient, input_lengths, target_lengths, packed, tol=1e-5)


def test_new_lengths_are_no_new_program():
    loss_and_gradient("tpu", *LENGTHS[0], False)
    with count_programs() as programs:
        for lengths in LENGTHS[1:]:
            loss_and_gradient("tpu", *lengths, False)
    assert programs.value == 0


def test_errors_of_lengths():
    for lengths in [((13, 1, 1), (1, 1, 1)), ((1, 1, 1), (8, 1, 1)), ((1, -1, 1), (1, 1, 1)), ((1, 1), (1, 1, 1))]:
        assert isinstance(agree(loss_and_gradient, *lengths, False), RuntimeError)
