"""As much of PyTorch as finds, registers and makes a backend. It is imagined: PyTorch itself is
large, and needs a GPU to make a group of NCCL."""

import os

#: Whether this is a PyTorch that reads the entry points of backends, as 2.14 and later do.
READS_ENTRY_POINTS = os.environ["IMAGINED_TORCH"] == "2.14"
__version__ = os.environ["IMAGINED_TORCH"] + ".0"
