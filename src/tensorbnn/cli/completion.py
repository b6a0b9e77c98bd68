"""``tensorbnn completion``: a script that lets a shell complete commands and options."""

import argparse
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")
HOW = """\
bash:
  tensorbnn completion bash > ~/.local/share/bash-completion/completions/tensorbnn
zsh:
  tensorbnn completion zsh > a file _tensorbnn in a directory of $fpath
"""


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        epilog=HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,  # a path is not broken
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(command=run, commands=commands)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError as error:
        raise ImportError(
            "completion scripts need shtab: pip install 'tensorbnn[completion]'"
        ) from error
    for command in options.commands.choices.values():
        _complete_paths(command)
    print(shtab.complete(options.program, shell=options.shell))
    return 0


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    import shtab

    for action in parser._actions:
        if action.dest in ("data", "at", "settings", "out"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.dest in ("run", "old", "new"):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
