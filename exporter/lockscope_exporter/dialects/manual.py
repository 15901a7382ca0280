"""Write docs/dialects.md from the entries, so that the page cannot say anything else than the code does."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lockscope_exporter.dialects.defaults import DEFAULT_PATTERNS
from lockscope_exporter.dialects.model import MAX_MEMBERS, MAX_VALUE
from lockscope_exporter.dialects.recognise import DIALECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockscope_exporter.dialects.model import Dialect, Form

_HEAD = f"""\
# Dialects

<!-- Generated from the entries in exporter/lockscope_exporter/dialects by `make generate`: edit those. -->

A dialect is what a library writes into Redis when it locks: keys, types, values, expiry, and how a lock may
be freed. lockscope recognises a dialect by the name of the key, its type and the shape of its value.

- `--locks PATTERN` watches a family of keys and recognises each. As you name the family, strings that nothing
  else speaks for are shown as `generic` too, words and numbers with or without expiry; a pattern that names
  nothing, such as `*`, does not do that. `--locks PATTERN=DIALECT` reads every key
  of the family as that dialect, whatever it looks like: use it where the bytes cannot tell libraries apart
  (*only by name* below), or for a prefix of your own. What you configure wins over recognition.
- A dialect is named after the library it is best known from; others that write the same bytes are listed
  with it. A lock of no known library is `generic`, if it is plausibly one. Under a name that says lock,
  mutex, semaphore, lease or leader nearly anything is, but small numbers under names that say attempts, rate
  limit, fencing and the like. Under other names a random token, `host:pid`, or a word that expires is, unless
  the name says session, cache, token or the like. Numbers, truth values, cached data and text with spaces are
  none there. A token in quotes, or as PHP or Java serialise it, is one under a name that says lock.
  In a hash called `locks` every field is a lock of its own, if each holds a token.
- An idempotency key of `lockscope.idempotent` counts while the work runs, not once it is done.
- Strings over {MAX_VALUE} bytes, and hashes, sorted sets and sets with more than {MAX_MEMBERS} members, are
  never locks. Lists and streams are never read.
- Tokens are shown as fingerprints only. Host, process and job are shown where the value names them: tokens of
  lockscope itself, UUIDv1 (start of the attempt, MAC address), `host:pid`, `pid@host`, `host=… pid=…`, JSON
  with such fields.
- *no expiry* says whether a missing expiry is a fault (state `no_ttl`) or normal for the library.

Watched without `--locks`: {{defaults}}. The server pays a little for every further prefix at every write of
any key, so name the other families that you use.
"""


def manual() -> str:
    """Return the page as Markdown."""
    defaults = ", ".join(f"`{pattern.glob.decode()}`" for pattern in DEFAULT_PATTERNS)
    ordered = sorted(
        DIALECTS.values(), key=lambda dialect: (dialect.ecosystem == "any", dialect.ecosystem, dialect.name)
    )
    lines = [_HEAD.format(defaults=defaults)]
    for ecosystem, dialects in groupby(ordered, key=lambda dialect: dialect.ecosystem):
        title = "Any library" if ecosystem == "any" else ecosystem
        lines += [f"## {title}\n", *(line for dialect in dialects for line in _section(dialect))]
    return "\n".join(lines)


def _section(dialect: Dialect) -> Iterator[str]:
    yield f"### {dialect.name}\n"
    also = f" Also called {', '.join(f'`{alias}`' for alias in dialect.aliases)}." if dialect.aliases else ""
    yield f"{dialect.library}.{also}\n"
    if dialect.forms:
        yield "| key | type | recognised | no expiry | renewed by itself | release |"
        yield "|---|---|---|---|---|---|"
        yield from (_row(form) for form in dialect.forms)
        yield ""
    else:
        yield "Never shown as a lock.\n"
    if dialect.ttl:
        yield f"Expiry: {dialect.ttl}\n"
    if dialect.forms:
        yield f"Release: {dialect.release}\n"
    if dialect.companions:
        yield f"Never locks: {', '.join(f'`{glob.decode()}`' for glob in dialect.companions)}.\n"


def _row(form: Form) -> str:
    if form.only_forced:
        how = "only by name"
    elif form.keys:
        how = "key " + ", ".join(f"`{glob.decode()}`" for glob in form.keys) + " and value"
    else:
        how = "value, any key"
    cells = (
        f"`{form.example}`" if form.example else "",
        form.type,
        how,
        "fault" if form.ttl_expected else "normal",
        "yes" if form.renews else "no",
        form.release.value.replace("_", " "),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
