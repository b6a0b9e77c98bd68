"""The report in headless Chromium, by `make report-check`: no errors, all figures, no overflow."""

import json
import re
import shutil
import subprocess
import tempfile

import pytest

from tensorbnn.cli import main

pytestmark = pytest.mark.browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROBE = """<script>addEventListener("load", () => {
  const pictures = [...document.images].map(each => each.naturalWidth * each.clientHeight);
  const found = {pictures, wide: document.documentElement.scrollWidth, inside: innerWidth};
  document.body.dataset.found = JSON.stringify(found);
});</script>"""


def browse(page, *options):
    """What headless Chromium prints, on standard output and standard error."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program, f"this check needs one of {', '.join(BROWSERS)}: install Chromium"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    flags += ["--enable-logging=stderr", "--virtual-time-budget=5000"]
    # Chromium should not use the network for its own purposes, and should leave no profile behind.
    flags += ["--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *flags, f"--user-data-dir={profile}", *options, page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


@pytest.mark.parametrize("run", ["prices", "kinds"])
@pytest.mark.parametrize("width", [1280, 412])
def test_the_page_in_a_browser(inside, tmp_path, run, width):
    page = tmp_path / "page.html"
    assert main(["report", run, "--out", str(page), "--quiet"]) == 0
    size = f"--window-size={width},900"
    _, log = browse(page, size, "--dump-dom")
    assert "CONSOLE" not in log, log
    # The same page with a script that measures, which its own rules forbid.
    text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text()).replace(
        "</body>", f"{PROBE}</body>"
    )
    page.write_text(text)
    shown, _ = browse(page, size, "--dump-dom")
    found = json.loads(re.search(r'data-found="([^"]*)"', shown)[1].replace("&quot;", '"'))
    assert len(found["pictures"]) >= 9
    assert min(found["pictures"]) > 0
    assert found["wide"] <= found["inside"]
    browse(page, f"--print-to-pdf={tmp_path / 'page.pdf'}")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
