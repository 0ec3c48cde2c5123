"""Composition: the only package that knows which store, broker and coordinator are in use.

`link` opens a store or an API; `assembly` builds worker, scheduler and API from the settings; `components` runs them,
for `rota …` processes (`process`) and for `app.run()`. The names of `link` are loaded when they are
first used: a program that only defines tasks needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota._lazy import lazy_names

if TYPE_CHECKING:
    from rota.runtime.link import BrokerChoice, DirectSubmit, Link, connect, open_link

__all__ = ["BrokerChoice", "DirectSubmit", "Link", "connect", "open_link"]

# A program that only defines tasks opens nothing.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"link": ["BrokerChoice", "DirectSubmit", "Link", "connect", "open_link"]})
