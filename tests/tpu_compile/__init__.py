"""Compiles the programs of all lowerings for TPUs that are not there, with libtpu.

    cd tests && python -m tpu_compile --help

`calls` lists the calls that reach lowerings, from PyTorch's OpInfo samples and for ops that those leave out. `recorder`
makes them on the device at hand and keeps the program that each would have on a TPU; `worker` does so in a process of
its own. `compiler` hands programs to libtpu in a worker process with a time limit, `judge` knows which outcomes are
acceptable, `report` writes docs/tpu_compile.md. `test_slice.py` is the part that pytest runs.
"""
