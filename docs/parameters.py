"""Each parameter of the API page has its own default: an extension of griffe, which reads them.

Of names that share a line, ``a, b``, griffe takes type and default of the first for all of them
(griffelib 2.4), so that the page would say that ``delta``, 0.1, is 4 by default. And ``*layers``
has ``()`` as its default, which says nothing.
"""

from typing import Any

import griffe


class OwnDefaults(griffe.Extension):
    """Types and defaults of parameters are those of the signature."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        correct(pkg)


def correct(parent: griffe.Module | griffe.Class) -> None:
    """Correct the docstrings of all functions and classes in a module or class."""
    for each in parent.members.values():
        if each.is_alias:
            continue
        if each.is_function or each.is_class:
            _correct(each)
        if each.is_module or each.is_class:
            correct(each)


def _correct(described: griffe.Function | griffe.Class) -> None:
    if described.docstring is None:
        return
    for section in described.docstring.parsed:
        if section.kind is not griffe.DocstringSectionKind.parameters:
            continue
        for parameter in section.value:
            name = parameter.name.lstrip("*")
            if name in described.parameters:
                own = described.parameters[name]
                several = own.kind is griffe.ParameterKind.var_positional
                parameter.annotation = own.annotation
                parameter.value = None if several else own.default
