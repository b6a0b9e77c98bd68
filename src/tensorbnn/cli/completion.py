"""``tensorbnn completion``: a script that lets a shell complete commands and options."""

import argparse

from tensorbnn.cli.options import Command, Option

SHELLS = ("bash", "zsh", "tcsh")
HOW = """\
bash:
  tensorbnn completion bash > ~/.local/share/bash-completion/completions/tensorbnn
zsh:
  tensorbnn completion zsh > a file _tensorbnn in a directory of $fpath
"""


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError as error:
        raise ImportError(
            "completion scripts need shtab: pip install 'tensorbnn[completion]'"
        ) from error
    print(shtab.complete(options.program, shell=options.shell))
    return 0


COMMAND = Command(
    "completion",
    "print a completion script for a shell",
    (Option("shell", kind="positional", choices=SHELLS),),
    run,
    epilog=HOW,
    formatter=argparse.RawDescriptionHelpFormatter,  # a path is not broken
)
