"""The command line of the simulation.

``python -m simulation --seeds 2000 --processes 2``  run seeds, the corpus first; ends with 1 if any of them fails
``python -m simulation --seed 17``                   replay one seed: its world, its history, its violations, its hash
``python -m simulation --seed 17 --variant loops``      the same seed with another variant than its own
``python -m simulation --mutants``                   plant each bug and print which seed and which invariant found it
``python -m simulation --digests 3 17``              print the hashes of histories, to compare them across machines
"""

# ruff: noqa: T201 - a command line prints

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable

from simulation.checker import INVARIANTS
from simulation.faults import ALL_FAULTS, FaultClass
from simulation.history import to_line
from simulation.mutants import MUTANTS
from simulation.runner import Outcome, corpus, detect, run_seeds, shrink
from simulation.scenario import run
from simulation.variants import VARIANTS, Variant, variant_of

_SECONDS_PER_HOUR = 3600


def main(arguments: list[str]) -> int:
    """Do what the command line asks for."""
    options = _parser().parse_args(arguments)
    classes = [kind for kind in ALL_FAULTS if kind.value not in options.without.split(",")]
    variant = VARIANTS.get(options.variant)
    if options.seed is not None:
        return replay(options.seed, classes, variant or variant_of(options.seed))
    if options.digests:
        return digests(options.digests)
    if options.mutants:
        return mutants(options.seeds or 500)
    return campaign(range(options.first, options.first + (options.seeds or 2000)), options.processes, variant)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation", description="Simulate whole worlds from seeds.")
    parser.add_argument("--seeds", type=int, help="how many seeds to run (2000; for mutants at most, each: 500)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--processes", type=int, default=2, help="on how many processes (2)")
    parser.add_argument("--seed", type=int, help="replay one seed and print all of it")
    parser.add_argument("--variant", choices=VARIANTS, help="the variant; each seed has its own otherwise")
    parser.add_argument("--without", default="", help="with --seed: classes of faults to leave out, with commas")
    parser.add_argument("--mutants", action="store_true", help="plant bugs and print what finds them")
    parser.add_argument("--digests", type=int, nargs="+", help="print the hashes of these seeds' histories")
    return parser


def campaign(seeds: Iterable[int], processes: int, variant: Variant | None) -> int:
    """Run the corpus, then some seeds; print what fails and what it needs to fail."""
    parts = list(dict.fromkeys([*corpus(), *((seed, (variant or variant_of(seed)).name) for seed in seeds)]))
    begun = time.perf_counter()
    done = failed = 0
    virtual = 0.0
    for outcomes in run_seeds(parts, processes):
        done += len(outcomes)
        virtual += sum(outcome.virtual_seconds for outcome in outcomes)
        for outcome in outcomes:
            if not outcome.is_clean:
                failed += 1
                _print_failure(outcome)
        if done % 200 == 0 or done == len(parts):
            _print_progress(done, len(parts), failed, time.perf_counter() - begun, virtual)
    print(f"{failed} of {done} seeds failed")
    return 1 if failed else 0


def _print_progress(done: int, total: int, failed: int, seconds: float, virtual: float) -> None:
    rate = done / seconds
    hours = virtual / _SECONDS_PER_HOUR
    print(f"{done:>7} of {total} seeds  {rate:6.1f} seeds/s  {hours:8.1f} virtual hours  {failed} failed", flush=True)


def _print_failure(outcome: Outcome) -> None:
    print(f"\nSEED={outcome.seed} VARIANT={outcome.variant} COMMIT={_commit()} {' '.join(outcome.violated)}")
    print(outcome.message)
    print("needs:", ", ".join(shrink(outcome.seed, outcome.violated, VARIANTS[outcome.variant])) or "no fault at all")
    print(f"replay: make sim SEED={outcome.seed} VARIANT={outcome.variant}\n", flush=True)


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def replay(seed: int, classes: Iterable[FaultClass], variant: Variant) -> int:
    """Run one seed and print everything about it."""
    one = run(seed, list(classes), variant)
    world = one.world
    for record in one.records:
        print(to_line(record))
    hosts = f"{len(world.workers)} workers, {len(world.schedulers)} schedulers, {len(world.clients)} clients"
    print(
        f"\nworld {seed}, variant {variant.name}: {hosts}, {len(world.schedules)} schedules, lease {world.lease}, "
        f"quiet at {world.quiet_at:.1f} s"
    )
    for fault in world.faults:
        print(f"  {fault.at:8.2f} s  {fault.kind:<13} {fault.target} {fault.detail} {fault.amount:.3g}")
    for violation in one.report.violations:
        print(f"\nVIOLATED {violation}\n  ({INVARIANTS[violation.invariant]})")
        for record in one.report.excerpt(one.records, violation):
            print("  ", to_line(record))
    print(f"\nSEED={seed} VARIANT={variant.name} COMMIT={_commit()} HASH={one.digest()}")
    print(f"{one.virtual_seconds:.1f} virtual seconds")
    return 0 if one.report.is_clean else 1


def digests(seeds: Iterable[int]) -> int:
    """Print the hash of each seed's history."""
    for seed in seeds:
        print(seed, run(seed).digest())
    return 0


def mutants(most: int) -> int:
    """Plant each bug in turn and print which invariant found it, with which seed."""
    survivors = 0
    for mutant in MUTANTS:
        kill = detect(mutant, most)
        survivors += kill.seed is None
        found = "SURVIVED" if kill.seed is None else f"seed {kill.seed:>3}  noticed by {' '.join(kill.violated)}"
        print(f"{mutant.invariant:<4} {mutant.variant.name:<7} {mutant.name:<40} {found}", flush=True)
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} mutants killed within {most} seeds")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
