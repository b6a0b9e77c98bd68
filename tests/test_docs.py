"""The documentation is correct: its Python runs, its links resolve, and no public name is missing.

The ``python`` blocks of a page are one program: they run in order, in one namespace, in a directory
of their own. Blocks with another info string (``text``, ``sh``) are only shown, except for the
commands of README.md.
"""

import csv
import re
import shlex
import shutil
from pathlib import Path

import pytest

import tensorbnn as tb
from tensorbnn import classic, plots
from tensorbnn.cli.program import COMMANDS, main
from tensorbnn.storage.manifest import FIELDS

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
}

FENCE = re.compile(r"^( *)(```+)(.*)$")
# [text](target) and ![text](target); the text may go over a line.
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
SOURCES = sorted(path.relative_to(ROOT) for path in ROOT.glob("src/**/*.py"))
# The indent of the title, and the line after the first line of the description.
RETURNS = re.compile(r"^( *)Returns\n *-+\n.*\n(.*)$", re.MULTILINE)
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


def unfenced(page: str) -> str:
    """A page without its fenced blocks."""
    for _, info, text in blocks(page):
        page = page.replace(f"```{info}\n{text}\n```", "")
    return page


def prose(page: str) -> str:
    """A page without its fenced blocks and the text of its code spans."""
    return re.sub(r"`[^`\n]+`", "code", unfenced(page))


def anchors(page: str) -> set[str]:
    """What ``#...`` may name on a page: its headings in lower case, with hyphens for spaces."""
    titles = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in HEADING.findall(page)]
    return {re.sub(r"[-\s]+", "-", title) for title in titles}


