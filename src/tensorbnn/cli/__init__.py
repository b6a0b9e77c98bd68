"""The command line, ``tensorbnn``: each command is a file here, listed in `program.py`."""

from tensorbnn.cli.program import main

__all__ = ["main"]
