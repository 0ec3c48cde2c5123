"""The demo app that `make run` starts: three tasks that a shop would have.

They do nothing in the world. `send_email` is quick, `gen_report` shows progress, `charge_card` fails now and then, so
that there are retries to look at.
"""

from __future__ import annotations

import asyncio
import random

from rota import GiveUp, Retry, Rota, current

app = Rota()


@app.task
async def send_email(to: str = "user@example.com", subject: str = "Hello") -> str:
    """Pretend to send an e-mail."""
    await asyncio.sleep(0.05)
    current().log(f"sent {subject!r} to {to}")
    return f"sent to {to}"


@app.task(timeout="1m")
async def gen_report(pages: int = 10) -> dict[str, int]:
    """Pretend to write a report, page by page."""
    for page in range(pages):
        await asyncio.sleep(0.1)
        current().progress(page + 1, pages, f"page {page + 1}")
    return {"pages": pages}


@app.task(retry=Retry(5, base=1, cap=30))
def charge_card(amount: int = 10, card: str = "4242") -> str:
    """Pretend to charge a card; the bank is away every third time."""
    if amount <= 0:
        raise GiveUp(f"cannot charge {amount}")
    if random.random() < 1 / 3:  # noqa: S311 - a pretended bank
        raise ConnectionError("the bank does not answer")
    return f"charged {amount} to card {card}"
