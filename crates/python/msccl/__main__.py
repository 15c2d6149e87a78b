"""``python -m msccl`` is the command ``msccl``."""

from msccl._command import main

if __name__ == "__main__":
    main()
