"""The dashboard within another ASGI application, in a browser: its files, its requests and its live stream."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, expect

from journeys.system import System

PROGRAM = """
import uvicorn
from rota import Rota

operators = Rota("rota.db").asgi()


async def outer(scope, receive, send):
    if scope["type"] == "http" and not scope["path"].startswith("/ops"):
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})
    else:
        await operators({**scope, "root_path": "/ops"}, receive, send)


uvicorn.run(outer, host="127.0.0.1", port=PORT, log_level="warning")
"""


def test_it_works_below_the_path_of_an_application(browser: Browser, tmp_path: Path) -> None:
    system = System(tmp_path)
    (tmp_path / "outer.py").write_text(PROGRAM.replace("PORT", str(system.port)), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    with subprocess.Popen([sys.executable, "outer.py"], cwd=tmp_path, env=clean) as process:
        try:
            system.until(lambda: _answers(system), bool)
            page = browser.new_page()
            page.goto(f"{system.url}/ops")
            expect(page).to_have_url(f"{system.url}/ops/ui")
            expect(page.get_by_role("button", name=re.compile("^Live"))).to_be_visible()
            page.get_by_role("link", name="Jobs", exact=True).click()
            expect(page).to_have_url(f"{system.url}/ops/ui/jobs")
            system.ask("POST", "/ops/v1/jobs", {"type": "echo"})
            expect(page.locator("main tbody tr", has_text="echo")).to_have_count(1)
            page.close()
        finally:
            process.terminate()
            assert process.wait(60) in {0, -15}


def _answers(system: System) -> bool:
    try:
        system.ask("GET", "/ops/readyz")
    except OSError:
        return False
    return True
