"""Replace methods of a class or of one object, and put them back, whoever else does the same."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK = "__lockscope_patch__"
_LONGEST_CHAIN = 50  # wrappers around one method; more is a loop


@dataclass(frozen=True, slots=True)
class _Patch:
    """What our wrapper replaced. ``functools.wraps`` copies marks, so each names its own wrapper."""

    wrapper: Callable[..., Any]
    original: Any  # as it stood in the class: a descriptor of another tool would turn into something else
    was_own: bool


def patch(owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put ``make(original)`` in the place of ``owner.name``, unless a wrapper of ours is in there already.

    A wrapper of ours that another tool has wrapped in turn is found through ``__wrapped__`` and kept.

    Args:
        owner: the class.
        name: the method.
        make: takes the method that stands there now, returns its replacement.
    """
    current = getattr(owner, name)
    if is_patched(current):
        return
    wrapper = make(current)
    setattr(wrapper, _MARK, _Patch(wrapper, vars(owner).get(name), name in vars(owner)))
    setattr(owner, name, wrapper)


def unpatch(owner: type, name: str) -> bool:
    """Put the original of ``owner.name`` back, if our wrapper stands outermost.

    Where another tool wrapped ours, taking ours out would take theirs out too, so ours stays: it passes calls
    through while observation is off.

    Returns:
        Whether the wrapper was taken out.
    """
    mark = _mark(vars(owner).get(name))
    if mark is None:
        return False
    if mark.was_own:
        setattr(owner, name, mark.original)
    else:
        delattr(owner, name)
    return True


def patch_object(target: object, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put ``make(original)`` in the place of a method of one object, unless a wrapper of ours is there.

    Args:
        target: the object; its class stays as it is.
        name: the method.
        make: takes a function that takes the object first, returns its replacement.

    Raises:
        AttributeError: the object has no such method or lets nothing be replaced.
    """
    current = getattr(target, name)
    own = getattr(target, "__dict__", {}).get(name)
    if _mark(getattr(own, "__func__", None)) is not None:
        return
    wrapper = make(_function_of(current, target))
    setattr(wrapper, _MARK, _Patch(wrapper, own, own is not None))
    setattr(target, name, MethodType(wrapper, target))


def _function_of(method: Any, target: object) -> Callable[..., Any]:
    """Return a method as a function that takes the object first, async if the method is."""
    if isinstance(method, MethodType) and method.__self__ is target:
        return method.__func__
    if inspect.iscoroutinefunction(method):

        async def call_async(_target: object, *args: Any, **kwargs: Any) -> Any:
            return await method(*args, **kwargs)

        return functools.update_wrapper(call_async, method, functools.WRAPPER_ASSIGNMENTS, ())

    def call(_target: object, *args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return functools.update_wrapper(call, method, functools.WRAPPER_ASSIGNMENTS, ())


def is_patched(function: Any) -> bool:
    """Tell whether a wrapper of ours is in the chain of ``function``."""
    for _ in range(_LONGEST_CHAIN):
        if function is None:
            return False
        if _mark(function) is not None:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def _mark(function: Any) -> _Patch | None:
    mark = getattr(function, "__dict__", {}).get(_MARK)
    return mark if isinstance(mark, _Patch) and mark.wrapper is function else None
