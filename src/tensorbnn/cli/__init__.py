"""The command line, ``tensorbnn``; `program.py` lists its commands."""

from tensorbnn.cli.program import main

__all__ = ["main"]
