"""Errors and warnings by their types and fields; `test_errors.py` holds their texts."""

import contextlib

import pytest


def _fields_of(told, fields):
    return {name: getattr(told, name) for name in fields}


@contextlib.contextmanager
def raises(kind, **fields):
    """Expect an error of this kind, with these fields."""
    with pytest.raises(kind) as caught:
        yield caught
    assert _fields_of(caught.value, fields) == fields


@contextlib.contextmanager
def warns(kind, **fields):
    """Expect a warning of this kind, with these fields."""
    with pytest.warns(kind) as caught:
        yield caught
    own = [each.message for each in caught if isinstance(each.message, kind)]
    assert fields in [_fields_of(each, fields) for each in own]
