"""Worker verbs of an operator: find, order, forget."""

from __future__ import annotations

from rota.core.cluster import ALIVE_FOR, Member, Role
from rota.core.errors import IllegalTransition, WorkerNotFound
from rota.core.ledger import LedgerEntry
from rota.core.webhook import QUEUE as WEBHOOK_QUEUE
from rota.core.worker_orders import OrderChange, OrderVerb
from rota.engine.deps import EngineDeps
from rota.ports.client import Actor

_MOST_TRIES = 5


class WorkerControl:
    """Orders to workers, by name or by boot."""

    def __init__(self, deps: EngineDeps) -> None:
        self._deps = deps

    async def one(self, name: str) -> Member:
        """Return the worker of a boot or a name; of several with one name the one that was seen last."""
        members = await self._deps.store.members(role=Role.WORKER)
        workers = [one for one in members if one.boot == name] or [one for one in members if one.name == name]
        if not workers:
            raise WorkerNotFound(f"worker {name!r}: unknown; see `rota workers list --all` for those on record")
        return max(workers, key=lambda one: (one.seen_at is not None, one.seen_at))

    def is_alive(self, member: Member) -> bool:
        return member.seen_at is not None and member.seen_at >= self._deps.clock() - ALIVE_FOR

    async def order(self, name: str, verb: OrderVerb, by: Actor) -> Member:
        """Store an order for a live worker, which gets it with its next heartbeat."""
        for _ in range(_MOST_TRIES):
            member = await self.one(name)
            if not self.is_alive(member):
                raise IllegalTransition(
                    f"worker {name!r}: no heartbeat since {member.seen_at:%Y-%m-%d %H:%M:%S} UTC, so it gets no"
                    " orders; start it again, or forget it"
                )
            if member.queues == (WEBHOOK_QUEUE,):
                raise IllegalTransition(
                    f"worker {name!r}: it delivers webhooks inside a scheduler and takes no orders; stop the scheduler,"
                    " or remove the webhooks"
                )
            orders = member.orders.after(verb)
            if orders == member.orders:
                return member
            entry = self._entry(f"workers.{verb}", member, by)
            if await self._deps.store.order(OrderChange(member.boot, orders, member.orders), entry=entry):
                return await self.one(member.boot)
        raise IllegalTransition(f"worker {name!r}: its orders keep changing; try again")

    async def forget(self, name: str, by: Actor) -> None:
        """Delete the record of a worker that sends no heartbeat any more."""
        member = await self.one(name)
        if self.is_alive(member):
            raise IllegalTransition(f"worker {name!r}: it is alive; stop it first")
        await self._deps.store.leave([member.boot])
        await self._deps.store.record([self._entry("workers.forget", member, by)])

    @staticmethod
    def _entry(action: str, member: Member, by: Actor) -> LedgerEntry:
        return LedgerEntry(by.name, action, member.name, by.origin, f"boot {member.boot}", surface=by.surface)
