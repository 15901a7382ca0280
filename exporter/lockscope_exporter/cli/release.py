"""``lockscope release KEY``: free one lock, and only the one that was seen."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lockscope.sinks.logs import JSONFormatter
from lockscope_exporter import release
from lockscope_exporter.cli.errors import FAILED, FINDING, OK, CommandError
from lockscope_exporter.cli.facts import Fact, print_facts
from lockscope_exporter.cli.keytext import key_name, keys_of
from lockscope_exporter.cli.one import pick, read_one
from lockscope_exporter.evidence import holder_name
from lockscope_exporter.listing import holder_object, lock_object
from lockscope_exporter.options import TEXT, option, redis_options
from lockscope_exporter.render import STYLES
from lockscope_exporter.text import label_text, shown, shown_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.configuration import Options
    from lockscope_exporter.release import ReleasePlan, ReleaseResult
    from lockscope_exporter.state import Holder, LockState

_STATUS = {"ready": OK, "released": OK, "resurrected": OK, "failed": FAILED, "unknown": FAILED}
_READ = frozenset({"string", "hash", "set", "zset"})  # types that some library's locks have
_WIDEST = 200


@click.command(
    epilog="A dry run unless --yes is given. Off until LOCKSCOPE_ALLOW_RELEASE=1. A lock whose holder is not "
    "known to be gone needs --force and the key once more. "
    "Exit status: 0 the lock was freed or, in a dry run, "
    "would be; 1 it was not; 2 Redis failed or releases are off."
)
@click.argument("key", type=TEXT)
@option("--field", default=None, help="Field of a hash that holds several locks.")
@option("--token", default=None, help="Fingerprint of the owner token that is meant, as ls shows it.")
# Told on the command line alone: an environment left over from before must not free a lock.
@click.option("--yes", "--execute", "really", is_flag=True, help="Free it, after all checks.")
@click.option("--force", is_flag=True, help="Free it although its holder may still work.")
@click.option(
    "--confirm", default=None, help="The key once more; asked for on a terminal if --force needs it."
)
@option("--reason", default="", help="Why, for the audit trail.")
@option("--audit-log", type=click.Path(dir_okay=False, path_type=Path), help="File to append JSON lines to.")
@option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@redis_options
def command(
    *,
    options: Options,
    key: str,
    field: str | None,
    token: str | None,
    really: bool,
    force: bool,
    confirm: str | None,
    reason: str,
    audit_log: Path | None,
    as_json: bool,
) -> int:
    """Free the lock KEY if it is still the one that was seen, the way its library does, and wake waiters."""
    one = read_one(options, key)
    for name, missed in one.missed.items():  # that target may hold the lock that is meant
        raise CommandError(
            f"{shown(name, 63)} cannot be asked: {missed}; name the target that is meant with --target"
        )
    if not one.locks:
        why = missing(one.type)
        if as_json:
            click.echo(json.dumps({"outcome": "gone", "detail": why, "dry_run": not really, "lock": None}))
        click.echo(f"lockscope release: {key_name(one.key)} {why}", err=True)
        return FINDING
    lock = pick(one.locks, field, options.db)
    plan = release.plan(lock, token)
    allow = release.allowed(os.environ)
    if not as_json:
        print_facts(title(lock), _facts(plan))
    client = release.open_client(options, lock)
    try:
        if really:
            if force and plan.needs_force and confirm is None and allow and sys.stdin.isatty():
                confirm = click.prompt(f"{plan.needs_force}. Type the key to free it anyway", err=True)
            with _logged(audit_log):
                result = release.execute(
                    client,
                    plan,
                    allow=allow,
                    user=release.operator(),
                    reason=reason,
                    force=force,
                    confirm=_confirmed(confirm, lock),
                )
        elif allow:
            result = release.rehearse(client, plan, force=force)
        else:
            result = release.ReleaseResult("refused", release.OFF)
    finally:
        client.close()
    if as_json:
        click.echo(json.dumps(result_object(plan, result, dry_run=not really), allow_nan=False))
    return _report(plan, result, allow=allow, really=really, force=force, quiet=as_json)


def missing(type_: str) -> str:
    """Say what a key is that holds no lock, by its Redis type; empty if it does not exist."""
    if not type_:
        return "does not exist: it is not held now, or it is in another database"
    if type_ not in _READ:
        return f"is a {shown(type_, 40)}, which is never read: locks are strings, hashes, sets or sorted sets"
    return f"is a {type_} that no known lock looks like; name its library with --locks 'KEY=DIALECT'"


def result_object(plan: ReleasePlan, result: ReleaseResult, *, dry_run: bool) -> dict[str, Any]:
    """Return what was planned and what came of it as a JSON object."""
    return {
        "outcome": result.outcome,
        "detail": label_text(result.detail),
        "dry_run": dry_run,
        "way": plan.way.value,
        "steps": [label_text(step) for step in plan.steps],
        "warnings": [label_text(text) for text in (*plan.warnings, *result.warnings)],
        "needs_force": label_text(plan.needs_force) or None,
        "woken": result.woken,
        "held_by": [holder_object(holder) for holder in result.holders],
        "audit_id": result.audit_id or None,
        "lock": lock_object(plan.lock),
    }


def _facts(plan: ReleasePlan) -> Iterator[Fact]:
    lock = plan.lock
    yield Fact("state", [lock.state], STYLES[lock.state])
    yield Fact("evidence", lock.evidence)
    yield Fact("holder", [named(holder) for holder in plan.holders])
    yield Fact("dialect", [lock.dialect])
    yield Fact("will", plan.steps)
    yield Fact("warning", plan.warnings, "yellow")


def named(holder: Holder) -> str:
    """Return a holder's name and the fingerprint of its token, once."""
    name = holder_name(holder)
    return name if holder.fingerprint in name else f"{name}, token {holder.fingerprint}"


