"""The numbered steps that bring a database to the form this release expects. Forward only."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files


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
