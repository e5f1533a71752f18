"""Runs PyTorch's own descriptions of its operators, modules and optimizers on the tpu device and compares with the CPU.

    cd tests && python -m conformance --help

`catalog` says what there is to check, `checks_*` do it, `runner` keeps each piece in a worker process that may crash or
hang, `expectations` knows what is known to fail, `tables` writes docs/conformance.md. `test_fast_slice.py` is the part
that pytest runs.
"""
