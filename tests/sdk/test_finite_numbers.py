"""NaN and the infinities, which JSON does not have, are refused by every way to submit, and never become None."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api.environment import ApiEnvironment, api_environment
from rota import JobFailed, Rota, current
from rota.cli.exits import Exit
from rota.cli.main import main
from rota.core.errors import InvalidRequest

NUMBERS = [math.nan, math.inf, -math.inf]


@dataclass
class Reading:
    value: float
    note: None = None


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Rota]:
    one = Rota(str(tmp_path / "rota.db"))
    yield one
    one.close()


@pytest.mark.parametrize("number", NUMBERS)
def test_an_argument_that_is_no_finite_number_is_refused(app: Rota, number: float) -> None:
    @app.task
    def measure(*values: object, **named: object) -> None:
        del values, named

    calls: dict[str, Callable[[], object]] = {
        r"args\[0\]": lambda: measure.submit(number),
        r"args\[1\]\['value'\]": lambda: measure.submit(None, Reading(number)),
        r"kwargs\['deep'\]\[1\]\['x'\]": lambda: measure.call(deep=[1, {"x": number}]),
        r"on_success|args\[0\]": lambda: measure.using(on_success=measure.call(number)),
    }
    for place, call in calls.items():
        with pytest.raises(InvalidRequest, match=place) as refusal:
            call()
        assert str(number) in str(refusal.value)
    with pytest.raises(InvalidRequest, match="payload"):
        app.submit_by_name("measure", {"x": number})
    assert measure.submit(None, Reading(1.5)).id


@pytest.mark.parametrize("number", NUMBERS)
def test_a_result_that_is_no_finite_number_fails_the_job(app: Rota, number: float) -> None:
    @app.task(retry=5)
    def measure() -> dict[str, list[float | None]]:
        return {"all": [1.0, None, number]}

    @app.task(retry=5)
    async def look() -> Reading:
        return Reading(number)

    @app.task(retry=1)
    def tell() -> None:
        current().progress(number, 10)

    places: dict[Any, str] = {measure: r"result\['all'\]\[2\]", look: r"result\['value'\]", tell: r"progress\[0\]"}
    with app.run():
        for task, place in places.items():
            with pytest.raises(JobFailed, match=f"{place} is {number}, which JSON does not have"):
                task.submit().result(timeout="20s")


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999"])
async def test_http_refuses_them_as_no_json(text: str) -> None:
    async with api_environment() as env:
        for path, body in (("/v1/jobs", '{"payload": [%s]}'), ("/jobs", '{"type": "a", "payload": %s}')):
            assert await _status(env, path, body % text) in {400, 422}
        assert (await env.client.get("/v1/jobs")).json()["items"] == []


async def _status(env: ApiEnvironment, path: str, content: str) -> int:
    answer = await env.client.post(path, content=content, headers={"Content-Type": "application/json"})
    return answer.status_code


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999"])
def test_the_command_line_refuses_them_before_it_asks(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "jobs.jsonl"
    lines.write_text(f'{{"type": "a", "payload": [{text}]}}')
    commands = ["submit", "--type", "a", "--payload", f"[{text}]"], ["submit", "--from", str(lines)]
    for command in commands:
        assert main([*command, "--api-url", "http://127.0.0.1:9"]) == Exit.USAGE
        assert "which JSON does not have" in capsys.readouterr().err
