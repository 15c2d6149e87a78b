"""The version of the package; the wheel is built with that of the workspace."""

__version__ = "0.1.0"
