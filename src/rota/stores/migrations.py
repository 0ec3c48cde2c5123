"""Migrations: numbered, forward-only changes of the schema, and their comparison with a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple, NoReturn

from rota.core.errors import InvalidRequest, SchemaTooNew


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered SQL script that changes the schema of a store."""

    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """A hash by which a change of the file after it was applied is noticed."""
        return sha256(self.text.encode()).hexdigest()


def migrations_in(package: str) -> list[Migration]:
    """Return the migrations of a store's package, in order."""
    folder = files(package).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(int(name[:4]), name.removesuffix(".sql"), folder.joinpath(name).read_text(encoding="utf-8"))
        for name in names
    ]


class MigrationState(NamedTuple):
    """A migration, whether it was applied to a database, and whether this release knows it."""

    name: str
    is_applied: bool
    is_known: bool = True


def compare(ours: Sequence[Migration], applied: Mapping[int, str]) -> list[MigrationState]:
    """Compare the migrations of this release with those applied to a database, by number and name."""
    known = [MigrationState(migration.name, applied.get(migration.number) == migration.name) for migration in ours]
    return [*known, *(MigrationState(name, is_applied=True, is_known=False) for name in _unknown(ours, applied))]


def differences(ours: Sequence[Migration], applied: Mapping[int, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the migrations that a database lacks, and those that this release does not know."""
    states = compare(ours, applied)
    missing = tuple(state.name for state in states if not state.is_applied)
    return missing, tuple(state.name for state in states if not state.is_known)


def require_known(ours: Sequence[Migration], applied: Mapping[int, str]) -> None:
    """Refuse a database with migrations that this release does not know: writing to it may not be safe.

    It may be a newer release, or another branch that used the same number for a migration of its own.
    """
    names = {migration.number: migration.name for migration in ours}
    unknown = [
        f"{applied[number]} where this release has {names[number]}" if number in names else applied[number]
        for number in _unknown(ours, applied).values()
    ]
    if unknown:
        raise SchemaTooNew(
            f"store: a newer or another release of Rota has migrated this database ({', '.join(unknown)}); install that"
            " release, or name another store",
            field="store",
        )


def _unknown(ours: Sequence[Migration], applied: Mapping[int, str]) -> dict[str, int]:
    """Return names and numbers of the applied migrations that this release does not have."""
    names = {migration.number: migration.name for migration in ours}
    return {name: number for number, name in sorted(applied.items()) if names.get(number) != name}


def refuse_unprivileged(ours: Sequence[Migration], applied: Mapping[int, str], reason: object) -> NoReturn:
    """Refuse a store whose migrations are missing if the role may not apply them."""
    missing = ", ".join(migration.name for migration in ours if migration.number not in applied)
    raise InvalidRequest(
        f"store: the migration {missing} is missing, and this role may not apply it ({reason}); run `rota db migrate`"
        " with the role that owns the tables, then `rota db grants --only tables`",
        field="store",
    )
