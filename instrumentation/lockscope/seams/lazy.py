"""Do something to a module once it is imported, without importing it."""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Hook = Callable[[ModuleType], None]

_log = logging.getLogger("lockscope.seams")


class _Finder:
    """Sees each import of a module that somebody waits for, and leaves finding it to the others."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[Hook]] = {}
        self._looking = threading.local()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the import system passes it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return what the other finders find, with our hooks behind its loader."""
        if fullname not in self.hooks or getattr(self._looking, "name", None) == fullname:
            return None
        self._looking.name = fullname
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.name = None
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader, fullname)
        return spec

    def _follow(self, loader: Any, fullname: str) -> None:
        """Run the hooks after ``loader`` has executed the module; the module keeps its own loader."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if loader.__dict__.get("exec_module") is exec_module:
                del loader.exec_module
            execute(module)
            if module.__name__ == fullname:
                for hook in self.hooks.pop(fullname, ()):
                    hook(module)

        try:
            loader.exec_module = exec_module
        except (AttributeError, TypeError):  # a loader that is not the module's own, such as a built-in's
            _log.debug("cannot follow the import of %s by %r", fullname, loader)


_finder = _Finder()


def when_imported(name: str, hook: Hook) -> None:
    """Call ``hook`` with a module: now if it is imported already, else right after its import.

    Args:
        name: full name of the module.
        hook: must not raise.
    """
    module = sys.modules.get(name)
    if module is not None:
        hook(module)
        return
    _finder.hooks.setdefault(name, []).append(hook)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget() -> None:
    """Wait for no module any more."""
    _finder.hooks.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
