"""Options of a command from a TOML file; those of the command line win."""

import argparse
import difflib
import tomllib
from pathlib import Path
from typing import Any


def fill_in(
    options: argparse.Namespace, parser: argparse.ArgumentParser, defaults: dict[str, Any]
) -> None:
    """Give every option that was not given its value in ``--settings``, or its default."""
    found = {} if options.settings is None else _read(options.settings, parser)
    for name, value in {**defaults, **found}.items():
        if (given := getattr(options, name)) is None or given is False:
            setattr(options, name, value)


def _read(file: Path, parser: argparse.ArgumentParser) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {file}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not TOML: {error}") from error
    actions = {
        action.dest: action
        for action in parser._actions
        if action.dest not in ("help", "settings", "json", "quiet", "force")
    }
    found = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in actions:
            near = difflib.get_close_matches(name, actions, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(actions)}"
            raise ValueError(f"{file} has the unknown setting {key!r}: {hint}")
        found[name] = _value(file, key, value, actions[name])
    return found


def _value(file: Path, key: str, value: Any, action: argparse.Action) -> Any:
    """A value of the file as the command line would give it."""
    if isinstance(action, argparse._AppendAction):
        return [str(each) for each in value] if isinstance(value, list) else [str(value)]
    if isinstance(action, argparse._StoreTrueAction):
        if not isinstance(value, bool):
            raise ValueError(f"{file}: {key} must be true or false, got {value!r}")
        return value
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    try:
        made = action.type(text) if callable(action.type) else text
    except (argparse.ArgumentTypeError, ValueError) as error:
        reason = error if isinstance(error, argparse.ArgumentTypeError) else f"can't be {text!r}"
        raise ValueError(f"{file}: {key} {reason}") from error
    if action.choices is not None and made not in action.choices:
        raise ValueError(f"{file}: {key} must be one of {list(action.choices)}, got {text!r}")
    return made
