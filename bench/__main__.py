"""`make bench`: Rota on its stores, beside their ceilings and, with `PEERS=`, other task queues."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from bench.environment import Sizes, open_environment
from bench.measure import describe_machine
from bench.plot import plot
from bench.report import (
    print_ceilings,
    print_descriptions,
    print_failures,
    print_overview,
    print_workload,
    write_json,
)
from bench.run import run
from bench.servers import MARIADB, POSTGRES
from bench.systems.registry import PEERS, STORES, Candidate
from bench.workloads.protocol import Workload
from bench.workloads.registry import WORKLOADS

T = TypeVar("T")
RESULTS: Final = Path(__file__).resolve().parent / ".results"
_SETTINGS: Final = "; ".join(
    (
        "every commit is synced to the disk by SQLite (WAL, synchronous=FULL), PostgreSQL and MariaDB",
        "PostgreSQL " + ", ".join(f"{name}={value}" for name, value in POSTGRES.items()),
        "MariaDB " + ", ".join(f"{name}={value}" for name, value in MARIADB.items()),
        "Valkey with Redis' default snapshots, which are not synced",
    )
)


def chosen(names: str, there: Mapping[str, T]) -> list[T]:
    """Return what a list of names stands for."""
    wanted = [name for name in names.replace(",", " ").split() if name]
    unknown = [name for name in wanted if name not in there]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(there)}")
    return [there[name] for name in wanted]


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    everyone = ",".join(STORES)
    parser.add_argument(
        "--stores", type=lambda names: chosen(names, STORES), default=everyone, help=f"of Rota: {everyone}"
    )
    parser.add_argument("--peers", type=lambda names: chosen(names, PEERS), default="", help=", ".join(PEERS))
    parser.add_argument(
        "--workloads",
        type=lambda names: chosen(names, WORKLOADS),
        # The others mostly wait, for a minute and more on each store.
        default="w1,w2,w3,w4",
        help=f"{', '.join(WORKLOADS)}; w1,w2,w3,w4 if none is named",
    )
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs that are submitted and drained")
    parser.add_argument("--singles", type=int, default=200, help="jobs that come one by one, or are due at a time")
    parser.add_argument("--processes", type=int, default=2, help="worker processes")
    parser.add_argument("--repeats", type=int, default=3, help="of what is not a percentile")
    parser.add_argument("--idle-seconds", type=float, default=20.0, help="how long idle processes are watched")
    parser.add_argument("--settling-seconds", type=float, default=20.0, help="how long they are left alone before")
    parser.add_argument("--crash-seconds", type=float, default=90.0, help="how long a killed worker's jobs have")
    parser.add_argument("--folder", type=Path, help="where databases go; a real disk, not a tmpfs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the plot and the values go")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = options_of(arguments)
    contenders: list[Candidate] = [*options.peers, *options.stores]
    workloads: list[Workload] = options.workloads
    sizes = Sizes(
        options.jobs,
        options.singles,
        options.processes,
        options.idle_seconds,
        options.crash_seconds,
        options.settling_seconds,
    )
    about = (
        f"{describe_machine('')}; {sizes.jobs:,} jobs, {sizes.processes} worker processes, {options.repeats} repeats"
    )
    print(about)
    print(_SETTINGS, flush=True)
    with open_environment(sizes, options.folder) as fresh_stores:
        results = run(fresh_stores, contenders, workloads, options.repeats)
        print("; ".join(fresh_stores.servers.versions()))
    print_descriptions(results)
    print_ceilings(results)
    for workload in workloads:
        print_workload(results, workload)
    print_overview(results, contenders)
    print_failures(results)
    options.results.mkdir(parents=True, exist_ok=True)
    write_json(results, about, options.results / "latest.json")
    (options.results / "latest.svg").write_text(plot(results, workloads, about))
    print(f"\n{describe_machine('')} at the end; plot and values in {options.results}")


if __name__ == "__main__":
    main()
