"""Opening a store by URL or DSN; errors name what is missing."""

from __future__ import annotations

import asyncio
import sys

import pytest

from builders import new_job
from rota.cli.main import main
from rota.core.errors import InvalidRequest
from rota.runtime.store import migrations_of, open_store
from rota.stores.mysql import MysqlStore
from rota.stores.mysql.location import location_of


def forms(url: str) -> list[str]:
    where = location_of(url)
    return [
        url,
        url.replace("mysql://", "mariadb://"),
        f"root:@tcp(127.0.0.1:{where.port})/{where.database}?parseTime=true",
        f"root@tcp(127.0.0.1:{where.port})/{where.database}",
    ]


async def test_every_form_of_a_name_opens_the_same_database(url: str) -> None:
    for number, form in enumerate(forms(url)):
        store = await open_store(form)
        assert isinstance(store, MysqlStore)
        await store.insert([new_job()])
        assert (await store.census()).total() == number + 1
        await store.close()


@pytest.mark.parametrize("name", ["mysql://db/rota", "root:x@tcp(db:3306)/rota?parseTime=true"])
def test_without_the_driver_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [module for module in sys.modules if module.startswith(("rota.stores.mysql", "asyncmy"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "asyncmy", None)
    with pytest.raises(InvalidRequest, match=r"pip install 'rota\[mysql\]'") as refusal:
        asyncio.run(open_store(name))
    assert refusal.value.field == "store"
    with pytest.raises(InvalidRequest, match=r"pip install 'rota\[mysql\]'"):
        migrations_of(name)


async def test_the_command_line_migrates_by_a_dsn_and_tells_no_password(
    fresh_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    where = location_of(fresh_url)
    dsn = f"root:@tcp(127.0.0.1:{where.port})/{where.database}?parseTime=true"
    for command in (["db", "migrate"], ["db", "status"]):
        assert await asyncio.to_thread(main, [*command, "--store", dsn]) == 0
    output = "".join(capfd.readouterr())
    assert "root:***@tcp" in output
    assert "yes" in output.split()
