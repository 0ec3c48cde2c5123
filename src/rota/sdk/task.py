"""A task: a plain, typed function with a name, which can be called here and now or submitted as a job."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack

from rota.core.submission import IdempotencyKey, Template
from rota.sdk.encoding import decoder_of, encode_call
from rota.sdk.handle import Handle
from rota.sdk.options import Options, key_of, template_of

if TYPE_CHECKING:
    from rota.sdk.app import Rota

P = ParamSpec("P")
R = TypeVar("R")


class Call(Generic[R]):
    """A submission not yet made: for batches, chains and follow-ups."""

    def __init__(self, app: Rota, name: str, payload: str, options: Options, decode: Callable[[str], R]) -> None:
        self._app = app
        self._name = name
        self._payload = payload
        self.options = options
        self.decode = decode

    def template(self) -> Template:
        """Give what this call submits."""
        return template_of(self._name, self._payload, self.options)

    def submit(self) -> Handle[R]:
        """Submit it."""
        return self._app.submit_many([self])[0]

    async def asubmit(self) -> Handle[R]:
        """Submit it."""
        return (await self._app.asubmit_many([self]))[0]

    def key(self) -> IdempotencyKey | None:
        """Give the key under which a repetition is the same submission."""
        return key_of(self.template(), self.options)


class TaskBase(Generic[P, R]):
    """What sync and async tasks share."""

    def __init__(self, app: Rota, function: Callable[P, Any], name: str, options: Options) -> None:
        self._app = app
        self.function = function
        self.name = name
        self.options = options
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit a job that calls this task with these arguments."""
        return self.call(*args, **kwargs).submit()

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Submit a job that calls this task with these arguments."""
        return await self.call(*args, **kwargs).asubmit()

    def using(self, **options: Unpack[Options]) -> Self:
        """Give the same task with other options."""
        merged: Options = {**self.options, **options}
        return type(self)(self._app, self.function, self.name, merged)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Make a submission without sending it."""
        payload = encode_call(self.name, self.function, args, kwargs)
        return Call(self._app, self.name, payload, self.options, decoder_of(self.function))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Task(TaskBase[P, R]):
    """A task whose function is plain. Calling it runs the function, here and now."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function itself."""
        result: R = self.function(*args, **kwargs)
        return result


class AsyncTask(TaskBase[P, R]):
    """A task whose function is async. Awaiting its call runs the function, here and now."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run the function itself."""
        coroutine: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return coroutine
