"""The state machine against every store, in parts that can run in parallel."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from conformance.model.machine import StoreMachine
from conformance.stores.adapters import STORES, Adapter

#: How many lives are led per store and how long they are; at night more, longer, and with another seed.
EXAMPLES: Final = int(os.environ.get("ROTA_MODEL_EXAMPLES", "120"))
STEPS: Final = int(os.environ.get("ROTA_MODEL_STEPS", "40"))
SEED: Final = int(os.environ.get("ROTA_MODEL_SEED", "0"))
SHARES: Final = 3
#: A file costs a thread's turn and a sync per write; the difference to a store in memory is group commit, not the
#: rules.
PART_ON_FILE: Final = 10


@pytest.mark.timeout(0)
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("adapter", STORES, ids=lambda adapter: adapter.name)
def test_a_store_does_what_the_model_does(adapter: Adapter, share: int, tmp_path: Path) -> None:
    """On failure Hypothesis prints the shortest life it found; the same ROTA_MODEL_* settings find it again."""

    numbers = count()

    class Machine(StoreMachine):
        def __init__(self) -> None:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            super().__init__(adapter, folder)

    examples = EXAMPLES // SHARES // (PART_ON_FILE if adapter.is_shared else 1)
    run_state_machine_as_test(
        seed(SEED * SHARES + share)(Machine),
        settings=settings(
            max_examples=max(examples, 1),
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            phases=set(Phase) - {Phase.explain},
        ),
    )
