"""One entry of a targets file to a ``Target``: strict, and silent about passwords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from lockscope_exporter.configuration import OptionError, lock_pattern
from lockscope_exporter.redis_url import UrlError, parse_redis_url
from lockscope_exporter.targets import LockPattern, Target
from lockscope_exporter.yamlfile import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FIELDS = (
    "name", "url", "password_env", "password_file", "sentinel_password_env", "sentinel_password_file",
    "locks", "dbs", "quorum_group",
)  # fmt: skip

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MAX_PASSWORD = 4096  # bytes of a password file
_MAX_DB = 65535


class FaultError(Exception):
    """What is wrong and what to write, without the file."""


class Secrets(NamedTuple):
    """Where passwords come from that are not in the file.

    Attributes:
        folder: what the names of password files are relative to.
        environ: environment variables.
    """

    folder: Path
    environ: Mapping[str, str]

    def read(self, entry: Mapping[Any, Any], field: str) -> str | None:
        """Return the password that ``<field>_env`` or ``<field>_file`` names, ``None`` without either."""
        by_env, by_file = f"{field}_env", f"{field}_file"
        if by_env in entry and by_file in entry:
            raise FaultError(f"{by_env} and {by_file} name one password twice; keep one")
        if by_env in entry:
            return self._variable(_text(entry[by_env], by_env), by_env)
        if by_file in entry:
            return self._file(_text(entry[by_file], by_file), by_file)
        return None

    def _variable(self, name: str, field: str) -> str:
        password = self.environ.get(name, "")
        if not password:
            raise FaultError(f"{field}: the environment variable {quoted(name)} is not set, or empty")
        return password

    def _file(self, name: str, field: str) -> str:
        try:
            with (self.folder / name).open("rb") as file:
                raw = file.read(_MAX_PASSWORD + 1)
            password = raw.decode().removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise FaultError(f"{field}: {quoted(name)}: {why}") from None
        if not password or len(raw) > _MAX_PASSWORD:
            what = "is empty" if not password else "is too long to be a password"
            raise FaultError(f"{field}: {quoted(name)} {what}; it must hold the password and nothing else")
        return password


def read_entry(entry: object, where: str, secrets: Secrets) -> Target:
    """Read one entry.

    Args:
        entry: what the file holds.
        where: what to call the entry until its name is known.
        secrets: where passwords come from that are not in the file.

    Raises:
        FaultError: it cannot be used; the text names the entry and the field.
    """
    if not isinstance(entry, dict):
        raise FaultError(f'{where}: it must hold fields, at least "name" and "url"')
    try:
        name = _name(entry, "name")
        where = f'{where} "{name}"'
        return _checked(name, entry, secrets)
    except FaultError as error:
        raise FaultError(f"{where}: {error}") from None


def _checked(name: str, entry: Mapping[Any, Any], secrets: Secrets) -> Target:
    for field in entry:
        if field not in FIELDS:
            raise FaultError(f"field {quoted(field)} is not known; known are {', '.join(FIELDS)}")
    url = _url(entry, secrets)
    dbs = _dbs(entry.get("dbs"))
    kind = parse_redis_url(url).kind
    if kind == "cluster" and dbs:
        raise FaultError("dbs: a cluster has database 0 only; leave the field out")
    group = _name(entry, "quorum_group") if "quorum_group" in entry else None
    if group is not None and kind != "standalone":
        raise FaultError("quorum_group: its servers are independent; write redis:// or unix:// URLs")
    return Target(url, name, _patterns(entry.get("locks")), dbs, group)


def _name(entry: Mapping[Any, Any], field: str) -> str:
    if field not in entry:
        raise FaultError(f'"{field}" is missing')
    name = _text(entry[field], field)
    if not _NAME.fullmatch(name):
        raise FaultError(
            f"{field}: {quoted(name)} cannot be a name; write letters, digits, . _ and -, at most 63, "
            "with a letter or digit first"
        )
    return name


def _url(entry: Mapping[Any, Any], secrets: Secrets) -> str:
    """Return the URL with its passwords in it, checked."""
    if "url" not in entry:
        raise FaultError('"url" is missing')
    url = _text(entry["url"], "url").strip()
    try:
        parsed = parse_redis_url(url)
        password = secrets.read(entry, "password")
        if password is not None:
            if parsed.password is not None:
                raise FaultError("the password is both in the URL and in a field; keep one")
            url = _with_password(url, password)
        password = secrets.read(entry, "sentinel_password")
        if password is not None:
            if parsed.kind != "sentinel":
                raise FaultError("sentinel_password is for sentinel:// URLs; leave the field out")
            if parsed.sentinel_password is not None:
                raise FaultError("the password of the Sentinels is both in the URL and in a field; keep one")
            url += f"{'&' if '?' in url else '?'}sentinel_password={quote(password, safe='')}"
        parse_redis_url(url)
    except UrlError as error:
        raise FaultError(f"url: {error}") from None
    return url


def _with_password(url: str, password: str) -> str:
    scheme, _, rest = url.partition("://")
    location, question, query = rest.partition("?")
    authority, slash, path = location.partition("/")
    credentials, _, hosts = authority.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{scheme}://{user}:{quote(password, safe='')}@{hosts}{slash}{path}{question}{query}"


def _patterns(value: object) -> tuple[LockPattern, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not value:
        raise FaultError('locks: write a list of patterns, as in ["lock:*", "jobs:*=laravel"]')
    try:
        return tuple(lock_pattern(_text(item, "locks")) for item in value)
    except OptionError as error:
        raise FaultError(f"locks: {error}") from None


def _dbs(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not value:
        raise FaultError("dbs: write a list of database numbers, as in [0, 3]")
    for item in value:
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item <= _MAX_DB:
            raise FaultError(f"dbs: {quoted(item)} is not a database number")
    if len(set(value)) < len(value):
        raise FaultError("dbs: a number stands there twice; keep one")
    return tuple(value)


def _text(value: object, field: str) -> str:
    if not isinstance(value, str) or not value.strip():
        example = f"; write it in quotes: {quoted(value)}" if isinstance(value, bool | int | float) else ""
        raise FaultError(f"{field} must be text{example}")
    return value
