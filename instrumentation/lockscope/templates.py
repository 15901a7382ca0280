"""Keys written as templates over a function's arguments, such as ``order:{order_id}``."""

from __future__ import annotations

import inspect
import string
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class KeyTemplate:
    """Makes a key from the arguments of a call, whichever way they are passed.

    Args:
        template: a ``str.format`` template over parameter names, such as ``order:{order_id}`` or
            ``order:{order.id}``.
        function: whose parameters the names are.

    Raises:
        ValueError: the template is no format string, or names what is no parameter.
    """

    def __init__(self, template: str, function: Callable[..., Any]) -> None:
        self.template = template
        self._signature = inspect.signature(function)
        try:
            fields = list(_fields(template))
        except ValueError as error:
            raise ValueError(f"key template {template!r} cannot be read: {error}") from None
        for field in fields:
            name = field.replace("[", ".").partition(".")[0]
            if name not in self._signature.parameters:
                raise ValueError(
                    f"key template {template!r} names {name!r}, which is no parameter of "
                    f"{getattr(function, '__qualname__', function)}{self._signature}"
                )
        self._constant = template.format() if not fields else None

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the key of one call.

        Raises:
            TypeError: the arguments do not fit the function, with the message that calling it would give.
        """
        if self._constant is not None:
            return self._constant
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self.template.format_map(bound.arguments)


def _fields(template: str) -> Iterator[str]:
    for _, field, spec, _ in string.Formatter().parse(template):
        if field is not None:
            yield field
            yield from _fields(spec or "")
