"""Composition: the only package that knows which store, broker and coordinator are in use.

`link` opens a store or an API; `assembly` builds worker, scheduler and API from the settings; `components` runs them,
for `rota …` processes (`process`) and for `app.run()`. The package itself loads only `link`: the lease-keeper process
of a worker needs nothing else.
"""

from __future__ import annotations

from rota.runtime.link import BrokerChoice, DirectSubmit, Link, connect, open_link

__all__ = ["BrokerChoice", "DirectSubmit", "Link", "connect", "open_link"]
