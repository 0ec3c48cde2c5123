"""Write the table of expected figures anew: `make guard`."""

from __future__ import annotations

import asyncio

from guard.paths import PYTHON_PATHS, STORES, Figures, python_figures, store_figures
from guard.table import STORES as STORES_PART
from guard.table import expected, python_version, write


async def main() -> None:
    """Measure everything, write it down, and say what changed."""
    stores: Figures = {}
    for name in STORES:
        stores |= await store_figures(name)
    python: Figures = {}
    for name in PYTHON_PATHS:
        python |= await python_figures(name)
    for part, figures in ((STORES_PART, stores), (python_version(), python)):
        before = expected(part) or {}
        write(part, figures)
        for name, count in figures.items():
            if before.get(name) != count:
                print(f"{part}: {name}: {before.get(name, 'none')} -> {count}")  # noqa: T201 - a program's answer


if __name__ == "__main__":
    asyncio.run(main())
