"""YAML that people write, read with suspicion: plain values only, whatever the file holds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml

from lockscope_exporter.text import shown

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1024 * 1024

_MAX_FIELDS = 1000  # of one mapping, what ``<<`` brings in included
# What PyYAML lets through besides its own errors, as for ``!!int ""`` or a month 13.
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


class YamlFaultError(ValueError):
    """What is wrong with a file, without the file's name and without a word of what it holds."""


class _StrictLoader(yaml.SafeLoader):
    """YAML without objects, and without a name twice in one mapping, of which the last would win."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Take in what ``<<`` names, within bounds: shares of shares can grow beyond measure."""
        super().flatten_mapping(node)
        if len(node.value) > _MAX_FIELDS:
            raise YamlFaultError(f"more than {_MAX_FIELDS} fields in one mapping{_line(node.start_mark)}")

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a mapping that has a name twice."""
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for name, times in names.items():
            if times > 1 and name != "<<":
                where = f"the entry that begins in line {node.start_mark.line + 1}"
                raise YamlFaultError(f"{quoted(name)} stands {times} times in {where}; keep one")
        return super().construct_mapping(node, deep)


def read_file(path: Path) -> str:
    """Return the text that a file holds.

    Raises:
        YamlFaultError: it cannot be read, is too large for a configuration, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        why = getattr(error, "strerror", None) or error
        raise YamlFaultError(f"{why}; check the path and who may read it") from None
    if len(raw) > MAX_BYTES:
        raise YamlFaultError("it is larger than 1 MiB; is this the right file?")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise YamlFaultError(f"byte {error.start} is not UTF-8; save it as UTF-8") from None


def read_yaml(text: str) -> object:
    """Return the plain value that YAML text is.

    Raises:
        YamlFaultError: it is none; the text never quotes the file, which may hold passwords.
    """
    try:
        # The loader is a SafeLoader: it builds plain values only.
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506
    except YamlFaultError:
        raise
    except yaml.YAMLError as error:
        raise YamlFaultError(f"not valid YAML{_line(getattr(error, 'problem_mark', None))}") from None
    except RecursionError:
        raise YamlFaultError("it is nested too deeply") from None
    except _UNREADABLE:
        raise YamlFaultError("not valid YAML: a number, date or tag in it cannot be read") from None


def quoted(value: object) -> str:
    """Return a value as a message may show it; a list or a mapping, which may be huge, by its kind."""
    if isinstance(value, dict | list | set | tuple):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    try:
        return f'"{shown(str(value), 60)}"'
    except ValueError:  # an integer of more digits than Python writes
        return "a huge number"


def _line(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
