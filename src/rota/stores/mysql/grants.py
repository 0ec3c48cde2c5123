"""Users and rights on MariaDB and MySQL, as SQL for an administrator."""

from __future__ import annotations

import re
from typing import Final

from rota.stores.grants import SECRET_TABLES, Grants, Roles, privileges_of
from rota.stores.mysql.location import location_of
from rota.stores.mysql.migrations import all_migrations

_TABLE: Final = re.compile(r"^CREATE TABLE IF NOT EXISTS (rota_\w+)", re.MULTILINE)
#: What a migration does. It reads and moves rows as well.
_MIGRATE: Final = "CREATE, ALTER, DROP, INDEX, SELECT, INSERT, UPDATE, DELETE"


def tables() -> list[str]:
    text = "".join(migration.text for migration in all_migrations())
    return ["rota_migration", *_TABLE.findall(text)]


def grants(url: str, roles: Roles) -> Grants:
    """Return the scripts for the database that a URL names."""
    database = "`{}`".format(location_of(url).database.replace("`", "``"))
    migrate, run, read = (_user(name) for name in (roles.migrate, roles.run, roles.read))
    made = [
        "-- Users. Run as an administrator, once, before the first `rota db migrate`, and give each user a password.",
        *(f"CREATE USER IF NOT EXISTS {user};" for user in (migrate, run, read)),
        f"GRANT {_MIGRATE} ON {database}.* TO {migrate};",
    ]
    granted = [
        "-- Rights to tables. Run as an administrator, after each `rota db migrate`.",
        *(f"GRANT {privileges_of(table)} ON {database}.{table} TO {run};" for table in tables()),
        *(f"GRANT SELECT ON {database}.{table} TO {read};" for table in tables() if table not in SECRET_TABLES),
    ]
    return Grants(roles="\n".join(made), tables="\n".join(granted))


def _user(name: str) -> str:
    user, _, hosts = name.partition("@")
    return f"'{user}'@'{hosts or '%'}'"
