"""What may not be in the source, read from its syntax trees.

Two rules. The core has no clock, no chance, no loop and no world: it imports only modules that compute. And nothing
anywhere revives objects or code from data: no pickle, no YAML, no `eval`, no import by a name that came from outside.

Each rule is tried on a planted sinner as well, because a rule that finds nothing may simply be blind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota

SOURCE = Path(rota.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
CORE = [path for path in MODULES if path.is_relative_to(SOURCE / "core")]

#: All that the core may import. Each of these computes and does nothing else (`zoneinfo` reads its tables, once). A
#: list of what is allowed, because a list of what is forbidden forgets.
COMPUTING = {
    "__future__", "base64", "bisect", "collections", "collections.abc", "dataclasses", "datetime", "difflib", "enum",
    "functools", "hashlib", "heapq", "hmac", "itertools", "json", "math", "operator", "re", "shlex", "string", "types",
    "typing", "urllib.parse", "zoneinfo",
}  # fmt: skip
#: Functions that read a clock.
CLOCKS = {"now", "utcnow", "today"}
#: What reaches out of the program, or into it.
REACHING = {"open", "print", "input", "breakpoint", "eval", "exec", "compile", "__import__", "globals", "vars", "exit"}
#: Modules that make objects or code of data.
REVIVING = {
    "cloudpickle", "cPickle", "dbm", "dill", "imp", "joblib", "jsonpickle", "marshal", "pickle", "pickletools", "runpy",
    "ruamel", "shelve", "yaml", "code", "codeop",
}  # fmt: skip
#: Parts of importlib that read what a package says about itself. All others import.
HARMLESS_IMPORTLIB = ("importlib.metadata", "importlib.resources")
EVALUATING = {"eval", "exec", "compile", "__import__"}
#: Where code is imported by a name nevertheless, and where the name comes from. Never a payload, a request or a row.
NAMED_BY_WHOEVER_STARTS_US = {
    "sdk/loader.py",  # the user's modules: from the command line or the settings
    "worker/references.py",  # a child process's handler: from the worker that starts it
    "_lazy.py",  # our own names, imported late: from the fixed tables of packages
    "cli/main.py",  # our own commands, imported late: from the table of commands, below one fixed package
}
LOADING = {"import_module", "resolve_name", "load_module", "exec_module"}
IMPORTING = {"import_module", "importlib.import_module"}


def imported(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Name what a module imports: the line, the module, and module and name in one, which may be a module as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or "."
            yield from ((node.lineno, module, f"{module}.{alias.name}") for alias in node.names)


def date_names(tree: ast.AST) -> set[str]:
    """Name what stands for the classes and the module of dates, whatever they were renamed to."""
    names = {"datetime", "date"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.name == "datetime" and alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module == "datetime":
            names |= {alias.asname for alias in node.names if alias.asname}
    return names


def impurities(text: str) -> list[str]:
    """Find what the core must not have."""
    tree = ast.parse(text)
    found = [
        f"{line}: imports {module}"
        for line, module, _ in imported(tree)
        if module not in COMPUTING and not f"{module}.".startswith("rota.core.")
    ]
    dates = date_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Await() | ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith() | ast.Yield():
                found.append(f"{node.lineno}: waits")
            case ast.Attribute(attr=name, value=ast.Name(id=owner)) if name in CLOCKS and owner in dates:
                found.append(f"{node.lineno}: asks {owner}.{name}")
            case ast.Attribute(attr=name, value=ast.Attribute(attr=owner)) if name in CLOCKS and owner in dates:
                found.append(f"{node.lineno}: asks {owner}.{name}")
            case ast.Name(id=name) if name in REACHING:
                found.append(f"{node.lineno}: uses {name}")
            case ast.Global() | ast.Nonlocal():
                found.append(f"{node.lineno}: remembers")
            case _:
                pass
    return found


def revivals(text: str, *, may_import: bool = False) -> list[str]:
    """Find what makes objects or code of data."""
    tree = ast.parse(text)
    allowed = IMPORTING if may_import else frozenset()
    found = [
        f"{line}: imports {name}"
        for line, _, name in imported(tree)
        if name.split(".")[0] in REVIVING
        or (name.startswith("importlib.") and not name.startswith(HARMLESS_IMPORTLIB) and name not in allowed)
    ]
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in EVALUATING:
                found.append(f"{node.lineno}: uses {name}")
            case ast.Attribute(attr=name) if name in LOADING and name not in allowed:
                found.append(f"{node.lineno}: uses {name}")
            case ast.Attribute(attr=name, value=ast.Name(id="builtins")) if name in EVALUATING:
                found.append(f"{node.lineno}: uses builtins.{name}")
            case _:
                pass
    return found


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", CORE, ids=shown)
def test_the_core_has_no_clock_no_chance_no_loop_and_no_world(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_nothing_makes_objects_or_code_of_data(path: Path) -> None:
    may_import = shown(path) in NAMED_BY_WHOEVER_STARTS_US
    assert revivals(path.read_text(encoding="utf-8"), may_import=may_import) == []


def test_there_is_something_to_look_at() -> None:
    names = {shown(path) for path in CORE}
    assert {
        "core/job.py",
        "core/decision.py",
        "core/lifecycle.py",
        "core/schedule.py",
        "core/cron/__init__.py",
    } <= names


IMPURE = [
    "import time",
    "import random",
    "import secrets",
    "import uuid",
    "import asyncio",
    "import threading",
    "import socket",
    "import os",
    "import os.path",
    "import logging",
    "import subprocess",
    "import pathlib",
    "import sqlite3",
    "import msgspec",
    "import contextvars",
    "import collections.abc, time",
    "from time import monotonic",
    "from os import environ",
    "from random import random as rng",
    "from rota.ports.clock import Clock",
    "from rota import ports",
    "from . import job",
    "from datetime import datetime\nat = datetime.now()",
    "from datetime import datetime as moment\nat = moment.utcnow()",
    "import datetime\nat = datetime.datetime.now(datetime.UTC)",
    "import datetime as dt\nat = dt.date.today()",
    "from datetime import date\nclock = date.today",
    "async def decide(): ...",
    "def decide():\n    async def inner(): await inner()",
    "open('/etc/passwd')",
    "print('hello')",
    "input()",
    "breakpoint()",
    "count = 0\ndef decide():\n    global count\n    count += 1",
]
PURE = [
    "from datetime import datetime\ndef decide(now: datetime) -> datetime:\n    return now",
    "def decide(means):\n    return means.now",
    "from rota.core.job import Job\nfrom rota.core import cron",
    "import json\njson.dumps([])",
]
REVIVED = [
    "import pickle",
    "import pickle as p",
    "import marshal",
    "import shelve",
    "import yaml",
    "from yaml import safe_load",
    "import dill",
    "import jsonpickle",
    "import runpy",
    "from pickle import loads",
    "eval('1')",
    "exec('x = 1')",
    "do = eval",
    "compile('1', '', 'eval')",
    "__import__('os')",
    "import builtins\nbuiltins.eval('1')",
    "import importlib\nimportlib.import_module('os')",
    "from importlib import import_module",
    "from importlib import util",
    "import importlib.util",
    "import pkgutil\npkgutil.resolve_name('os:system')",
]
PLAIN = [
    "from importlib.resources import files",
    "from importlib import resources",
    "from importlib.metadata import version",
    "import re\nre.compile('x')",
    "import json\njson.loads('1')",
]


@pytest.mark.parametrize("text", IMPURE)
def test_a_planted_impurity_is_found(text: str) -> None:
    assert impurities(text)


@pytest.mark.parametrize("text", PURE)
def test_a_pure_module_is_left_in_peace(text: str) -> None:
    assert impurities(text) == []


@pytest.mark.parametrize("text", REVIVED)
def test_a_planted_revival_is_found(text: str) -> None:
    assert revivals(text)


def test_a_module_that_may_import_by_name_may_do_nothing_else_of_the_kind() -> None:
    found = [text for text in REVIVED if not revivals(text, may_import=True)]
    assert found == ["import importlib\nimportlib.import_module('os')", "from importlib import import_module"]


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_module_is_left_in_peace(text: str) -> None:
    assert revivals(text) == []
