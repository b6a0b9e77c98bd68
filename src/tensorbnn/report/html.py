"""Elements of an HTML page; all text is escaped here and nowhere else."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Html:
    """Text that is already HTML."""

    text: str


Piece = str | Html
# Cells aligned as numbers; a unit or another number may follow.
_NUMBER = re.compile(r"[-+]?(\d|nan|inf)")


def element(name: str, *inside: Piece, **attributes: str) -> Html:
    """An element; pass ``class_`` for the attribute ``class``.

    Examples
    --------
    >>> element("p", "a < b", class_="note").text
    '<p class="note">a &lt; b</p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value, quote=True)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{given}>{''.join(map(_escape, inside))}</{name}>")


def paragraph(*inside: Piece, class_: str = "") -> Html:
    """A paragraph."""
    return element("p", *inside, class_=class_) if class_ else element("p", *inside)


def table(head: Sequence[Piece], rows: Iterable[Sequence[Piece]]) -> Html:
    """A table that scrolls if it is too wide; its first column names the rows."""
    listed = list(rows)
    kinds = ["text"] * len(head)
    for place, column in list(enumerate(zip(*listed, strict=True)))[1:]:
        if all(isinstance(each, str) and _NUMBER.match(each) for each in column):
            kinds[place] = "number"
    named = zip(head, kinds, strict=True)
    cells = [element("th", each, scope="col", class_=kind) for each, kind in named]
    body = []
    for row in listed:
        own = zip(row[1:], kinds[1:], strict=True)
        values = [element("td", each, class_=kind) for each, kind in own]
        body.append(element("tr", element("th", row[0], scope="row", class_="text"), *values))
    inside = element("table", element("thead", element("tr", *cells)), element("tbody", *body))
    return element("div", inside, class_="wide", tabindex="0", role="region", aria_label="table")


def facts(pairs: Mapping[str, Piece]) -> Html:
    """A table of names and values."""
    rows = [(element("dt", name), element("dd", value)) for name, value in pairs.items()]
    return element("dl", *(element("div", *row) for row in rows))


def figures(*inside: Html) -> Html:
    """Figures side by side, if there is space."""
    return element("div", *inside, class_="figures")


def image(source: str, says: str, caption: Piece) -> Html:
    """A figure; `says` is its text for screen readers."""
    picture = Html(f'<img alt="{html.escape(says, quote=True)}" src="{source}">')
    return element("figure", picture, element("figcaption", caption))


def code(text: str) -> Html:
    """A block of code to copy."""
    return element("pre", element("code", text), tabindex="0")


def section(name: str, title: str, *inside: Piece) -> Html:
    """A part of the page, with a link to it."""
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
    page = f"{element('head', *head).text}\n{element('body', *inside).text}"
    return f'<!doctype html>\n<html lang="en">\n{page}\n</html>\n'


def _escape(piece: Piece) -> str:
    """Escape text, but leave HTML unchanged."""
    return piece.text if isinstance(piece, Html) else html.escape(piece, quote=True)
