"""The pages about waiting: their programs run as they are written, with days that last a moment."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from rota.core.lifecycle import State

FOLDER = Path(__file__).parents[2] / "docs" / "howto"
PATIENCE_SECONDS = 30


def snippets(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (FOLDER / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run(snippet: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(snippet, "snippet", "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    return names


def until_blocked(handle: Any) -> None:  # noqa: ANN401 - a handle
    ends = time.monotonic() + PATIENCE_SECONDS
    while handle.state is not State.BLOCKED:
        assert time.monotonic() < ends, handle.state
        time.sleep(0.01)


def test_a_user_gets_letters_over_days_and_an_invoice_when_he_has_paid(tmp_path: Path) -> None:
    onboarding, emission = snippets("wait-for-days.md")
    quick = onboarding.replace("Rota()", f"Rota({str(tmp_path / 'rota.db')!r})").replace('"3d"', '"0.2s"')
    names = run(quick, {})
    with names["app"].run():
        paying, other = names["onboard"].submit(7), names["onboard"].submit(8)
        until_blocked(paying)
        until_blocked(other)
        run(emission, names)
        assert paying.result(PATIENCE_SECONDS) == "invoice for 7"
        assert other.state is State.BLOCKED


def test_a_user_who_does_not_pay_is_let_go(tmp_path: Path) -> None:
    onboarding, _ = snippets("wait-for-days.md")
    quick = onboarding.replace("Rota()", f"Rota({str(tmp_path / 'rota.db')!r})").replace('"3d"', '"0.1s"')
    names = run(quick.replace('"14d"', '"0.2s"'), {})
    with names["app"].run():
        assert names["onboard"].submit(7).result(PATIENCE_SECONDS) == "lapsed"


def test_a_refund_waits_for_a_person_and_the_first_answer_counts(tmp_path: Path) -> None:
    refund, answer = snippets("human-approval.md")
    names = run(answer, run(refund.replace("Rota()", f"Rota({str(tmp_path / 'rota.db')!r})"), {}))
    with names["app"].run():
        first, second = names["refund"].submit(10), names["refund"].submit(20)
        until_blocked(first)
        until_blocked(second)
        assert names["on_click"](first.id, approved=True, by="olga")
        assert not names["on_click"](first.id, approved=False, by="max")
        assert names["app"].emit(f"job:{second.id}:approval", {"approved": False, "by": "max"})
        assert first.result(PATIENCE_SECONDS) == "paid 10"
        assert second.result(PATIENCE_SECONDS) == "declined by max"