def python_blocks(name: str) -> list[tuple[int, str]]:
    return [(line, text) for line, info, text in blocks(PAGES[name]) if info == "python"]


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    commands = [
        line
        for _, info, text in blocks(PAGES["README.md"])
        for line in text.splitlines()
        if info == "sh"
    ]
    assert [line.split()[:2] for line in commands] == [
        ["tensorbnn", name] for name in ("fit", "predict", "report")
    ]
    pytest.importorskip("matplotlib.pyplot").switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0
    with open("predictions.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == 3
    for row in found:
        assert float(row["q0.025"]) < float(row["mean"]) < float(row["q0.975"])
    # The third well is deeper than any other, so that its prediction is the least certain.
    assert float(found[2]["sd"]) > 5 * float(found[0]["sd"])
    assert Path("wells", "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", [name for name in PAGES if python_blocks(name)])
def test_what_a_page_prints_is_shown(name):
    # A reader should see each result.
    found = blocks(PAGES[name])
    for (line, info, text), (_, following, _) in zip(found, [*found[1:], (0, "", "")], strict=True):
        if info == "python" and re.search(r"^ *print\(", text, re.MULTILINE):
            assert following == "text", f"{name}, line {line}: show what it prints, as text"


@pytest.mark.parametrize("name", PAGES)
def test_prose_is_wrapped(name):
    # Tables and displayed formulas can't be.
    text = re.sub(r"^\$\$\n.*?^\$\$$", "", unfenced(PAGES[name]), flags=re.MULTILINE | re.DOTALL)
    for line in text.splitlines():
        assert len(line) <= 100 or line.startswith(("|", "!["))
        # Markdown does not find the end of an inline formula on the next line.
        assert line.replace("`$5`", "").count("$") % 2 == 0, line


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


def test_pages_are_sorted_by_what_a_reader_wants():
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = configuration.split("\nnav:\n")[1].split("\n\n")[0]
    kinds = ["Tutorials", "How-to guides", "Reference", "Background"]
    assert re.findall(r"^  - ([\w -]+):$", navigation, re.MULTILINE) == kinds
    assert re.findall(r"^## (.+)$", PAGES["docs/index.md"], re.MULTILINE)[-4:] == kinds
    # Links to the previous and the next page.
    assert "\n    - navigation.footer\n" in configuration


def test_the_site_can_be_read_without_a_server():
    # A browser shows a folder as a list of its files, not the page in it.
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "\nuse_directory_urls: false\n" in configuration
    assert "\n  homepage: index.html\n" in configuration


def test_formulas_have_a_font_with_the_measures_of_mathematics():
    # Without one, bars of fractions cross the letters and brackets do not grow.
    style = (ROOT / "docs" / "style.css").read_text(encoding="utf-8")
    (fonts,) = re.findall(r"\.md-typeset math \{\s*font-family: ([^;]+);", style)
    of_systems = '"Latin Modern Math", "STIX Two Math", "Cambria Math", "DejaVu Math TeX Gyre"'
    assert fonts == f"{of_systems}, math"


def test_messages_that_were_printed_are_wrapped():
    # A verdict of 300 characters in one line would be cut off at the edge of the page.
    style = (ROOT / "docs" / "style.css").read_text(encoding="utf-8")
    assert re.search(r"\.language-text code \{\s*white-space: pre-wrap;", style)
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "\n      pygments_lang_class: true\n" in configuration


@pytest.mark.parametrize("name", tb.__all__)
def test_every_public_name_is_documented(name):
    text = "\n".join(page for path, page in PAGES.items() if not path.startswith("C"))
    assert re.search(rf"(?:\btb\.|`){name}\b", text), f"no page says what tb.{name} is"


DESCRIBED = re.findall(r"^::: ([\w.]+)$", "\n".join(PAGES.values()), re.MULTILINE)


def test_every_public_name_is_in_the_reference_once():
    # `Number` is an annotation, and has no members to describe.
    of_library = [name for name in DESCRIBED if re.fullmatch(r"tensorbnn\.\w+", name)]
    expected = [f"tensorbnn.{name}" for name in tb.__all__ if name != "Number"]
    assert sorted(of_library) == sorted(expected)


@pytest.mark.parametrize("name", classic.__all__)
def test_every_classic_name_is_on_its_page(name):
    assert re.search(rf"`{name}`|::: tensorbnn\.classic\.{name}$", PAGES["docs/classic.md"], re.M)


FLAGS = {
    command.name: {f"--{option.name.replace('_', '-')}" for option in command.options}
    for command in COMMANDS
}


@pytest.mark.parametrize("name", PAGES)
def test_flags_on_a_page_exist(name):
    for command, rest in re.findall(r"\btensorbnn ([a-z]+)\b([^`\n&;|]*)", PAGES[name]):
        for flag in re.findall(r"(?<![\w-])--[a-z-]+", rest) if command in FLAGS else ():
            assert flag in FLAGS[command] | {"--help"}, f"{command} {flag}"


def test_the_page_of_the_command_line_has_every_option_of_fit():
    page = PAGES["docs/cli.md"]
    assert set(re.findall(r"`(--[a-z-]+)", page)) <= set().union(*FLAGS.values())
    (table,) = re.findall(r"^## fit$(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    everywhere = {"--data", "--json", "--quiet"}
    assert FLAGS["fit"] - everywhere == set(re.findall(r"`(--[a-z-]+)", table))


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_a_run_is_on_its_page(name):
    assert f"`{name}`" in PAGES["docs/runs.md"]


@pytest.mark.parametrize("name", plots.__all__)
def test_every_picture_is_in_the_reference(name):
    assert {f"tensorbnn.plots.{name}", f"tensorbnn.plots.{name}.{name}"} & set(DESCRIBED)


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_reference_describes_no_module(name):
    # Where a function and its file have one name, the shorter path is the file.
    assert not (ROOT / "src" / name.replace(".", "/")).with_suffix(".py").exists()


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_what_is_returned_is_a_type_and_a_description(path):
    # A sentence at its place would be shown as a type.
    for indent, after in RETURNS.findall((ROOT / path).read_text(encoding="utf-8")):
        assert after.startswith(indent + "    "), f"Returns: {after.strip()} must be indented"


def test_the_reference_gives_each_parameter_its_own_default(tmp_path):
    griffe = pytest.importorskip("griffe")
    (tmp_path / "shared.py").write_text(SHARED, encoding="utf-8")
    found = griffe.load(
        "shared",
        search_paths=[tmp_path],
        docstring_parser="numpy",
        extensions=griffe.load_extensions("dataclasses", str(ROOT / "docs" / "parameters.py")),
    )
    for name in ("function", "Class"):
        (section,) = [each for each in found[name].docstring.parsed if each.kind == "parameters"]
        assert [(each.name, each.value, str(each.annotation)) for each in section.value] == [
            ("a", "4.0", "float"),
            ("b", "10", "int"),
        ]
    (section,) = [each for each in found["several"].docstring.parsed if each.kind == "parameters"]
    assert [(each.name, each.value) for each in section.value] == [("*numbers", None)]


SHARED = '''
from dataclasses import dataclass

def function(a: float = 4.0, b: int = 10) -> None:
    """Do something.

    Parameters
    ----------
    a, b
        Two numbers.
    """

@dataclass(frozen=True)
class Class:
    """Be something.

    Parameters
    ----------
    a, b
        Two numbers.
    """

    a: float = 4.0
    b: int = 10

def several(*numbers: float) -> None:
    """Do something.

    Parameters
    ----------
    *numbers
        As many as there are.
    """
'''


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
