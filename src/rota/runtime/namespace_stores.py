"""The stores of namespaces: their URLs, and whether they exist; makes and drops them."""

from __future__ import annotations

from rota.core.errors import IllegalTransition, InvalidRequest
from rota.core.namespace import check_name
from rota.core.redaction import redacted
from rota.runtime.store import is_mysql, is_postgres, open_store, path_of
from rota.stores.sqlite import provision as files


def store_url(url: str, namespace: str) -> str:
    """Return the URL of the store of a namespace; of an API, and of the default namespace, the URL itself."""
    if not namespace or url.startswith(("http://", "https://")):
        return url
    check_name(namespace, field="namespace")
    if is_postgres(url):
        from rota.stores.postgres import provision as postgres  # noqa: PLC0415 - an extra

        return postgres.url_of_namespace(url, namespace)
    if is_mysql(url):
        from rota.stores.mysql import provision as mysql  # noqa: PLC0415 - an extra

        return mysql.url_of_namespace(url, namespace)
    return str(files.path_of_namespace(path_of(url), namespace))


async def exists(url: str) -> bool:
    """Return whether there is a store at a URL."""
    if is_postgres(url):
        from rota.stores.postgres import provision as postgres  # noqa: PLC0415 - an extra

        return await postgres.exists(url)
    if is_mysql(url):
        from rota.stores.mysql import provision as mysql  # noqa: PLC0415 - an extra

        return await mysql.exists(url)
    return files.exists(path_of(url))


async def require_store(url: str, namespace: str) -> None:
    """Refuse to open a namespace that was not created."""
    if not await exists(url):
        raise InvalidRequest(
            f"namespace: {namespace!r} is unknown: {redacted(url)} holds no store; create it with"
            f" `rota namespaces create {namespace}`",
            field="namespace",
        )


async def refuse_existing(url: str, namespace: str) -> None:
    """Refuse to make a namespace where another deployment has a store already."""
    if await exists(url):
        raise IllegalTransition(
            f"namespace {namespace!r}: {redacted(url)} holds a store that is not of this deployment; choose another"
            " name, or remove it"
        )


async def make(url: str) -> None:
    """Make the tables of a namespace."""
    if is_mysql(url):
        from rota.stores.mysql import provision as mysql  # noqa: PLC0415 - an extra

        await mysql.create(url)
    await (await open_store(url)).close()


async def drop(url: str) -> None:
    """Drop the tables of a namespace with all that is in them."""
    if is_postgres(url):
        from rota.stores.postgres import provision as postgres  # noqa: PLC0415 - an extra

        await postgres.drop(url)
    elif is_mysql(url):
        from rota.stores.mysql import provision as mysql  # noqa: PLC0415 - an extra

        await mysql.drop(url)
    else:
        files.drop(path_of(url))
