"""What the bytes of a string value look like: token, constant, number, serialised data. No keys, no Redis."""

from __future__ import annotations

import json
import re
from typing import Any

from lockscope import tokens

UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[089ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
HEX32 = re.compile(rb"[0-9a-f]{32}")
NUMBER = re.compile(rb"[+-]?\d{1,20}(\.\d{1,20})?")
HOST = rb"(?=[A-Za-z0-9.-]*[-.0-9])[A-Za-z][A-Za-z0-9.-]{1,62}"  # a digit, dash or dot: no plain word
HOST_PID = re.compile(
    rb"(?P<host>" + HOST + rb")[:@/](?P<pid>[1-9]\d{0,6})(?:[:@/](?P<rest>[\x21-\x7e]{1,200}))?"
)
PID_HOST = re.compile(
    rb"(?P<pid>[1-9]\d{0,6})@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{1,62})"
)  # Java's process name

_DIGIT, _UPPER, _LOWER = re.compile(rb"[0-9]"), re.compile(rb"[A-Z]"), re.compile(rb"[a-z]")
_WORD = re.compile(rb"[\x21-\x7e]{2,200}")
_HEX = re.compile(rb"[0-9a-f]{12,128}", re.IGNORECASE)
_RANDOM = re.compile(rb"[A-Za-z0-9+/_-]{11,172}={0,2}")
_UUID_INSIDE = re.compile(UUID.pattern + rb"|[0-9a-f]{32}", re.IGNORECASE)
_PHP = re.compile(rb"(?:[bid]:[^;]{1,40};|N;|[saOCE]:\d+:[\"{])")
_CONSTANTS = frozenset(
    b"0 1 true false True False TRUE FALSE yes no on off ok OK y n t f null None nil "
    b"lock locked LOCK LOCKED".split()
)
_PHP_SCALAR = re.compile(rb'(?:s:\d{1,4}:"(?P<text>[^"]*)"|i:(?P<number>-?\d{1,20})|b:(?P<truth>[01]));')
_JAVA_STRING = b"\xac\xed\x00\x05t"
_BINARY = (16, 20, 24, 32)  # bytes that libraries draw at random
_PACKED = (
    b"\xac\xed",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"x\x01",
    b"x\x9c",
    b"x\xda",
)  # Java, gzip, zstd, zlib
_SELF = b"ls1;"
_ONE = 0x31
_PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def is_number(value: bytes) -> bool:
    """Tell whether the value is a decimal number."""
    return NUMBER.fullmatch(value) is not None


def is_constant(value: bytes) -> bool:
    """Tell whether the value is one that everyone would write: empty, a truth value, ``locked``."""
    return not value or value in _CONSTANTS


def is_serialised(value: bytes) -> bool:
    """Tell whether the value is a container or scalar of PHP, JSON, pickle or the like: cached data."""
    return value[:1] in (b"{", b"[", b'"', b"<") or value.startswith(_PICKLE) or _PHP.match(value) is not None


def scalar(value: bytes) -> bytes | None:
    """Return the text or number that a serialiser wrapped, ``None`` if the value is no such thing.

    A client that serialises everything (Jackson or the JDK's in Spring, PHP's in phpredis) wraps tokens, too.
    """
    if value[:1] == b'"':
        try:
            parsed = json.loads(value)
        except ValueError:
            return None
        return parsed.encode("utf-8", "surrogatepass") if isinstance(parsed, str) else None
    if value.startswith(_JAVA_STRING):
        head = len(_JAVA_STRING) + 2  # the length, in two bytes
        return value[head:] if int.from_bytes(value[head - 2 : head]) == len(value) - head else None
    found = _PHP_SCALAR.fullmatch(value)
    return found[found.lastgroup] if found is not None and found.lastgroup is not None else None


def is_random_bytes(value: bytes) -> bool:
    """Tell whether the value may be 16, 20, 24 or 32 bytes drawn at random: no text, nothing packed."""
    if len(value) not in _BINARY or value.startswith((*_PICKLE, *_PACKED)):
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False


def is_self_describing(value: bytes) -> bool:
    """Tell whether the value is an owner token that names host and process in lockscope's format."""
    return (
        value.startswith(_SELF)
        and len(value) <= tokens.MAX_BYTES
        and (b";host=" in value or b";worker=" in value)
    )


def is_redis_py(value: bytes) -> bool:
    """Tell whether redis-py drew this token by default, or lockscope's shim for it."""
    return is_uuid1_hex(value) or is_self_describing(value)


def is_uuid1_hex(value: bytes) -> bool:
    """Tell whether the value is a UUIDv1 of a believable time, 32 hex digits: redis-py's default token."""
    return (
        len(value) == 32  # noqa: PLR2004
        and value[12] == _ONE
        and HEX32.fullmatch(value) is not None
        and tokens.uuid1_owner(value) is not None
    )


def is_uuid1_dashed(value: bytes) -> bool:
    """Tell whether the value is a UUIDv1 of a believable time, written with dashes."""
    return is_uuid(value, 1) and tokens.uuid1_owner(value) is not None


def is_uuid1(value: bytes) -> bool:
    """Tell by its length and version digit whether the value may be a UUIDv1, with or without dashes."""
    return (len(value) == 32 and value[12] == _ONE) or (len(value) == 36 and value[14] == _ONE)  # noqa: PLR2004


def is_uuid(value: bytes, version: int | None = None) -> bool:
    """Tell whether the value is a UUID with dashes, of this version if one is given."""
    return (
        len(value) == 36  # noqa: PLR2004
        and (version is None or value[14] == 0x30 + version)
        and UUID.fullmatch(value) is not None
    )


def is_random_hex(value: bytes) -> bool:
    """Tell whether the value is 32 lower-case hex digits that are no UUID of version 1 to 8."""
    if len(value) != 32 or HEX32.fullmatch(value) is None:  # noqa: PLR2004
        return False
    return not (b"1"[0] <= value[12] <= b"8"[0] and value[16] in b"89ab")


def is_random(value: bytes) -> bool:
    """Tell whether the value looks drawn at random: hex or base64 with digits and both cases mixed.

    A word, a name or a number is not; a short random string may be missed.
    """
    if UUID.fullmatch(value) is not None:
        return True
    if _HEX.fullmatch(value) is not None:
        return _DIGIT.search(value) is not None and not value.isdigit()
    return _RANDOM.fullmatch(value) is not None and mixed(value)


def mixed(value: bytes) -> bool:
    """Tell whether the value has digits, capitals and small letters."""
    return (
        _DIGIT.search(value) is not None
        and _UPPER.search(value) is not None
        and _LOWER.search(value) is not None
    )


def has_random_part(value: bytes) -> bool:
    """Tell whether a UUID or 32 hex digits stand somewhere in the value."""
    return _UUID_INSIDE.search(value) is not None


def is_word(value: bytes) -> bool:
    """Tell whether the value is one printable ASCII word of at most 200 bytes."""
    return _WORD.fullmatch(value) is not None


def is_token(value: bytes) -> bool:
    """Tell whether a caller may have chosen the value as owner token: no constant, number or cached data."""
    return not (is_constant(value) or is_number(value) or is_serialised(value))


def is_weak(value: bytes) -> bool:
    """Tell whether others would write the same value, so that holding it proves nothing.

    Constants, numbers too small to be a time in milliseconds, and plain words or host names without a
    process id or a random part; long letters of mixed case pass for drawn at random.
    """
    if is_self_describing(value) or is_random(value) or has_random_part(value):
        return False
    if is_constant(value):
        return True
    if is_number(value):
        return len(value) < 12  # noqa: PLR2004
    if HOST_PID.fullmatch(value) is not None or PID_HOST.fullmatch(value) is not None:
        return False
    if len(value) >= 16 and value.isalpha() and not (value.islower() or value.isupper()):  # noqa: PLR2004
        return False
    return is_word(value) and len(_DIGIT.findall(value)) < 4  # noqa: PLR2004


def json_object(value: bytes) -> dict[str, Any] | None:
    """Return the JSON object that the value is, or ``None``; hostile nesting does not raise."""
    if value[:1] != b"{":
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def text(raw: bytes, limit: int = 120) -> str:
    r"""Return bytes as text, ``\xNN`` for what is no UTF-8, cut to ``limit`` characters."""
    return raw[: 4 * limit].decode("utf-8", "backslashreplace")[:limit]
