"""Open claims: questions that stay in the store where there was nothing, and are answered by whoever brings a job.

A job that comes to idle workers is stored, told of, and then claimed: two commits, one behind the other. But who waits
has asked already. So its claim is left in the store, with its name, where all who submit find it: whoever brings a
single job leases it under that name in the statement that stores it, and the notice that it takes along is the answer.
One commit, and nobody else is woken to look for what is no longer there.

What can go wrong, and what we do:

- Somebody listens who may not. Any role of a database may listen to any channel, and say anything on it, but has to
  know its name. Each process has one of its own for its answers, which stands in a table that only ours can read.
- The worker has died. The connection by which it would hear holds a lock, which goes with it; whoever brings a job
  tries that lock first. One that dies at this very moment, hangs, or is cut off without a word is given one job at
  most: its companion hands that back, and if there is none it waits for its lease to run out. Jobs that must not begin
  twice, or have one attempt only, are brought to nobody.
- The same claim is answered twice at once, by itself and by who brings a job: both write down what it gave under its
  name, and the second cannot. A claim then finds what was brought; who brings tries again, and finds it answered.
- The answer comes late, because a commit takes long, or nobody hears it, because we are deaf and perhaps do not know.
  A claim stays a little shorter than its worker, which is enough for nearly all. The next one of the same worker takes
  it away, and waits for whoever is just answering it: if it is not there any more, what it gave is asked for by its
  name, and comes along with what the next one gives, its lease renewed. Who stops asks by the same name once more; for
  who has died its companion does, for no queue. That takes the claim away too, and waits likewise, before it looks.
- Many lie dead in the table, because somebody keeps an old transaction open. All that counts was left there within the
  last seconds, and what is older is not looked at.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from rota.core.instant import span_to_micros
from rota.core.lease import Claim
from rota.stores.open_claims import Answer, Awaited, Told, stay_of

#: Of how many bits the numbers are of the locks that say that somebody is there: so many that no two are the same.
_SIGN_BITS: Final = 62
#: A notice may have 8000 bytes. What a job needs more is looked up.
LONGEST_ANSWER: Final = 7_000
#: Of how many bytes the names of channels are made, so that nobody guesses them.
_SECRET_BYTES: Final = 16


_WRITE: Final = msgspec.json.Encoder().encode


def lane_key(queue: str, job_type: str) -> str:
    """Give one text for a lane, and for no other: where the one ends and the other begins is said."""
    return f"{len(queue)} {queue}{job_type}"


def text_of(told: Told | None) -> str:
    """Write that part of an answer; the server puts the rest before it."""
    text = _WRITE(told)
    return text.decode() if len(text) <= LONGEST_ANSWER else "null"


class Address(NamedTuple):
    """How a process can be told: as long as a lock of this number is held, by this channel."""

    sign: int
    channel: str


def new_address() -> Address:
    """Make an address that nobody else has, and nobody guesses."""
    return Address(secrets.randbits(_SIGN_BITS), f"rota_{secrets.token_hex(_SECRET_BYTES)}")


class _OpenClaim:
    """The last claim of a worker that stayed."""

    __slots__ = ("address", "answer", "claim_id")

    def __init__(self, claim_id: str, address: Address) -> None:
        self.claim_id = claim_id
        #: At which we could be told when it was left.
        self.address: Address | None = address
        self.answer: Answer | None = None


class Stay(NamedTuple):
    """What a claim's statement is told: for how long it stays, at which address, and whose place it takes."""

    micros: int | None
    sign: int | None
    channel: str | None
    former: str | None


#: Who leaves none, and has none there.
GOES_AWAY: Final = Stay(None, None, None, None)


class OpenClaims(Awaited[_OpenClaim]):
    """The claims of this store that others may answer: the last one of each worker."""

    def __init__(self) -> None:
        super().__init__()
        #: How this process can be told; None while it cannot.
        self.address: Address | None = None
        #: The former claims of each worker of which nobody knows yet what they gave.
        self._unsettled: dict[str, tuple[str, ...]] = {}

    def stay(self, wanted: Claim) -> Stay:
        """Say what a claim's statement is told, and expect an answer: it may come before the statement is done."""
        former = self._by_boot.get(wanted.worker.boot)
        span = stay_of(wanted)
        if self.address is None or wanted.claim_id is None or span is None:
            # Who goes away takes it along.
            self._give_up(wanted)
            return GOES_AWAY if former is None else GOES_AWAY._replace(former=former.claim_id)
        stay = Stay(span_to_micros(span), *self.address, None)
        if former is not None and former.claim_id == wanted.claim_id:
            return stay
        self._give_up(wanted)
        self._keep(wanted.worker.boot, _OpenClaim(wanted.claim_id, self.address))
        return stay if former is None else stay._replace(former=former.claim_id)

    def is_last_word(self, wanted: Claim) -> bool:
        """Whether a claim asks what it gave, and stays no longer: its worker stops, or has died and is spoken for.

        Who speaks for it asks for no queue. All others whose claims are not kept here never stayed: workers over HTTP.
        """
        if wanted.is_new or wanted.stays:
            return False
        kept = self._by_boot.get(wanted.worker.boot)
        return not wanted.queues or (kept is not None and kept.claim_id == wanted.claim_id)

    def unsettled(self, wanted: Claim) -> tuple[str, ...]:
        """Name the former claims of a worker that have to be asked about, before or beside this one."""
        kept = self._by_boot.get(wanted.worker.boot)
        if kept is not None and kept.answer is not None:
            self._give_up(wanted)
        return self._unsettled.get(wanted.worker.boot, ())

    def note_settled(self, boot: str, names: Collection[str]) -> None:
        """Note that it is known what former claims gave, and that somebody has it."""
        left = tuple(name for name in self._unsettled.pop(boot, ()) if name not in names)
        if left:
            self._unsettled[boot] = left

    def _give_up(self, wanted: Claim) -> None:
        """Expect nothing more for the last claim of a worker; until it is settled, it is not forgotten."""
        boot = wanted.worker.boot
        kept = self._by_boot.get(boot)
        if kept is not None:
            self.leave(boot)
            if kept.claim_id != wanted.claim_id:
                self._unsettled[boot] = (*self._unsettled.get(boot, ()), kept.claim_id)

    def doubts(self, wanted: Claim) -> bool:
        """Whether an answer may have come that nobody here has heard, since we have been deaf. Told once."""
        kept = self._by_boot.get(wanted.worker.boot)
        if kept is None or kept.claim_id != wanted.claim_id or kept.address == self.address:
            return False
        kept.address = self.address
        return True
