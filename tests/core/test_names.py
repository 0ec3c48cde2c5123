"""Names of modules and classes: plain words, and one meaning for each class name.

A reader finds things by file names and class names. So every module name consists of words from `WORDS`, which are
words of task queues, databases, networks and Python; a new word is added there on purpose. A class name is defined once
in the whole tree, except for adapters of one port, which are the same thing for another database or server.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import rota

SOURCE = Path(rota.__file__).parent

#: Task queues and schedulers.
QUEUE_WORDS = """
    actions app attempt backlog backlogs backoff batch batches batching breaker breakers bulk capture claim claims
    cluster completion coordination coordinator cron dead deadlines decision dependencies deps dispatch dispatcher
    drain duration early edit edits execution executor executors explain facts failed failures fetcher fire firings
    flow full graph group handback handle handler handlers handoff heartbeat intake job jobs keeper keys lane lanes
    lease leases ledger letters lifecycle limit limited limits lines logins lookahead maintenance membership
    namespace namespaces occurrence operation operations orders outcome outcomes promoter pruner queue queues rank
    reaper redaction relations report reporter retention retry rules saved schedule scheduler schedules settle
    settlement signals slots snooze stagger step steps submission submissions submit supervision task tasks ticker
    times timetable token tokens topics tracker updates upkeep view views wakeup watchdog worker workers workflow
    workflows
"""
#: Databases and storage.
STORE_WORDS = """
    apsw audit base cache caller check commit condition counted cursor cursors database dialect driver file files
    fork grants growth identity inputs insert inspection json listing location locks low memory merge migrations multi
    mysql optimistic partitions pipeline pool postgres provision queries query rates read reader record records row rows
    scan scanner search session sql sqlite state statement statements storage store stores table tables terms
    transaction transactions tx unique update uri url versions wal water write writer
"""
#: Networks, processes and HTTP.
NETWORK_WORDS = """
    access address addresses aliases answers api auth bodies body broker brokers child client connection connections
    endpoint etags etcd event events fast forwarded gateway headers host http httpx io legacy listener live local
    long main messages middleware mounted network notify openapi pages permissions pipe plain poll portal process
    processes protocol proxy redis request requests response responses router routes serve server servers service
    sessions shared socket sockets sse start stream streams subscription system thread threads tls transport web
    websocket wire
"""
#: Encryption.
ENCRYPTION_WORDS = """
    aes cipher encryption envelope gcm password passwords user users webhook webhooks
"""
#: Observability.
TELEMETRY_WORDS = """
    alerts bench bus counts doctor health histogram history latency load log logs metric metrics outage overview
    percentiles prometheus reporting stats status target targets telemetry trace traces tracing
"""
#: Python and programming.
CODE_WORDS = """
    annotations argument arguments assembly builtin calls changes cli clock codec command commands components config
    configuration context core coroutines definition definitions documents embedded encoding engine error errors
    exceptions exits expression field filter finite flags format formats hash ids in init integrations kinds lazy
    link links loader loop offset option options output parser pattern payload payloads plan ports problem problems
    recovery references roles run runtime scalars schema sdk settings simple testing text time tree type types ui
    value values version waiting warnings zone zones
"""
WORDS = frozenset(
    f"{QUEUE_WORDS} {STORE_WORDS} {NETWORK_WORDS} {ENCRYPTION_WORDS} {TELEMETRY_WORDS} {CODE_WORDS}".split()
)

#: Words that were module names once and that a newcomer could not guess.
_OLD_NAMES = """
    alike anteroom archive attention band bearings bell board catalogue companion course crew desk diary duties ear
    edges escort estate exposition faces ferry flight floor floors foresight frames gate guest guests hearing
    holding homes house inodes instant knock lean lengthening lent letterbox line looking lookout mailbox nursery
    packets patience places precedence presence reach reckoning retiring rhythm rounds shift side spread stopper
    tallies texts tripwire venturing verdict within
"""
METAPHORS = frozenset(_OLD_NAMES.split())
#: The same among helpers of tests, benchmarks and tools.
_OLD_HELPERS = "asking cast driving dying ground hosting housing making nasty showing staging troop"
OLD_HELPERS = frozenset(_OLD_HELPERS.split())

#: Class names with several definitions of one meaning, and why.
ALLOWED_TWICE = {
    "Location": "the parsed URL of an adapter: MySQL, Redis, etcd",
    "Keys": "the key layout of an adapter: Redis, etcd",
}


def modules() -> list[Path]:
    return sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))


def words_of(path: Path) -> set[str]:
    """Return the words of the last part of a module's name, or of its package for an `__init__`."""
    name = path.parent.name if path.name == "__init__.py" else path.stem
    return {word for word in re.split(r"_+", name) if word and not word.isdigit()}


def meaning_of(path: Path) -> str:
    """Return the place of a definition; the stores are adapters of one port, so they are one place."""
    return re.sub(r"^stores/(sqlite|postgres|mysql)/.*", "stores/*", path.as_posix())


def classes_in(text: str) -> list[str]:
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def repeated(found: dict[str, set[str]]) -> dict[str, list[str]]:
    return {name: sorted(at) for name, at in found.items() if len(at) > 1 and name not in ALLOWED_TWICE}


def test_the_words_are_not_metaphors() -> None:
    assert not WORDS & METAPHORS


def test_module_names_consist_of_known_words() -> None:
    unknown = {str(path): sorted(left) for path in modules() if (left := words_of(path) - WORDS - {"main"})}
    assert not unknown, "rename the module, or add a plain word to the list"


def test_helpers_of_tests_and_benchmarks_have_no_such_names() -> None:
    root = Path(__file__).parents[2]
    helpers = [path for folder in ("tests", "bench", "tools", "examples") for path in (root / folder).rglob("*.py")]
    # The simulation has a vocabulary of its own; tests are named by their subject.
    named = [path for path in helpers if not path.stem.startswith("test_") and "simulation" not in path.parts]
    assert len(named) > 100
    assert not [str(path) for path in named if words_of(path) & (METAPHORS | OLD_HELPERS)]


def test_a_class_name_has_one_meaning() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        for name in classes_in((SOURCE / path).read_text(encoding="utf-8")):
            found[name].add(meaning_of(path))
    assert not repeated(found), "one class name means one thing in the whole tree"


def test_the_rules_find_a_bad_name() -> None:
    assert words_of(Path("worker/claim_carousel.py")) - WORDS == {"carousel"}
    assert words_of(Path("api/routes/__init__.py")) == {"routes"}
    assert repeated({"Bell": {"worker/a.py", "stores/*"}, "Job": {"core/job.py"}}) == {
        "Bell": ["stores/*", "worker/a.py"]
    }
