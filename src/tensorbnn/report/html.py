"""Pieces of an HTML page; every text that is put in is escaped here and nowhere else."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Html:
    """Text that is HTML already."""

    text: str


Piece = str | Html
# What is aligned as a number: it may have a unit, or another number, after it.
_NUMBER = re.compile(r"[-+]?(\d|nan|inf)")


def escape(piece: Piece) -> str:
    """HTML as it is, other text with its special characters written out."""
    return piece.text if isinstance(piece, Html) else html.escape(piece, quote=True)


def element(name: str, *inside: Piece, **attributes: str) -> Html:
    """An element; ``class_`` stands for ``class``.

    Examples
    --------
    >>> element("p", "a < b", class_="note").text
    '<p class="note">a &lt; b</p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value, quote=True)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{given}>{''.join(map(escape, inside))}</{name}>")


def join(pieces: Iterable[Piece]) -> Html:
    """Pieces one after the other."""
    return Html("\n".join(map(escape, pieces)))


def paragraph(*inside: Piece, class_: str = "") -> Html:
    """A paragraph."""
    return element("p", *inside, class_=class_) if class_ else element("p", *inside)


def table(head: Sequence[Piece], rows: Iterable[Sequence[Piece]]) -> Html:
    """A table that scrolls by itself where it is too wide; its first column names the rows."""
    listed = list(rows)
    kinds = ["number" if _are_numbers(column) else "text" for column in zip(*listed, strict=True)]
    kinds = ["text", *kinds[1:]] if kinds else ["text"] * len(head)
    top = element(
        "tr",
        *(
            element("th", each, scope="col", class_=kind)
            for each, kind in zip(head, kinds, strict=True)
        ),
    )
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", class_="text"),
            *(
                element("td", each, class_=kind)
                for each, kind in zip(row[1:], kinds[1:], strict=True)
            ),
        )
        for row in listed
    ]
    inside = element("table", element("thead", top), element("tbody", *body))
    return element("div", inside, class_="wide", tabindex="0", role="region", aria_label="table")


def _are_numbers(cells: Iterable[Piece]) -> bool:
    return all(isinstance(each, str) and _NUMBER.match(each) for each in cells)


def facts(pairs: Mapping[str, Piece]) -> Html:
    """Names and what they are."""
    inside = [
        element("div", element("dt", name), element("dd", value)) for name, value in pairs.items()
    ]
    return element("dl", *inside)


def image(source: str, says: str, caption: Piece) -> Html:
    """A figure; `says` is read out to who can't see it."""
    picture = Html(f'<img alt="{html.escape(says, quote=True)}" src="{source}">')
    return element("figure", picture, element("figcaption", caption))


def code(text: str) -> Html:
    """Lines to copy."""
    return element("pre", element("code", text), tabindex="0")


def section(name: str, title: str, *inside: Piece) -> Html:
    """A part of the page that can be linked to."""
    return element("section", element("h2", title), *inside, id=name)


def document(title: str, style: str, *inside: Piece) -> str:
    """The whole page."""
    head = [
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html(
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "img-src data:; style-src 'unsafe-inline'\">"
        ),
        Html('<link rel="icon" href="data:,">'),
        element("title", title),
        element("style", Html(style)),
    ]
    body = element("body", *inside)
    return (
        f'<!doctype html>\n<html lang="en">\n{join([element("head", *head), body]).text}\n</html>\n'
    )
