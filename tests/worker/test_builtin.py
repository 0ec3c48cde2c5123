"""The built-in types: payloads checked by field, and what they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.core.errors import InvalidRequest
from rota.core.lifecycle import State
from rota.core.log_lines import lines_of
from rota.core.settlement import Reason
from rota.worker import GiveUp
from rota.worker.builtin import CHECKS, FileSettings, builtin_handlers
from rota.worker.builtin.file import FileOperations
from worker.environment import OPERATOR, WorkerEnvironment

GOOD: list[tuple[str, Any]] = [
    ("sleep", {"duration": 5}),
    ("sleep", {"duration": 0.5}),
    ("sleep", {"duration": "5s"}),
    ("sleep", {"duration": "1h30m"}),
    ("http", {"url": "https://example.com"}),
    ("http", {"url": "http://example.com:8080/a?b=c", "method": "post", "body": {"a": 1}}),
    ("http", {"url": "http://example.com", "headers": {"X-Key": "v"}, "timeout": "10s", "expect_status": [200, 404]}),
    ("http", {"url": "http://example.com", "body": "text", "expect_status": 204}),
    ("file", {"operation": "write", "path": "a/b.txt", "content": "x"}),
    ("file", {"operation": "read", "path": "b.txt"}),
    ("file", {"operation": "copy", "path": "a", "to": "b"}),
    ("demo", {"msg": "hello"}),
    ("echo", [1, 2]),
    ("default", "task data"),
    ("default", None),
]
BAD: list[tuple[str, Any, str]] = [
    ("sleep", None, "payload"),
    ("sleep", 5, "payload"),
    ("sleep", {}, "payload.duration"),
    ("sleep", {"duration": -1}, "payload.duration"),
    ("sleep", {"duration": True}, "payload.duration"),
    ("sleep", {"duration": "soon"}, "payload.duration"),
    ("sleep", {"duration": [5]}, "payload.duration"),
    ("sleep", {"duration": 5, "unit": "s"}, "payload.unit"),
    ("http", {}, "payload.url"),
    ("http", {"url": 5}, "payload.url"),
    ("http", {"url": "ftp://example.com"}, "payload.url"),
    ("http", {"url": "file:///etc/passwd"}, "payload.url"),
    ("http", {"url": "example.com"}, "payload.url"),
    ("http", {"url": "http://"}, "payload.url"),
    ("http", {"url": "http://user:pass@example.com"}, "payload.url"),
    ("http", {"url": "http://[::1"}, "payload.url"),
    ("http", {"url": "http://example.com:99999"}, "payload.url"),
    ("http", {"url": "http://example.com/" + "x" * 9000}, "payload.url"),
    ("http", {"url": "http://a", "method": "BREW"}, "payload.method"),
    ("http", {"url": "http://a", "method": 5}, "payload.method"),
    ("http", {"url": "http://a", "headers": ["x"]}, "payload.headers"),
    ("http", {"url": "http://a", "headers": {"x y": "v"}}, "payload.headers.x y"),
    ("http", {"url": "http://a", "headers": {"X": "a\r\nEvil: 1"}}, "payload.headers.X"),
    ("http", {"url": "http://a", "headers": {"Host": "b"}}, "payload.headers.Host"),
    ("http", {"url": "http://a", "headers": {"X": 5}}, "payload.headers.X"),
    ("http", {"url": "http://a", "expect_status": 99}, "payload.expect_status"),
    ("http", {"url": "http://a", "expect_status": "200"}, "payload.expect_status"),
    ("http", {"url": "http://a", "timeout": 0}, "payload.timeout"),
    ("http", {"url": "http://a", "timeout": "2h"}, "payload.timeout"),
    ("http", {"url": "http://a", "timeout": []}, "payload.timeout"),
    ("http", {"url": "http://a", "verb": "GET"}, "payload.verb"),
    ("file", {"operation": "chmod", "path": "a"}, "payload.operation"),
    ("file", {"path": "a"}, "payload.operation"),
    ("file", {"operation": "read"}, "payload.path"),
    ("file", {"operation": "read", "path": ""}, "payload.path"),
    ("file", {"operation": "read", "path": "/etc/passwd"}, "payload.path"),
    ("file", {"operation": "read", "path": "../x"}, "payload.path"),
    ("file", {"operation": "read", "path": "a/../../x"}, "payload.path"),
    ("file", {"operation": "read", "path": "a//b"}, "payload.path"),
    ("file", {"operation": "read", "path": "./a"}, "payload.path"),
    ("file", {"operation": "read", "path": "a/"}, "payload.path"),
    ("file", {"operation": "read", "path": "a\0b"}, "payload.path"),
    ("file", {"operation": "read", "path": "x" * 300}, "payload.path"),
    ("file", {"operation": "read", "path": "a", "content": "x"}, "payload.content"),
    ("file", {"operation": "write", "path": "a"}, "payload.content"),
    ("file", {"operation": "write", "path": "a", "content": "\ud800"}, "payload.content"),
    ("file", {"operation": "copy", "path": "a"}, "payload.to"),
    ("file", {"operation": "move", "path": "a", "to": "../b"}, "payload.to"),
    ("file", {"operation": "delete", "path": "a", "to": "b"}, "payload.to"),
]


@pytest.mark.parametrize(("job_type", "payload"), GOOD)
def test_a_right_payload_is_taken(job_type: str, payload: object) -> None:
    CHECKS[job_type](payload)


@pytest.mark.parametrize(("job_type", "payload", "field"), BAD)
def test_a_wrong_payload_is_refused_and_its_field_named(job_type: str, payload: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        CHECKS[job_type](payload)
    assert refusal.value.field == field
    assert str(refusal.value).startswith(field)


@pytest.mark.parametrize(("job_type", "payload", "field"), BAD[:3])
async def test_a_wrong_payload_that_slipped_through_fails_the_job_for_good(
    env: WorkerEnvironment, job_type: str, payload: object, field: str
) -> None:
    async with env.worker(*builtin_handlers()):
        job = await env.end_of(await env.submit(job_type, json.dumps(payload)))
    assert job.reason is Reason.PERMANENT
    assert job.error is not None
    assert job.error.message.startswith(field)


async def test_echo_demo_and_default_take_anything(env: WorkerEnvironment) -> None:
    async with env.worker(*builtin_handlers()):
        ids = [await env.submit(name, '{"msg": "hello"}') for name in ("echo", "demo", "default")]
        jobs = await env.ends_of(ids)
    assert [json.loads(job.result or "") for job in jobs] == [
        {"msg": "hello"},
        {"received": {"msg": "hello"}, "attempt": 1},
        {"recorded": {"msg": "hello"}},
    ]
    (attempt,) = await env.engine.store.attempts(ids[1])
    assert [line.message for line in lines_of(attempt.log_tail or "")] == ["step 1 of 3", "step 2 of 3", "step 3 of 3"]


async def test_a_built_in_job_without_a_timeout_of_its_own_gets_the_worker_s(env: WorkerEnvironment) -> None:
    async with env.worker(*builtin_handlers(timeout=timedelta(milliseconds=50))):
        short = await env.submit("sleep", '{"duration": 3600}', max_attempts=1)
        own = await env.submit("sleep", '{"duration": 0.2}', timeout=timedelta(seconds=30))
        assert (await env.end_of(short)).state is State.DEAD
        assert (await env.end_of(own)).state is State.COMPLETED


async def test_a_sleep_is_ended_by_a_cancel(env: WorkerEnvironment) -> None:
    async with env.worker(*builtin_handlers()) as worker:
        job_id = await env.submit("sleep", '{"duration": 3600}')
        await env.until(job_id, lambda job: job.state is State.RUNNING)
        await env.engine.cancel([job_id], OPERATOR)
        assert worker.busy == 1
        job = await env.end_of(job_id)
    assert job.state is State.CANCELLED


async def test_files_are_off_without_a_root(env: WorkerEnvironment) -> None:
    async with env.worker(*builtin_handlers()):
        job_id = await env.submit("file", '{"operation": "read", "path": "x"}')
        await env.end_of(await env.submit("echo"))
    assert (await env.look(job_id)).state is State.PENDING


class TestFiles:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "outside").write_text("secret", encoding="utf-8")
        root = tmp_path / "root"
        root.mkdir()
        return root

    async def run(self, env: WorkerEnvironment, root: Path, *payloads: dict[str, Any]) -> list[Any]:
        async with env.worker(*builtin_handlers(files=FileSettings(root)), concurrency=1):
            ids = [await env.submit("file", json.dumps(one), max_attempts=1) for one in payloads]
            jobs = await env.ends_of(ids)
        return [json.loads(job.result) if job.result is not None else job.reason for job in jobs]

    def test_nothing_is_written_beyond_the_quota(self, root: Path) -> None:
        (root / "there").write_bytes(b"x" * 60)
        files = FileOperations(FileSettings(root, quota=100))
        assert files({"operation": "write", "path": "new", "content": "x" * 40})["bytes"] == 40
        for operation in ("write", "append"):
            with pytest.raises(GiveUp, match="quota of 100 bytes; 100 are in use"):
                files({"operation": operation, "path": "more", "content": "x"})
        with pytest.raises(GiveUp, match="quota"):
            files({"operation": "copy", "path": "there", "to": "again"})
        assert sorted(path.name for path in root.iterdir()) == ["new", "there"]
        files({"operation": "delete", "path": "there"})
        assert files({"operation": "append", "path": "new", "content": "x"})["bytes"] == 1

    def test_a_new_file_has_the_mode_that_is_set(self, root: Path) -> None:
        files = FileOperations(FileSettings(root, mode=0o600))
        files({"operation": "write", "path": "a/one", "content": "x"})
        files({"operation": "copy", "path": "a/one", "to": "two"})
        files({"operation": "append", "path": "three", "content": "x"})
        assert {f"{(root / name).stat().st_mode & 0o777:o}" for name in ("a/one", "two", "three")} == {"600"}

    async def test_files_are_written_read_copied_moved_and_deleted(self, env: WorkerEnvironment, root: Path) -> None:
        results = await self.run(
            env,
            root,
            {"operation": "write", "path": "a/b/c.txt", "content": "grüß"},
            {"operation": "append", "path": "a/b/c.txt", "content": "!"},
            {"operation": "read", "path": "a/b/c.txt"},
            {"operation": "copy", "path": "a/b/c.txt", "to": "d/e.txt"},
            {"operation": "move", "path": "a/b/c.txt", "to": "f.txt"},
            {"operation": "delete", "path": "d/e.txt"},
            {"operation": "delete", "path": "d/e.txt"},
        )
        assert results[2] == {"path": "a/b/c.txt", "bytes": 7, "content": "grüß!"}
        assert [one["is_deleted"] for one in results[5:]] == [True, False]
        assert (root / "f.txt").read_text(encoding="utf-8") == "grüß!"
        assert [name for _, _, names in os.walk(root) for name in names] == ["f.txt"]

    @pytest.mark.parametrize("operation", ["read", "append", "write", "copy", "move", "delete"])
    @pytest.mark.parametrize("how", ["link", "folder_link", "hard_link", "pipe", "folder"])
    async def test_what_is_not_a_plain_file_is_not_touched(
        self, env: WorkerEnvironment, root: Path, tmp_path: Path, operation: str, how: str
    ) -> None:
        outside = tmp_path / "outside"
        path = "odd"
        match how:
            case "link":
                (root / "odd").symlink_to(outside)
            case "folder_link":
                (root / "odd").symlink_to(tmp_path)
                path = "odd/outside"
            case "hard_link":
                (root / "odd").hardlink_to(outside)
            case "pipe":
                os.mkfifo(root / "odd")
            case _:
                (root / "odd").mkdir()
        payload = {"operation": operation, "path": path}
        if operation in {"write", "append"}:
            payload["content"] = "overwritten"
        if operation in {"copy", "move"}:
            payload["to"] = "stolen"
        results = await self.run(env, root, payload)
        assert results == [Reason.PERMANENT]
        assert outside.read_text(encoding="utf-8") == "secret"
        assert not (root / "stolen").exists()
        assert (root / "odd").exists()

    async def test_a_link_as_the_target_of_a_copy_is_refused(
        self, env: WorkerEnvironment, root: Path, tmp_path: Path
    ) -> None:
        (root / "a").write_text("data", encoding="utf-8")
        (root / "odd").symlink_to(tmp_path / "outside")
        results = await self.run(
            env, root,
            {"operation": "copy", "path": "a", "to": "odd"}, {"operation": "move", "path": "a", "to": "odd"},
        )  # fmt: skip
        assert results == [Reason.PERMANENT] * 2
        assert (tmp_path / "outside").read_text(encoding="utf-8") == "secret"

    async def test_too_much_is_refused(self, env: WorkerEnvironment, root: Path) -> None:
        (root / "large").write_bytes(b"x" * 1_000_001)
        results = await self.run(
            env, root,
            {"operation": "read", "path": "large"}, {"operation": "append", "path": "large", "content": "x"},
        )  # fmt: skip
        assert results == [Reason.PERMANENT] * 2

    def test_swapping_a_folder_for_a_link_under_way_never_leads_outside(self, root: Path, tmp_path: Path) -> None:
        """Another process swaps a folder and a link to the outside as fast as it can, while we read through it."""
        (root / "folder").mkdir()
        (root / "folder" / "outside").write_text("inside", encoding="utf-8")
        (root / "link").symlink_to(tmp_path)
        swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(root)])
        files = FileOperations(FileSettings(root))
        seen = Counter[str]()
        try:
            while min(seen["inside"], seen["refused"]) < 2000:
                try:
                    seen[files({"operation": "read", "path": "folder/outside"})["content"]] += 1
                except GiveUp:
                    seen["refused"] += 1
                except FileNotFoundError:
                    seen["absent"] += 1
        finally:
            swapper.kill()
            swapper.wait()
        assert seen["secret"] == 0


#: Exchanges two names for ever: each is a folder at one moment and a link to the outside at the next.
SWAPPER = """
import os, sys
os.chdir(sys.argv[1])
while True:
    os.rename("folder", "spare"); os.rename("link", "folder"); os.rename("spare", "link")
"""


def test_a_worker_loads_the_http_client_only_when_it_needs_it() -> None:
    """It is a quarter of what a worker would load, and most workers never send one."""
    program = "import sys, rota.runtime.process; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
