"""The command line, ``tensorbnn``: its commands are listed in `program.py`."""

from tensorbnn.cli.program import main

__all__ = ["main"]
