"""Dramatiq: the actor's name and the message's id, and retries because of a lock, as a middleware.

It stands outermost in every broker, so the job covers what other middlewares do, and what ``Retries`` decided
is known when it looks.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from lockscope.integrations.reasons import count_retry
from lockscope.jobs import job
from lockscope.seams.library import require
from lockscope.seams.patching import patch, unpatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_broker_class: Any = None
_running = threading.local()  # Dramatiq begins and ends a message in one thread


def install(module: ModuleType) -> None:
    """Add the middleware to every broker, also to the global one if there is one already.

    Raises:
        SeamMovedError: this version's calls are not the ones known.
    """
    global _broker_class  # noqa: PLW0603 - one Dramatiq a process
    require(module.Broker, "__init__", "middleware")
    require(module.Broker, "add_middleware", "middleware", "before")
    make = _middleware()
    patch(module.Broker, "__init__", functools.partial(_with_middleware, make))
    _broker_class = module.Broker
    existing = getattr(module, "global_broker", None)
    if existing is not None:
        _add(existing, make)


def remove() -> None:
    """Leave new brokers alone; existing ones keep a middleware that does nothing worth noting."""
    if _broker_class is not None:
        unpatch(_broker_class, "__init__")


def _with_middleware(make: Callable[[], Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _add(self, make)

    return init


def _add(broker: Any, make: Callable[[], Any]) -> None:
    if any(type(other).__name__ == "LockscopeJobs" for other in broker.middleware):
        return
    first = broker.middleware[:1]
    broker.add_middleware(make(), **({"before": type(first[0])} if first else {}))


def _middleware() -> Callable[[], Any]:
    """Return the middleware's class; its base is Dramatiq's and cannot be imported earlier."""
    from dramatiq.middleware import Middleware  # noqa: PLC0415 - dramatiq.broker has imported it

    class LockscopeJobs(Middleware):  # type: ignore[misc,unused-ignore]  # untyped where Dramatiq is absent
        """Names the job of each message."""

        def before_process_message(self, broker: Any, message: Any) -> None:  # noqa: ARG002
            running = job(message.actor_name, job_id=message.message_id)
            running.__enter__()
            _running.job = running
            _running.retries = message.options.get("retries", 0)

        def after_process_message(
            self,
            broker: Any,  # noqa: ARG002
            message: Any,
            *,
            result: Any = None,  # noqa: ARG002
            exception: BaseException | None = None,
        ) -> None:
            retried = message.options.get("retries", 0) > getattr(_running, "retries", 0)
            if exception is not None and retried and not message.failed:
                count_retry(exception)
            self._end()

        def after_skip_message(self, broker: Any, message: Any) -> None:  # noqa: ARG002
            self._end()

        @staticmethod
        def _end() -> None:
            running = _running.__dict__.pop("job", None)
            if running is not None:
                running.__exit__(None, None, None)

    return LockscopeJobs
