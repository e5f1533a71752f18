"""complex32, which XLA does not have: arrays of words, computed in complex64."""

import pytest
import torch
from harness import agree

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


def make(device, *shape):
    g = torch.Generator().manual_seed(0)
    return torch.randn(*shape, dtype=torch.complex64, generator=g).to(torch.complex32).to(device)


BODIES = {
    "round trip": lambda d: make(d, 3, 4).cpu(),
    "arithmetic": lambda d: [make(d, 3, 4) + 2, make(d, 3, 4) * make(d, 4), make(d, 3) - 1j, make(d, 3) == make(d, 3)],
    "parts": lambda d: [make(d, 3).real, make(d, 3).imag, make(d, 3).abs(), torch.view_as_real(make(d, 3))],
    "conjugate": lambda d: [make(d, 3).conj() + 1, make(d, 3).conj().resolve_conj(), make(d, 2, 2).mH.contiguous()],
    "conversions": lambda d: [
        make(d, 3).to(torch.complex64),
        torch.ones(3, device=d).chalf(),
        make(d, 3).to(torch.complex128),
    ],
    "views": lambda d: [
        make(d, 4, 6)[1::2, ::3].clone(),
        make(d, 4, 6).diagonal().clone(),
        make(d, 24).as_strided((3, 4), (4, 2)).clone(),
    ],
    "from halves": lambda d: torch.view_as_complex(torch.arange(6.0, device=d).half().view(3, 2)),
    "factories": lambda d: [
        torch.zeros(2, dtype=torch.complex32, device=d),
        torch.full((2,), 1 + 2j, dtype=torch.complex32, device=d),
    ],
    "item": lambda d: make(d, 3)[1].item(),
    "cat": lambda d: torch.cat([make(d, 3), make(d, 2)]),
    "foreach": lambda d: torch._foreach_add([make(d, 3), make(d, 2)], 1),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_as_on_the_cpu(body):
    agree(body)


def test_writes_through_views():
    def body(d):
        x = make(d, 4, 6)
        x[1] = 3 - 2j
        x[:, ::2].add_(1)
        x.real[2].fill_(7)
        x.diagonal().mul_(2)
        x.as_strided((2, 3), (7, 2)).zero_()
        return x

    agree(body)
