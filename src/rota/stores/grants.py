"""Database roles with the least privileges: which role may do what to which table.

The role `migrate` owns the tables and changes them; `run` is the role of Rota's processes, which create and drop no
tables; `read` is for reports, and cannot read credentials: hashes of tokens and secrets of webhooks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rota.core.errors import InvalidRequest

#: The name of a role or user; on MariaDB with the hosts from which it may connect.
_ROLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$-]{0,62}", re.ASCII)
_HOSTS: Final = re.compile(r"[A-Za-z0-9_.:%/-]{1,60}", re.ASCII)
#: What the role `run` may do to a table, unless it is named below.
ALL_ROWS: Final = "SELECT, INSERT, UPDATE, DELETE"
#: Entries of the ledger are added, and deleted when they are past their retention, but never changed.
OTHER_PRIVILEGES: Final = {"rota_migration": "SELECT", "rota_ledger": "SELECT, INSERT, DELETE"}
#: Tables with secrets, or hashes of them, which the role `read` does not see.
SECRET_TABLES: Final = frozenset({"rota_token", "rota_webhook", "rota_open_claim"})


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the three roles."""

    migrate: str
    run: str
    read: str

    def __post_init__(self) -> None:
        for field, name in (("migrate_role", self.migrate), ("run_role", self.run), ("read_role", self.read)):
            role, separator, hosts = name.partition("@")
            if not _ROLE.fullmatch(role) or (separator and not _HOSTS.fullmatch(hosts)):
                raise InvalidRequest(
                    f"{field}: {name!r} is not the name of a role; use letters, digits, '_', '$' and '-', and on"
                    " MariaDB perhaps @ and the hosts from which it connects, such as rota_run@10.0.0.%",
                    field=field,
                )
        if len({self.migrate, self.run, self.read}) < len(("migrate", "run", "read")):
            raise InvalidRequest("run_role: the three roles must have different names", field="run_role")


@dataclass(frozen=True, slots=True)
class Grants:
    """SQL scripts: one that makes the roles, and one that gives them rights to the tables, which have to be there."""

    roles: str
    tables: str


def privileges_of(table: str) -> str:
    """Return what the role `run` may do to a table."""
    return OTHER_PRIVILEGES.get(table, ALL_ROWS)
