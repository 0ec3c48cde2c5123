"""Take the pictures of the dashboard that README and docs show: `make screenshots`.

Starts the demo on a seeded store of its own, opens Chromium and writes small PNGs to `docs/images`. With a folder as
argument it writes every page there instead, in both themes and at the width of a phone, for somebody to look at.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

ROOT: Final = Path(__file__).parent.parent
IMAGES: Final = ROOT / "docs" / "images"
LARGEST_BYTES: Final = 100_000
Scheme = Literal["light", "dark"]
#: The pictures of the docs: name, path, colour scheme.
SHOWN: Final[tuple[tuple[str, str, Scheme], ...]] = (
    ("overview", "", "light"),
    ("overview-dark", "", "dark"),
    ("job", "/jobs/{failed}", "light"),
    ("schedules-dark", "/schedules", "dark"),
)
PAGES: Final = {
    "overview": "",
    "jobs": "/jobs",
    "jobs-dead": "/jobs?status=dead",
    "job": "/jobs/{failed}",
    "job-waiting": "/jobs/{waiting}",
    "drawer": "/jobs?job={failed}",
    "queues": "/queues",
    "limits": "/limits",
    "workflows": "/workflows",
    "workflow": "/workflows/{workflow}",
    "schedules": "/schedules",
    "schedule": "/schedules/{schedule}",
    "workers": "/workers",
    "dead": "/dead",
    "events": "/events",
    "system": "/system",
}


def main() -> None:
    """Take the pictures of the docs, or all pages into a folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with demo() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--headless", "--no-sandbox"])
        if folder is None:
            IMAGES.mkdir(exist_ok=True)
            for name, path, scheme in SHOWN:
                picture = take(browser, url, path, IMAGES / f"{name}.png", scheme, (1400, 850), scale=0.58)
                if picture.stat().st_size > LARGEST_BYTES:
                    raise SystemExit(f"{picture}: {picture.stat().st_size} bytes; at most {LARGEST_BYTES}")
        else:
            folder.mkdir(exist_ok=True)
            for name, path in PAGES.items():
                take(browser, url, path, folder / f"{name}-light.png", "light", (1440, 900), is_whole=True)
                take(browser, url, path, folder / f"{name}-dark.png", "dark", (1440, 900), is_whole=True)
                take(browser, url, path, folder / f"{name}-phone.png", "light", (360, 800), is_whole=True)
        browser.close()


def chromium() -> str:
    """Find Chromium, as tools/servers installs it."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("tools/screenshots.py: no Chromium on PATH; tools/servers installs it")
    return found


@contextmanager
def demo() -> Iterator[str]:
    """Start the demo with its past, and give its address once jobs have run for a while."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [str(ROOT / "tools" / "demo"), str(Path(sys.executable).parent), str(port), f"{folder}/demo.db"]
        with (Path(folder) / "log.txt").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603 - ours
        try:
            url = f"http://127.0.0.1:{port}"
            _until(lambda: ask(url, "/readyz"))
            _until(lambda: ask(url, "/v1/jobs?q=status:running+type:resize_images")["items"])
            yield url
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


def _until(holds: Any) -> None:  # noqa: ANN401 - whatever can be asked
    give_up_at = time.monotonic() + 180
    while time.monotonic() < give_up_at:
        with suppress(URLError, ConnectionError):
            if holds():
                return
        time.sleep(0.2)
    raise SystemExit("tools/screenshots.py: the demo did not come up within 180 s")


def ask(url: str, path: str) -> Any:  # noqa: ANN401 - JSON
    """Send a request to the demo's API."""
    with urlopen(url + path, timeout=10) as response:  # noqa: S310 - our own server
        return json.loads(response.read() or b"true")


def take(
    browser: Browser,
    url: str,
    path: str,
    target: Path,
    scheme: Scheme,
    size: tuple[int, int],
    *,
    is_whole: bool = False,
    scale: float = 1.0,
) -> Path:
    """Open a page and write its picture."""
    names = {
        "failed": ask(url, "/v1/jobs?status=dead&type=charge_card&limit=100")["items"][0]["id"],
        "waiting": ask(url, "/v1/jobs?queue=newsletter&status=pending&limit=100")["items"][0]["id"],
        "workflow": ask(url, "/v1/workflows?limit=1")["items"][0]["id"],
        "schedule": ask(url, "/v1/schedules/hourly%20stock%20report")["id"],
    }
    viewport: Any = {"width": size[0], "height": size[1]}
    context = browser.new_context(
        color_scheme=scheme, viewport=viewport, device_scale_factor=scale, reduced_motion="reduce", timezone_id="UTC"
    )
    page = context.new_page()
    page.goto(f"{url}/ui{path.format(**names)}")
    _settle(page)
    page.screenshot(path=target, full_page=is_whole)
    context.close()
    if not is_whole:
        target.write_bytes(_with_fewer_colours(browser, target.read_bytes()))
    print(f"{target}: {target.stat().st_size} bytes")  # noqa: T201 - a program
    return target


def _with_fewer_colours(browser: Browser, picture: bytes) -> bytes:
    """Write a picture with 5 bits a colour, which makes it smaller and is hardly seen on flat surfaces."""
    page = browser.new_page()
    smaller = page.evaluate(
        """async (data) => {
          const image = new Image();
          image.src = "data:image/png;base64," + data;
          await image.decode();
          const canvas = document.createElement("canvas");
          [canvas.width, canvas.height] = [image.width, image.height];
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const pixels = context.getImageData(0, 0, image.width, image.height);
          pixels.data.forEach((value, at) => (pixels.data[at] = Math.min(Math.round(value / 8) * 8, 255)));
          context.putImageData(pixels, 0, 0);
          return canvas.toDataURL("image/png").split(",")[1];
        }""",
        b64encode(picture).decode(),
    )
    page.close()
    return b64decode(smaller)


def _settle(page: Page) -> None:
    page.locator("main h1, main h2").first.wait_for()
    page.wait_for_function("() => document.querySelectorAll('main .loading').length === 0")
    # The first update of the stream draws rates and charts.
    page.wait_for_timeout(1_500)


if __name__ == "__main__":
    main()
