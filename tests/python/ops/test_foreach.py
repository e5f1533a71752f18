"""What the CPU refuses of single tensors it refuses of lists of them."""

import pytest
import torch
from harness import agree


@pytest.mark.parametrize("name", ["erf", "erfc", "lgamma", "sign", "ceil", "frac"])
@pytest.mark.parametrize("suffix", ["", "_"])
def test_complex_numbers_are_refused(name, suffix):
    function = getattr(torch, f"_foreach_{name}{suffix}")
    error = agree(lambda device: function([torch.ones(2, dtype=torch.complex64, device=device)]))
    assert isinstance(error, (NotImplementedError, RuntimeError))
