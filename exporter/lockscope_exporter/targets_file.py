"""Several targets from a YAML or TOML file. Every field is checked; whatever is not understood is refused.

``targets`` is a list of entries. Passwords may stand in the URL, or come from the environment or a file of
their own; no message ever shows one.
"""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING

from lockscope_exporter.configuration import OptionError
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.targets_entry import FaultError, Secrets, read_entry
from lockscope_exporter.text import shown
from lockscope_exporter.yamlfile import YamlFaultError, quoted, read_file, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lockscope_exporter.targets import Target


class TargetsFileError(OptionError):
    """A targets file that cannot be used; one line: the file, the entry, what is wrong and what to write."""


def read_targets(path: Path, environ: Mapping[str, str] = os.environ) -> tuple[Target, ...]:
    """Read a targets file.

    Args:
        path: a ``.yaml``, ``.yml`` or ``.toml`` file; a ``password_file`` in it is relative to its folder.
        environ: where ``password_env`` looks.

    Returns:
        At least one target, in the order of the file.

    Raises:
        TargetsFileError: the file cannot be read, or an entry cannot be used.
    """
    try:
        entries = _entries(_content(path))
        targets = tuple(
            read_entry(entry, f"target {number}", Secrets(path.parent, environ))
            for number, entry in enumerate(entries, 1)
        )
        _check_names(targets)
        _check_groups(targets)
    except FaultError as error:
        raise TargetsFileError(f"targets file {shown(str(path), 200)}: {error}") from None
    return targets


def _content(path: Path) -> object:
    suffix = path.suffix.lower()
    if suffix not in (".yaml", ".yml", ".toml"):
        raise FaultError("the name must end in .yaml, .yml or .toml, which says how to read it")
    try:
        text = read_file(path)
        return tomllib.loads(text) if suffix == ".toml" else read_yaml(text)
    except YamlFaultError as error:
        raise FaultError(str(error)) from None
    except tomllib.TOMLDecodeError as error:
        raise FaultError(f"not valid TOML: {error}") from None
    except RecursionError:
        raise FaultError("it is nested too deeply") from None
    except ValueError:
        raise FaultError("not valid TOML: a number or date in it cannot be read") from None


def _entries(content: object) -> list[object]:
    if not isinstance(content, dict) or "targets" not in content:
        raise FaultError('there is no list "targets"; write "targets:" in YAML, "[[targets]]" in TOML')
    for name in content:
        if name != "targets":
            raise FaultError(f'{quoted(name)} is not known; the only name at the top is "targets"')
    entries = content["targets"]
    if not isinstance(entries, list) or not entries:
        raise FaultError('"targets" must be a list with at least one entry')
    return entries


def _check_names(targets: Sequence[Target]) -> None:
    seen: dict[str, int] = {}
    groups = {target.quorum_group for target in targets}
    for number, target in enumerate(targets, 1):
        if target.name in seen:
            raise FaultError(
                f'target {number} "{target.name}": target {seen[target.name]} has the same name; '
                "series are told apart by it, choose another"
            )
        if target.name in groups:
            raise FaultError(f'target {number} "{target.name}": a quorum_group has the same name')
        seen[target.name] = number


def _check_groups(targets: Sequence[Target]) -> None:
    groups: dict[str, list[Target]] = {}
    for target in targets:
        if target.quorum_group is not None:
            groups.setdefault(target.quorum_group, []).append(target)
    for name, members in groups.items():
        if len(members) == 1:
            raise FaultError(
                f'quorum_group "{name}": it has only one member, "{members[0].name}"; '
                "name every server of the Redlock group"
            )
        for member in members[1:]:
            if (member.patterns, _numbers(member)) != (members[0].patterns, _numbers(members[0])):
                raise FaultError(
                    f'quorum_group "{name}": "{members[0].name}" and "{member.name}" differ in locks or '
                    "databases; copies of one lock have the same key and database everywhere"
                )
        if len({(parse_redis_url(member.url).node) for member in members}) < len(members):
            raise FaultError(f'quorum_group "{name}": two of its targets are one server')


def _numbers(target: Target) -> tuple[int, ...]:
    return target.dbs or (parse_redis_url(target.url).db,)