def title(lock: LockState) -> str:
    """Return the key, and the field that is the lock."""
    field = "" if lock.field is None else f" [{shown_key(lock.field, _WIDEST)}]"
    return f"{shown_key(lock.key, _WIDEST)}{field}"


def _report(
    plan: ReleasePlan, result: ReleaseResult, *, allow: bool, really: bool, force: bool, quiet: bool
) -> int:
    """Say how it ended and what to do next; return the exit status."""
    if not allow:
        click.echo(f"lockscope release: {shown(result.detail)}; nothing was changed", err=True)
        return FAILED
    status = _STATUS.get(result.outcome, FINDING)
    if not quiet:
        said = f"{result.outcome}: {shown(result.detail)}"
        if result.outcome == "ready":
            again = " --force --confirm KEY" if plan.needs_force else ""
            said = f"dry run: {shown(result.detail)}; nothing was changed. To free it, add --yes{again}"
        elif result.outcome == "refused" and plan.blocked is None and not force:
            said += "; nothing was changed. If you know better, add --force --confirm KEY"
        elif not result.freed and result.outcome != "unknown":
            said += "; nothing was changed"
        click.echo(said, err=status != OK)
    for warning in result.warnings:
        click.echo(f"lockscope release: {shown(warning)}", err=True)
    if really and result.audit_id and not quiet:
        click.echo(f"recorded as {result.audit_id} in {release.STREAM.decode()}", err=status != OK)
    return status


def _confirmed(confirm: str | None, lock: LockState) -> bytes | None:
    """Return the lock's key if it is what was typed, in bytes or as it is shown."""
    return lock.key if confirm is not None and lock.key in keys_of(confirm) else None


@contextmanager
def _logged(path: Path | None) -> Iterator[None]:
    """Send the audit's log records to a file as JSON lines; without one the stream alone has them."""
    logger = logging.getLogger("lockscope")
    before = logger.propagate, logger.level
    handler: logging.Handler = logging.NullHandler()
    if path is not None:
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            what = f"the audit log {shown(str(path), 200)} cannot be written: {error.strerror}"
            raise CommandError(what) from error
        handler.setFormatter(JSONFormatter())
        logger.setLevel(logging.INFO)
    logger.propagate = False  # what there is to say is said on the terminal
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        logger.propagate, logger.level = before
