"""``lockscope why KEY``: who holds a lock, whether the holder lives, what happened, what to do."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from lockscope_exporter import runbook, story
from lockscope_exporter.alerts.options import RUNBOOK_BASE_URL
from lockscope_exporter.cli.errors import FAILED, FINDING, OK
from lockscope_exporter.cli.facts import Fact, print_facts
from lockscope_exporter.cli.keytext import key_name, keys_of
from lockscope_exporter.cli.one import read_one
from lockscope_exporter.cli.past import Past, past_of
from lockscope_exporter.cli.release import missing, named, title
from lockscope_exporter.configuration import DEFAULT_URL
from lockscope_exporter.dialects import dialect
from lockscope_exporter.listing import lock_object
from lockscope_exporter.moments import span
from lockscope_exporter.options import TEXT, option, redis_options
from lockscope_exporter.redis_cli import inspect, lockscope
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.release import open_client, open_journal
from lockscope_exporter.render import STYLES
from lockscope_exporter.targets import UNNAMED
from lockscope_exporter.text import label_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockscope_exporter.cli.one import One
    from lockscope_exporter.configuration import Options
    from lockscope_exporter.dialects import Dialect
    from lockscope_exporter.state import Holder, LockState

_LISTED = 10


@click.command(
    epilog="Reads only. Telling whether a holder lives takes a second or two, and up to ten more "
    "where its death has to be confirmed. Exit status: 0 the lock is held and nothing is wrong; 1 something "
    "is, or it is not held; 2 Redis, or one of several targets, could not be read."
)
@click.argument("key", type=TEXT)
@option("--field", default=None, help="Field of a hash that holds several locks; all without it.")
@option("--runbook-base-url", default=RUNBOOK_BASE_URL, help="URL of the folder of AlertName.md.")
@option("--json", "as_json", is_flag=True, help="Print a JSON list, one object a lock.")
@redis_options
def command(*, options: Options, key: str, field: str | None, runbook_base_url: str, as_json: bool) -> int:
    """Tell who holds the lock KEY, whether the holder lives, what happened to it, and what to do."""
    one = read_one(options, key)
    wanted = None if field is None else keys_of(field)
    locks = [lock for lock in one.locks if wanted is None or lock.field in wanted]
    if locks:
        _tell(options, locks, runbook_base_url, as_json=as_json)
    else:
        _nothing(options, one, as_json=as_json)
    for name, missed in one.missed.items():
        click.echo(f"lockscope why: incomplete, {shown(name, 63)} cannot be asked: {shown(missed)}", err=True)
    if one.missed:
        click.echo("lockscope why: --target NAME asks one target alone", err=True)
        return FAILED
    return OK if locks and all(lock.state == "held" for lock in locks) else FINDING


def _tell(options: Options, locks: Sequence[LockState], runbook_base_url: str, *, as_json: bool) -> None:
    """Print all that is known of these locks."""
    told = [(lock, _past(options, lock), _advice(lock, runbook_base_url)) for lock in locks]
    if as_json:
        objects = [why_object(lock, past, advice, options) for lock, past, advice in told]
        click.echo(json.dumps(objects, allow_nan=False))
    else:
        for place, (lock, past, advice) in enumerate(told):
            if place:
                click.echo()
            print_facts(title(lock), facts(lock, past, advice, _commands(lock, options)))


def facts(lock: LockState, past: Past, advice: runbook.Advice, commands: Sequence[str]) -> Iterator[Fact]:
    """Describe a lock to a person.

    Args:
        lock: the lock.
        past: what is recorded of it.
        advice: what to do.
        commands: lines to copy.
    """
    now = lock.sampled_at
    yield Fact("state", [lock.state], STYLES[lock.state])
    yield Fact("evidence", lock.evidence)
    yield Fact("holder", [_holder(holder, now) for holder in lock.holders] or ["the format names nobody"])
    yield Fact("since", [_since(lock)])
    yield Fact("expires", [_expires(lock)])
    if lock.expected_hold_seconds is not None:
        yield Fact("expected", [f"held for at most {span(lock.expected_hold_seconds)}"])
    if lock.renewals:
        yield Fact("renewed", ["once while looking" if lock.renewals == 1 else f"{lock.renewals} times"])
    known = dialect(lock.dialect)
    yield Fact("library", _library(lock, known))
    yield Fact("where", [_where(lock)])
    yield Fact("blocks", _blocks(past, now))
    yield Fact("overlaps", [story.overlap_line(one) for one in past.overlaps[-_LISTED:]], "red")
    yield Fact("history", _history(past, now))
    yield Fact("to do", advice.steps)
    if advice.url:
        yield Fact("runbook", [advice.url], copied=True)
    yield Fact("look", commands, copied=True)


def _where(lock: LockState) -> str:
    target = "" if lock.target == UNNAMED else f" of {lock.target}"
    return f"database {lock.db}{target}, {lock.node}, a {lock.type}"


def _blocks(past: Past, now: float) -> list[str]:
    """Tell of those who want the lock: first who waits, longest first, then who was refused, last first."""
    found = story.waiters(past.events, now, past.heard)
    found.sort(key=lambda one: (not one.waiting, one.since if one.waiting else -one.last))
    lines = [story.waiter_line(one, now) for one in found[:_LISTED]]
    if len(found) > _LISTED:
        lines.append(f"{len(found) - _LISTED} more; --json has them")
    return lines


def _library(lock: LockState, known: Dialect) -> list[str]:
    if lock.dialect == "generic":
        return ["not recognised, read as generic; if you know it, name it with --locks 'PATTERN=DIALECT'"]
    expiry = [f"its expiry: {_plain(known.ttl)}"] if lock.ttl_seconds is None else []
    return [f"{lock.dialect}: {_plain(known.library)}", *expiry]


def why_object(lock: LockState, past: Past, advice: runbook.Advice, options: Options) -> dict[str, Any]:
    """Return all that is known of a lock as a JSON object."""
    waiters = story.waiters(past.events, lock.sampled_at, past.heard)
    return {
        **lock_object(lock),
        "history": [story.moment_object(one) for one in story.moments(past.events, past.releases)],
        "blocked": [story.waiter_object(one) for one in waiters],
        "overlaps": [story.overlap_object(one) for one in past.overlaps],
        "journal": past.journal,
        "trouble": past.trouble or None,
        "to_do": list(advice.steps),
        "runbook": advice.url or None,
        "commands": [label_text(line) for line in _commands(lock, options)],
    }


def _nothing(options: Options, one: One, *, as_json: bool) -> None:
    """Say what is known of a key that is no lock now."""
    what = missing(one.type) if not one.locks else "has no such field that is a lock"
    if as_json:
        click.echo("[]")
    click.echo(f"lockscope why: {key_name(one.key)} {what}", err=True)
    if not one.type and not one.locks and not as_json:
        target = next(target for target in options.targets() if target.name not in one.missed)
        db = (target.dbs or (parse_redis_url(target.url).db,))[0]
        with open_journal(options, target.name) as journal:
            past = past_of(journal, journal, one.key, db)
        if past.events or past.releases:
            print_facts("what is recorded of it:", [Fact("history", _history(past, time.time()))])


def _advice(lock: LockState, runbook_base_url: str) -> runbook.Advice:
    return runbook.advice(lock.state, runbook_base_url, expires=lock.ttl_seconds is not None)


def _past(options: Options, lock: LockState) -> Past:
    client = open_client(options, lock)
    try:
        with open_journal(options, lock.target) as journal:
            return past_of(journal, client, lock.key, lock.db)
    finally:
        client.close()


def _holder(holder: Holder, now: float) -> str:
    life = {"alive": "lives", "unknown": "whether it lives is not known", "gone": "is gone"}[holder.alive]
    if holder.gone_since is not None:
        life = f"gone for {span(now - holder.gone_since)}"
    times = f", {holder.count} times over" if holder.count > 1 else ""
    ends = f", until {story.clock(holder.until, now)}" if holder.until is not None else ""
    return f"{named(holder)}{times}{ends}; {life}"


def _since(lock: LockState) -> str:
    if lock.age_seconds is None or lock.age_at_least:
        return "not known: the bytes do not tell, and it was there when lockscope looked"
    return f"{story.clock(lock.sampled_at - lock.age_seconds, lock.sampled_at)}, {span(lock.age_seconds)} ago"


def _expires(lock: LockState) -> str:
    if lock.ttl_seconds is None:
        normal = not lock.ttl_expected and lock.dialect != "generic"
        return "never, which is normal for this library" if normal else "never"
    return f"{story.clock(lock.sampled_at + lock.ttl_seconds, lock.sampled_at)}, in {span(lock.ttl_seconds)}"


def _history(past: Past, now: float) -> list[str]:
    found = story.moments(past.events, past.releases)
    lines = [story.moment_line(one, now) for one in found[-_LISTED:]]
    if len(found) > _LISTED:
        lines.insert(0, f"{len(found) - _LISTED} earlier events are left out; --json has them")
    if not past.journal and not past.trouble:
        lines.append("no journal: switch it on in the workers with LOCKSCOPE_JOURNAL=1 to see the past")
    return [*lines, *([past.trouble] if past.trouble else [])]


def _commands(lock: LockState, options: Options) -> list[str]:
    """Return lines to copy: what Redis holds, and how to free the lock."""
    target = next(one for one in options.targets() if one.name == lock.target)
    named = lock.target if options.targets_file else None
    url = None if target.url == DEFAULT_URL else target.url
    return [*inspect(lock, parse_redis_url(target.url)), *lockscope("release", lock, url, named)]


def _plain(markdown: str) -> str:
    return markdown.replace("`", "")
