"""The options that may follow the ``?`` of a Redis URL, and how their values are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def _truth(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on", "t", "y"):
        return True
    if lowered in ("0", "false", "no", "off", "f", "n", ""):
        return False
    raise ValueError(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86400:  # noqa: PLR2004 - a day
        raise ValueError(text)
    return value


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _cert_reqs(text: str) -> str:
    value = text.lower().removeprefix("cert_")  # Celery writes CERT_NONE, redis-py none
    if value not in ("none", "optional", "required"):
        raise ValueError(text)
    return value


def _protocol(text: str) -> int:
    if text not in ("2", "3"):
        raise ValueError(text)
    return int(text)


OPTIONS: dict[str, Callable[[str], Any]] = {
    "username": str,
    "password": str,
    "sentinel_username": str,
    "sentinel_password": str,
    "socket_timeout": _seconds,
    "socket_connect_timeout": _seconds,
    "socket_keepalive": _truth,
    "health_check_interval": _whole,
    "protocol": _protocol,
    "client_name": str,
    "ssl": _truth,
    "ssl_ca_certs": str,
    "ssl_ca_path": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_password": str,
    "ssl_cert_reqs": _cert_reqs,
    "ssl_check_hostname": _truth,
    "ssl_ciphers": str,
}
# Options of an application's URL that mean nothing to a reader of raw bytes; accepted so it can be pasted.
IRRELEVANT = frozenset(
    {
        "decode_responses",
        "encoding",
        "encoding_errors",
        "legacy_responses",
        "max_connections",
        "retry_on_error",
        "retry_on_timeout",
        "socket_read_size",
        "timeout",
        "virtual_host",
        "visibility_timeout",
    }
)
