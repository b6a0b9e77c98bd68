"""The documentation is true: its Python runs, its links lead somewhere, no public name is left out.

The ``python`` blocks of a page are one program: they run in order, in one namespace, in a directory
of their own. Blocks with another info string (``text``, ``sh``) are only shown.
"""

import re
from pathlib import Path

import pytest

import tensorbnn as tb

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
}

FENCE = re.compile(r"^( *)(```+)(.*)$")
# [text](target) and ![text](target); the text may go over a line.
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


def blocks(page: str) -> list[tuple[int, str, str]]:
    """Line number, info string and text of every fenced block of a page."""
    found, lines, begin, info = [], [], 0, None
    for number, line in enumerate(page.splitlines(), start=1):
        fence = FENCE.match(line)
        if fence and info is None:
            assert not fence[1], f"line {number}: an indented block would not be run"
            begin, info, lines = number, fence[3].strip(), []
        elif fence and not fence[3]:
            found.append((begin, info, "\n".join(lines)))
            info = None
        elif info is not None:
            lines.append(line)
    assert info is None, f"the block at line {begin} has no end"
    return found


def prose(page: str) -> str:
    """A page without its fenced blocks and code spans."""
    for _, info, text in blocks(page):
        page = page.replace(f"```{info}\n{text}\n```", "")
    return re.sub(r"`[^`\n]+`", "code", page)


def anchors(page: str) -> set[str]:
    """What ``#...`` may name on a page: its headings in lower case, with hyphens for spaces."""
    titles = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in HEADING.findall(page)]
    return {re.sub(r"[-\s]+", "-", title) for title in titles}


def python_blocks(name: str) -> list[tuple[int, str]]:
    return [(line, text) for line, info, text in blocks(PAGES[name]) if info == "python"]


@pytest.mark.parametrize("name", [name for name in PAGES if python_blocks(name)])
def test_the_python_of_a_page_runs(name, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    try:
        for line, text in python_blocks(name):
            # Empty lines first, so that a traceback names the line of the page.
            exec(compile("\n" * line + text, str(ROOT / name), "exec"), namespace)
    finally:
        pyplot.close("all")


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for target in LINK.findall(prose(PAGES[name])):
        if target.startswith(("https://", "mailto:")):
            continue
        assert "://" not in target, f"{name} links to {target}: use https"
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.is_file(), f"{name} links to {target}, which does not exist"
        if anchor:
            known = anchors(file.read_text(encoding="utf-8"))
            assert anchor in known, f"{name} links to {target}: {path or name} has {sorted(known)}"


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/**/*.md"):
        assert f": {page.relative_to(ROOT / 'docs').as_posix()}\n" in navigation


@pytest.mark.parametrize("name", tb.__all__)
def test_every_public_name_is_documented(name):
    text = "\n".join(page for path, page in PAGES.items() if path != "CONTRIBUTING.md")
    assert re.search(rf"(?:\btb\.|`){name}\b", text), f"no page says what tb.{name} is"


def test_the_reading_of_pages():
    page = "# A `b`, c!\n[x](y.md#z)\n```python\na = 1\n\nb\n```\n`[n](o)`\n```text\n[p](q)\n```"
    assert blocks(page) == [(3, "python", "a = 1\n\nb"), (9, "text", "[p](q)")]
    assert LINK.findall(prose(page)) == ["y.md#z"]
    assert anchors(page) == {"a-b-c"}
    assert LINK.findall("![a\nb](c.png) and [d [e] f](g.md)") == ["c.png", "g.md"]
    with pytest.raises(AssertionError, match="line 1: an indented block would not be run"):
        blocks("  ```python\n  a\n  ```")
    with pytest.raises(AssertionError, match="block at line 2 has no end"):
        blocks("\n```python\na")
