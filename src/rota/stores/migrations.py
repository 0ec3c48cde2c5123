"""The numbered steps that bring a database to the form this release expects. Forward only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from rota.core.errors import SchemaTooNew


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step."""

    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """What tells whether a file was changed after it had been applied somewhere."""
        return sha256(self.text.encode()).hexdigest()


def migrations_in(package: str) -> list[Migration]:
    """Give the migrations that a store's package brings, in order."""
    folder = files(package).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(int(name[:4]), name.removesuffix(".sql"), folder.joinpath(name).read_text(encoding="utf-8"))
        for name in names
    ]


class MigrationState(NamedTuple):
    """A migration, whether a database has seen it, and whether this release knows it."""

    name: str
    is_applied: bool
    is_known: bool = True


def compare(ours: Sequence[Migration], applied: Mapping[int, str]) -> list[MigrationState]:
    """Compare the migrations of this release with those a database has seen, by number and name."""
    known = [MigrationState(migration.name, applied.get(migration.number) == migration.name) for migration in ours]
    return [*known, *(MigrationState(name, is_applied=True, is_known=False) for name in _unknown(ours, applied))]


def require_known(ours: Sequence[Migration], applied: Mapping[int, str]) -> None:
    """Refuse a database that has seen migrations of another release: nobody knows what is safe to write there.

    It may be a newer release, or another branch, which gave the same number to a migration of its own.
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
    """Give the names and numbers of the migrations that a database has seen and this release does not have."""
    names = {migration.number: migration.name for migration in ours}
    return {name: number for number, name in sorted(applied.items()) if names.get(number) != name}
