"""Completion scripts name every command and its options, and are what the shell can read."""

import shutil
import subprocess

import pytest

from tensorbnn.cli import main
from tensorbnn.cli.program import COMMANDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_scripts(shell, capsys, tmp_path):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS:
        assert command.name in script
    assert "validation" in script
    assert "target-sd" in script
    program = shutil.which(shell)
    if program is not None and shell != "tcsh":
        (tmp_path / "script").write_text(script)
        subprocess.run([program, "-n", tmp_path / "script"], check=True, timeout=60)
