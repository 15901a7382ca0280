"""From keys that may have changed to readings of them: few round trips, no error caused on the server.

Every key goes through ``TYPE`` first, which neither touches its idle time nor fails. Strings are then read
with ``MGET``, the one command that answers a key of another type with nil and not with an error; everything
else by a read-only script that looks at the type and reads in one step, since ``HSCAN`` on a key that became
a string a moment ago would count as an error on the server. A value that is too large for a lock is not
fetched: ``MEMORY USAGE`` tells, without touching the key. Keys that were strings of a lock's size, and keys
that are named as many such keys were, go straight to ``MGET``, until one of such a name is too large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import ResponseError

from lockscope_exporter.dialects import plan
from lockscope_exporter.dialects.model import MAX_MEMBERS, MAX_VALUE, Reading
from lockscope_exporter.sampling.answers import forbidden, moved, refused, value
from lockscope_exporter.sampling.composite import read_composite
from lockscope_exporter.sampling.wire import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockscope_exporter.dialects.model import ReadPlan
    from lockscope_exporter.sampling.wire import Line

    How = Callable[[bytes, str, str | None], ReadPlan | None]

CHUNK = 256  # keys read together: bounds memory, and how long one burst keeps the server
_OVERHEAD = 512  # bytes that MEMORY USAGE counts beside key and value, at most
_MISSING = -2  # what PTTL and PEXPIRETIME say of a key that does not exist
_MANY = 8  # keys from which on a second round trip costs less than a second look at each deadline
_ALIKE = 16  # strings in a row after which others with such names are expected to be strings, too
_OTHER, _LARGE = -1, -2  # in place of that number: one was no string, one was too large
_MAX_SHAPES = 1000  # shapes of names that are remembered
_VARYING = b"0123456789abcdefABCDEF-"  # what differs between the names of keys of one kind


class Asked(NamedTuple):
    """A key to read, and the dialect it is to be read as."""

    key: bytes
    dialect: str | None


class Glance(NamedTuple):
    """Type (``none`` if it does not exist) and deadline of a key."""

    key: bytes
    type: str
    deadline: float | None


@dataclass(slots=True)
class Sample:
    """What one read found.

    Attributes:
        readings: keys that exist, with their values where their type is one that locks have.
        gone: keys that do not exist, and when that was, by the server's clock.
        again: keys that changed while they were read; ask anew.
        elsewhere: keys that another node of the cluster serves now, and that node's host and port.
        forbidden: keys that this user may not read.
    """

    readings: list[Reading] = field(default_factory=list)
    gone: list[tuple[bytes, float]] = field(default_factory=list)
    again: list[Asked] = field(default_factory=list)
    elsewhere: list[tuple[bytes, tuple[str, int]]] = field(default_factory=list)
    forbidden: list[bytes] = field(default_factory=list)

    def sort_out(self, item: Asked, answer: Any) -> bool:
        """File a key away if the answer says that it cannot be read here; tell whether it did."""
        if not isinstance(answer, ResponseError):
            return False
        address = moved(answer)
        if address is not None:
            self.elsewhere.append((item.key, address))
        elif forbidden(answer):
            self.forbidden.append(item.key)
        else:
            return False
        return True


class Reader:
    """Reads keys of one database.

    Args:
        line: where to ask.
        how: says by key, type and dialect how to read a key, ``None`` for never.
        limit: bytes; a string that is longer is not read, nor what has many times that.
    """

    def __init__(self, line: Line, how: How = plan, limit: int = MAX_VALUE) -> None:
        self.line = line
        self.abilities = line.abilities
        self._how = how
        self._limit = limit
        self._strings: dict[bytes, int] = {}  # of keys named alike: strings in a row

    def read(self, keys: Sequence[Asked], known: Callable[[bytes], bool]) -> Sample:
        """Read keys as they are now.

        Args:
            keys: keys whose names say that they may be locks; no others are touched. At most ``CHUNK``.
            known: tells of a key that it was a string with a lock when last read: mostly it still is.

        Returns:
            What was found.

        Raises:
            redis.ConnectionError, redis.TimeoutError: the connection is lost.
            redis.ResponseError: the server refuses what reading cannot do without.
        """
        sample = Sample()
        strings: list[tuple[Asked, float | None]] = []
        likely = [item for item in keys if self._expected(item, known)]
        if likely:
            rest = set(keys).difference(likely)  # what is known may change between two questions
            read = (
                self._read_many if len(likely) >= _MANY and not self.abilities.cluster else self._read_likely
            )
            keys = [item for item in keys if item in rest] + read(likely, sample)
        for item, type_name, deadline, size, at in self._look(keys, sample) if keys else ():
            how = self._how(item.key, type_name, item.dialect)
            if how is None or size > 2 * len(item.key) + _OVERHEAD + self._most(type_name, how):
                sample.readings.append(Reading(item.key, type_name, None, deadline, at))
            elif type_name == "string":
                strings.append((item, deadline))
            else:
                answer = read_composite(self.line, item.key, type_name, how)
                if answer is None:
                    sample.again.append(item)
                elif isinstance(answer, Reading):
                    sample.readings.append(answer)
                else:
                    sample.sort_out(item, answer)
        if strings:
            self._read_strings(strings, sample)
        self._learn(sample.readings)
        return sample

    def glance(self, keys: Sequence[Asked]) -> list[Glance]:
        """Look at type and expiry only, which leaves the keys' idle time alone.

        Args:
            keys: keys whose names say that they may be locks; at most ``CHUNK``.

        Returns:
            What was seen; keys that cannot be read are left out.
        """
        commands: list[bytes] = []
        for item in keys:
            commands += (pack(b"TYPE", item.key), pack(self.abilities.expiry, item.key))
        at, answers = self.line.ask_at(commands)
        aside = Sample()
        found = []
        for item, type_name, expires in zip(keys, answers[::2], answers[1::2], strict=True):
            if not (aside.sort_out(item, type_name) or aside.sort_out(item, expires)):
                deadline = self.abilities.deadline(value(expires), at)
                found.append(Glance(item.key, value(type_name).decode(), deadline))
        return found

    def _most(self, type_name: str, how: ReadPlan) -> float:
        """Return the bytes from which on a value is too large to be read, whatever it holds."""
        if type_name == "string":
            return 2 * self._limit
        # What is read of a large hash by the names of its fields is small.
        return math.inf if b"MATCH" in how.args else 2 * MAX_MEMBERS * self._limit

    def _read_likely(self, asked: Sequence[Asked], sample: Sample) -> list[Asked]:
        """Read keys that are probably strings, in one round trip; return those that need a closer look.

        ``MGET`` answers a key of another type with nil, and what is no nil was a string.
        """
        expiry = [pack(self.abilities.expiry, item.key) for item in asked]
        commands = self._mget(asked)
        at, answers = self.line.ask_at([*expiry, *commands, *expiry])
        before, values, after = (
            answers[: len(asked)],
            self._values(answers[len(asked) : -len(asked)], len(asked)),
            answers[-len(asked) :],
        )
        rest = []
        for item, first, payload, last in zip(asked, before, values, after, strict=True):
            if isinstance(payload, ResponseError) or isinstance(first, ResponseError) or self._large(payload):
                rest.append(item)
            elif payload is None and first == last == _MISSING:
                sample.gone.append((item.key, at))
            elif payload is None or last == _MISSING or not self._same(first, value(last), at):
                rest.append(item)
            else:
                deadline = self.abilities.deadline(last, at)
                sample.readings.append(Reading(item.key, "string", payload, deadline, at))
        return rest

    def _read_many(self, asked: Sequence[Asked], sample: Sample) -> list[Asked]:
        """Do what ``_read_likely`` does with fewer commands, most of all for keys that are gone by now.

        A value that is the same before and after the deadline was asked for had that deadline.
        """
        answer = self.line.ask(self._mget(asked))[0]
        if isinstance(answer, ResponseError):
            return list(asked)
        rest: list[Asked] = []
        live: list[tuple[Asked, Any]] = []
        absent: list[Asked] = []
        for item, payload in zip(asked, self._values([answer], len(asked)), strict=True):
            if payload is None:
                absent.append(item)
            elif self._large(payload):
                rest.append(item)
            else:
                live.append((item, payload))
        commands = [pack(self.abilities.expiry, item.key) for item, _ in live]
        if live:
            commands += self._mget([item for item, _ in live])
        counted = len(absent) > 1 and self.abilities.exists  # one key alone is what waiters poll
        if counted:
            commands.append(pack(b"EXISTS", *(item.key for item in absent)))
        at, answers = self.line.ask_at(commands)
        existing = answers.pop() if counted else None
        rest += self._not_gone(absent, existing, at, sample)
        after = self._values(answers[len(live) :], len(live)) if live else []
        for (item, payload), expires, last in zip(live, answers[: len(live)], after, strict=True):
            if isinstance(expires, ResponseError) or expires == _MISSING or last != payload:
                rest.append(item)
            else:
                deadline = self.abilities.deadline(expires, at)
                sample.readings.append(Reading(item.key, "string", payload, deadline, at))
        return rest

    def _not_gone(self, absent: Sequence[Asked], existing: Any, at: float, sample: Sample) -> list[Asked]:
        """File away those of the keys without a string that do not exist; return the others.

        Args:
            absent: the keys.
            existing: answer to the question how many of them exist; ``None`` if it was not asked.
            at: when that was answered, by the server's clock.
            sample: where they are filed.
        """
        if existing == 0:
            sample.gone += [(item.key, at) for item in absent]
            return []
        if refused(existing):
            self.abilities.exists = False
        if not absent:
            return []
        at, answers = self.line.ask_at([pack(self.abilities.expiry, item.key) for item in absent])
        rest = []
        for item, expires in zip(absent, answers, strict=True):
            if expires == _MISSING:
                sample.gone.append((item.key, at))
            else:
                rest.append(item)
        return rest

    def _expected(self, item: Asked, known: Callable[[bytes], bool]) -> bool:
        """Tell whether a key was, or keys with such a name always were, a string of a lock's size to be read.

        Where one was ever larger, the same name may be a lock now and a large result next, so none is.
        """
        alike = self._strings.get(item.key.translate(None, _VARYING), 0)
        if alike == _LARGE:
            return False
        if known(item.key):
            return True
        return alike >= _ALIKE and self._how(item.key, "string", item.dialect) is not None

    def _learn(self, readings: Sequence[Reading]) -> None:
        """Remember of the names of keys whether such keys are short strings."""
        strings = self._strings
        for reading in readings:
            shape = reading.key.translate(None, _VARYING)
            seen = strings.get(shape, 0)
            if reading.type == "string" and (reading.value is None or len(reading.value) > self._limit):
                strings[shape] = _LARGE
            elif reading.type != "string":
                strings[shape] = min(seen, _OTHER)
            elif 0 <= seen < _ALIKE:
                strings[shape] = seen + 1
        while len(strings) > _MAX_SHAPES:
            del strings[next(iter(strings))]

    def _look(
        self, asked: Sequence[Asked], sample: Sample
    ) -> list[tuple[Asked, str, float | None, int, float]]:
        """Ask type, deadline and size of every key; return those that exist here, and when that was."""
        per_key = 3 if self.abilities.memory_usage else 2
        commands: list[bytes] = []
        for item in asked:
            commands += (pack(b"TYPE", item.key), pack(self.abilities.expiry, item.key))
            if self.abilities.memory_usage:
                commands.append(pack(b"MEMORY", b"USAGE", item.key))
        at, answers = self.line.ask_at(commands)
        found = []
        for number, item in enumerate(asked):
            type_name, expires, *more = answers[number * per_key : (number + 1) * per_key]
            if sample.sort_out(item, type_name) or sample.sort_out(item, expires):
                continue
            size = more[0] if more else 0
            if isinstance(size, ResponseError):
                self.abilities.memory_usage = False
                size = 0
            if value(type_name) == b"none" or value(expires) == _MISSING:
                sample.gone.append((item.key, at))
            else:
                found.append((item, type_name.decode(), self.abilities.deadline(expires, at), size or 0, at))
        return found

    def _read_strings(self, strings: Sequence[tuple[Asked, float | None]], sample: Sample) -> None:
        """Read string values; a deadline that moved between the two looks means that the key changed."""
        asked = [item for item, _ in strings]
        commands = self._mget(asked)
        expiry = [pack(self.abilities.expiry, item.key) for item in asked]
        at, answers = self.line.ask_at([*commands, *expiry])
        values = self._values(answers[: len(commands)], len(asked))
        for (item, deadline), payload, expires in zip(strings, values, answers[len(commands) :], strict=True):
            if sample.sort_out(item, payload) or sample.sort_out(item, expires):
                continue
            later = self.abilities.deadline(value(expires), at)
            if value(payload) is None or expires == _MISSING or not self.abilities.same(deadline, later):
                sample.again.append(item)
            else:
                sample.readings.append(Reading(item.key, "string", payload, later, at))

    def _large(self, payload: bytes | None) -> bool:
        return payload is not None and len(payload) > self._limit

    def _mget(self, asked: Sequence[Asked]) -> list[bytes]:
        """Return the commands that read strings: one, or in a cluster one a key."""
        if self.abilities.cluster:
            return [pack(b"MGET", item.key) for item in asked]
        return [pack(b"MGET", *(item.key for item in asked))]

    def _values(self, answers: Sequence[Any], count: int) -> list[Any]:
        """Return one value a key from the answers to ``_mget``; an error in place of a value."""
        if not self.abilities.cluster and isinstance(answers[0], ResponseError):
            return [answers[0]] * count
        found: list[Any] = []
        for answer in answers:
            found += [answer] if isinstance(answer, ResponseError) else answer
        return found

    def _same(self, first: int, last: int, at: float) -> bool:
        return self.abilities.same(self.abilities.deadline(first, at), self.abilities.deadline(last, at))
