"""Warnings about settings: variables that have no effect, and secrets that other users of the machine can read."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from rota.core.redaction import redacted
from rota.settings import OPTIONS, Settings

#: Variables that Kubernetes sets in every pod for a Service such as `rota-api`.
_OF_KUBERNETES: Final = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$", re.ASCII)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return which `ROTA_` variables name no setting, each in a sentence with the setting that was probably meant.

    They are not refused: a program may keep variables of its own there.
    """
    known = [f"ROTA_{name.upper()}" for name in OPTIONS]
    sentences = []
    for name in sorted(environment):
        if name.startswith("ROTA_") and name not in known and not _OF_KUBERNETES.search(name):
            close = get_close_matches(name, known, 1, 0.8)
            remedy = f"did you mean {close[0]}?" if close else "`rota config show` lists the settings"
            sentences.append(f"the environment variable {name} is no setting and has no effect; {remedy}")
    return sentences


def warnings_about(settings: Settings, environment: Mapping[str, str], folder: Path) -> list[str]:
    """Return what is wrong with settings that are usable, each in a sentence with the remedy."""
    return [*unknown_variables(environment), *_exposed_secrets(settings, folder)]


def _exposed_secrets(settings: Settings, folder: Path) -> Iterator[str]:
    for name, origin in settings.origins.items():
        if not _is_secret(name, getattr(settings, name)):
            continue
        if origin.startswith("--"):
            variable = f"ROTA_{name.upper()}"
            yield f"{origin}: every user of this machine can see the secret on the command line; set {variable} instead"
        elif origin.endswith(".toml") and _others_read(folder / origin):
            yield f"{origin}: every user of this machine can read the secret in {name!r}; chmod 600 it"


def _is_secret(name: str, value: object) -> bool:
    """Return whether a value is a secret, or the URL of a server with a password in it."""
    if OPTIONS[name].is_secret:
        # Encryption keys may be named by where they are.
        return bool(value) and not str(value).startswith(("file:", "python:"))
    return isinstance(value, str) and redacted(value) != value


def _others_read(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
