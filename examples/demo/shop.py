"""The demo app with schedules that fire all the time, for `make run` and `make demo`: the tasks of tasks.py and more.

Jobs of several kinds begin within seconds of the start: quick ones, slow ones with progress and a log, some that fail
and are tried again, and a few that fail for good.
"""

from __future__ import annotations

import asyncio
import random

from tasks import app, charge_card, send_email

from rota import GiveUp, Retry, current


@app.task(every="7s", queue="orders")
async def take_order(customer: str = "") -> str:
    """Pretend that a customer orders something: a card is charged, and an e-mail is sent."""
    name = customer or random.choice(("ada", "bob", "eve", "joe", "kim", "lin", "mia", "sam"))  # noqa: S311 - a demo
    await charge_card.using(queue="payments", tags=[f"customer:{name}"]).asubmit(random.randint(5, 300))  # noqa: S311
    await send_email.using(queue="mail", tags=[f"customer:{name}"]).asubmit(f"{name}@example.com", "Your order")
    return name


@app.task(every="30s", queue="media", timeout="2m")
async def resize_images(count: int = 120) -> dict[str, int]:
    """Pretend to resize pictures one by one, with progress and a log."""
    for number in range(count):
        await asyncio.sleep(0.15)
        current().progress(number + 1, count, f"picture {number + 1}")
        if number % 20 == 0:
            current().log(f"resized {number} of {count} pictures")
    return {"resized": count}


@app.task(every="15s", queue="orders", retry=Retry(3, base=2, cap=20))
async def sync_stock(warehouse: str = "north") -> int:
    """Simulate a request to a warehouse whose server is slow and sometimes unavailable."""
    await asyncio.sleep(random.uniform(0.1, 1.5))  # noqa: S311 - a demo
    if random.random() < 1 / 5:  # noqa: S311
        raise TimeoutError(f"warehouse {warehouse!r} did not answer within 1.5 s")
    return random.randint(100, 900)  # noqa: S311


@app.task(every="2m", queue="orders", retry=1)
async def import_prices(supplier: str = "acme") -> int:
    """Pretend to import a supplier's prices; the file has a mistake now and then, which no retry mends."""
    await asyncio.sleep(0.3)
    if random.random() < 1 / 3:  # noqa: S311 - a demo
        raise GiveUp(f"prices of {supplier!r}: line 17: 'n/a' is not a number")
    return 420


@app.task(cron="30 3 * * *", tz="Europe/Berlin", queue="reports", timeout="30m")
async def nightly_backup() -> str:
    """Pretend to make a backup."""
    await asyncio.sleep(3)
    return "backup written"


@app.task(cron="0 8 * * MON", tz="Europe/Berlin", queue="reports")
async def weekly_report() -> str:
    """Pretend to write the report of the week."""
    await asyncio.sleep(1)
    return "report written"
