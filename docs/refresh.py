"""Run pages of the documentation, and put what they print in place of what they show.

    python docs/refresh.py docs/diagnostics.md README.md

A ``text`` block after a ``python`` block shows what that one printed. Blocks that printed nothing,
such as those that show a progress bar, leave it as it is.
Printed numbers depend on the machine's instruction set in their last digits, so that no test
compares them: run this after a change of a sampler, and read the difference.

A picture that a page saves as ``name.png`` and shows as ``images/name.png`` is put there; with
fewer colors if its file is large.
"""

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
from PIL import Image

PICTURE = re.compile(r"\]\(images/([\w-]+\.png)\)")
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def refresh(page: Path) -> str:
    """The text of a page with what its program prints, run in a directory that is thrown away."""
    text, parts, end = page.read_text(encoding="utf-8"), [], 0
    namespace, printed = {"__name__": "page"}, io.StringIO()
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(body, str(page), "exec"), namespace)
        elif kind == "text" and printed.getvalue():
            parts += [text[end : block.start(2)], printed.getvalue().rstrip("\n") + "\n"]
            end = block.end(2)
            printed = io.StringIO()
    return "".join([*parts, text[end:]])


def main() -> None:
    mpl.use("Agg")
    for page in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            found = refresh(page)
            for name in filter(os.path.exists, PICTURE.findall(found)):
                if os.path.getsize(name) > 100_000:
                    colors = Image.open(name).convert("RGB").quantize(128, dither=Image.Dither.NONE)
                    colors.save(name, optimize=True)
                shutil.copy(name, page.parent / "images" / name)
        page.write_text(found, encoding="utf-8")
        print(f"{os.path.relpath(page)}: done")


if __name__ == "__main__":
    main()
