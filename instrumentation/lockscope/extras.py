"""Further lock libraries and worker frameworks: observed once the application imports them.

Nothing is imported for their sake. Each has one module with ``install(module)`` and ``remove()``; one whose
calls are not the ones known is reported once and left alone.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from lockscope.interrupts import interrupts
from lockscope.seams import lazy
from lockscope.seams.library import SeamMovedError

if TYPE_CHECKING:
    from types import ModuleType

_log = logging.getLogger("lockscope")

# Module to wait for, our module about it, and the distributions that it may come from.
LIBRARIES = (
    ("redis_lock", "lockscope.seams.python_redis_lock", ("python-redis-lock",)),
    ("pottery", "lockscope.seams.pottery", ("pottery",)),
    ("redlock", "lockscope.seams.redlock", ("redlock-ng", "redlock-py")),
    ("aioredlock", "lockscope.seams.aioredlock", ("aioredlock",)),
)
FRAMEWORKS = (
    ("celery.signals", "lockscope.integrations.celery", ("celery",)),
    ("rq.job", "lockscope.integrations.rq", ("rq",)),
    ("dramatiq.broker", "lockscope.integrations.dramatiq", ("dramatiq",)),
    ("arq.worker", "lockscope.integrations.arq", ("arq",)),
    ("huey.api", "lockscope.integrations.huey", ("huey",)),
    ("taskiq.receiver.receiver", "lockscope.integrations.taskiq", ("taskiq",)),
)
_complained: set[str] = set()


def install() -> None:
    """Observe each of them now or as soon as it is imported; harmless when done already."""
    lazy.forget()
    for waited_for, ours, distributions in LIBRARIES + FRAMEWORKS:
        lazy.when_imported(waited_for, partial(_install, ours, distributions))


def remove() -> None:
    """Put back what was changed."""
    lazy.forget()
    for _, ours, _ in LIBRARIES + FRAMEWORKS:
        module = sys.modules.get(ours)
        if module is not None:
            module.remove()


def _install(ours: str, distributions: tuple[str, ...], module: ModuleType) -> None:
    try:
        import_module(ours).install(module)
    except SeamMovedError as error:
        _complain(distributions, str(error))
    except Exception as error:  # an import of the application's must not fail for us
        if interrupts(error):
            raise
        _complain(distributions, repr(error))


def _complain(distributions: tuple[str, ...], what: str) -> None:
    if distributions[0] in _complained:
        return
    _complained.add(distributions[0])
    from importlib import metadata  # noqa: PLC0415 - slow to import, and hardly ever needed

    versions = []
    for name in distributions:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    _log.warning("%s is not observed: %s", " or ".join(versions) or distributions[0], what)
