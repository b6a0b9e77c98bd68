"""Tables on disk and what a command prints, for tests of the commands."""

import csv
import json

from tensorbnn.cli import main


def write(file, columns):
    with file.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return file


def table(file):
    with open(file, newline="") as lines:
        rows = list(csv.DictReader(lines))
    return {name: [row[name] for row in rows] for name in rows[0]}


def result(capsys, *arguments, code=0):
    """The JSON that a command prints."""
    assert main([*arguments, "--json", "--quiet"]) == code
    return json.loads(capsys.readouterr().out)
