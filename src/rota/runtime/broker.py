"""Which broker a URL names. Its driver is loaded only when one is named: it is an extra."""

from __future__ import annotations

from dataclasses import dataclass

from rota.brokers.in_store import InStoreBroker
from rota.core.errors import InvalidRequest
from rota.ports.broker import Broker
from rota.ports.store import Store
from rota.telemetry import Telemetry
from rota.telemetry.events import BrokerCalled


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    """Where a broker is, and what things are called there. Without a URL the store itself is the broker."""

    url: str = ""
    stream: str = "jobs"
    group: str = "workers"


async def open_broker(choice: BrokerChoice, store: Store, telemetry: Telemetry) -> Broker:
    """Open the broker that was chosen. It need not be there: jobs run without it."""
    if not choice.url:
        return InStoreBroker(store)
    try:
        from rota.brokers.redis_streams import RedisStreamsBroker  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        raise InvalidRequest(
            "broker: redis is needed for this broker and is not installed; pip install 'rota[redis]'", field="broker"
        ) from None

    def observe(operation: str, seconds: float) -> None:
        telemetry.emit(BrokerCalled(operation, seconds))

    return await RedisStreamsBroker.open(store, choice.url, stream=choice.stream, group=choice.group, observe=observe)
