"""Imports: processes do not load packages that they do not use."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import rota
import rota.worker


def loaded_by(statements: str) -> set[str]:
    program = f"{statements}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_no_process_loads_what_only_a_command_line_of_somebody_else_needs() -> None:
    loaded = loaded_by("import rota.cli.commands.roles, rota.client, rota.worker.builtin.http")
    assert "httpx" in loaded
    assert loaded.isdisjoint({"rich", "pygments", "httpx._main"})


def test_the_command_line_of_httpx_can_still_be_imported() -> None:
    assert "httpx._main" in loaded_by("import rota._httpx, httpx._main")
    assert "httpx._main" in loaded_by("import httpx, rota._httpx")


def test_a_lease_keeper_loads_neither_what_runs_jobs_nor_what_keeps_time() -> None:
    beside_a_store = loaded_by("import rota.worker.lease_keeper.process, rota.runtime.link")
    assert "rota.engine" in beside_a_store
    assert beside_a_store.isdisjoint({"rota.worker.worker", "rota.sdk", "rota.scheduler", "rota.runtime.process"})
    at_rest = loaded_by("import rota.worker.lease_keeper.start")
    assert at_rest.isdisjoint({"asyncio", "msgspec", "rota.core.lease", "rota.worker.lease_keeper.process"})
    over_http = loaded_by("import rota.worker.lease_keeper.process, rota.client.client")
    assert over_http.isdisjoint({"rota.worker.worker", "rota.engine", "rota.stores", "rota.runtime"})


@pytest.mark.parametrize("package", [rota, rota.worker], ids=lambda package: package.__name__)
def test_a_package_that_loads_late_has_all_its_names_and_no_others(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="has no attribute 'nobody'"):
        _ = package.nobody
