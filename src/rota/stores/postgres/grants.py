"""Roles and rights on PostgreSQL, as SQL for an administrator."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from rota.core.errors import InvalidRequest
from rota.stores.grants import SECRET_TABLES, Grants, Roles, privileges_of
from rota.stores.postgres.connection import split_schema
from rota.stores.postgres.migrations import all_migrations

_TABLE: Final = re.compile(r"^CREATE (?:UNLOGGED )?TABLE \{schema\}(rota_\w+)", re.MULTILINE)
_FUNCTION: Final = re.compile(r"^CREATE FUNCTION \{schema\}(\w+)\(([^)]+)\)", re.MULTILINE)
#: Written through rota_job_done; read by itself only.
_DEFAULT_PARTITION: Final = "rota_job_done_rest"
_VIEW: Final = "rota_any_job"


def tables() -> list[str]:
    """Return the names of all tables but daily partitions."""
    text = "".join(migration.text for migration in all_migrations())
    return ["rota_migration", *_TABLE.findall(text)]


def functions() -> list[str]:
    """Return the functions that the role `run` calls, with the types of their arguments."""
    text = "".join(migration.text for migration in all_migrations())
    return [
        f"{name}({', '.join(argument.split(None, 1)[1] for argument in arguments.split(', '))})"
        for name, arguments in _FUNCTION.findall(text)
    ]


def grants(url: str, roles: Roles) -> Grants:
    """Return the scripts for the database and the schema that a URL names."""
    if any("@" in name for name in (roles.migrate, roles.run, roles.read)):
        raise InvalidRequest("run_role: on PostgreSQL a role has no hosts; say those in pg_hba.conf", field="run_role")
    dsn, schema = split_schema(url)
    database = _quoted(unquote(urlsplit(dsn).path).removeprefix("/") or "postgres")
    migrate, run, read = (_quoted(name) for name in (roles.migrate, roles.run, roles.read))
    place = _quoted(schema or "public")
    return Grants(
        roles="\n".join(_roles(database, None if schema is None else place, (migrate, run, read))),
        tables="\n".join(_tables(place, run, read)),
    )


def _roles(database: str, schema: str | None, names: tuple[str, str, str]) -> list[str]:
    migrate, run, read = names
    made = [
        f"DO $$ BEGIN CREATE ROLE {name} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;" for name in names
    ]
    if schema is None:
        own = [f"GRANT USAGE, CREATE ON SCHEMA public TO {migrate};", "REVOKE CREATE ON SCHEMA public FROM PUBLIC;"]
    else:
        own = [f"CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {migrate};"]
    return [
        "-- Roles. Run as an administrator, once, before the first `rota db migrate`, and give each role a password.",
        "-- Tables that belong to another role: REASSIGN OWNED BY that_role TO the role that migrates.",
        *made,
        f"GRANT CONNECT ON DATABASE {database} TO {migrate}, {run}, {read};",
        *own,
        f"GRANT USAGE ON SCHEMA {schema or 'public'} TO {run}, {read};",
    ]


def _tables(schema: str, run: str, read: str) -> list[str]:
    lines = [
        "-- Rights to tables. Run as an administrator or as the role that migrates, after each `rota db migrate`.",
    ]
    for table in tables():
        privileges = "SELECT" if table == _DEFAULT_PARTITION else privileges_of(table)
        lines.append(f"GRANT {privileges} ON {schema}.{table} TO {run};")
    lines.append(f"GRANT SELECT ON {schema}.{_VIEW} TO {run}, {read};")
    lines += [f"GRANT EXECUTE ON FUNCTION {schema}.{function} TO {run};" for function in functions()]
    lines += [f"GRANT SELECT ON {schema}.{table} TO {read};" for table in tables() if table not in SECRET_TABLES]
    return lines


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))
