"""Who may free a lock from a page. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lockscope_exporter.release import OFF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockscope_dashboard.settings import Settings

CLAIMS = ("roles", "role", "groups", "group")
NAMES = ("email", "preferred_username", "name", "sub")


class Access(NamedTuple):
    """Whether a viewer may free locks.

    Attributes:
        allowed: they may.
        user: their name, for the audit trail.
        why_not: what stands against it, as a sentence.
        sign_in: signing in may help.
        signed_in: they have signed in, and may sign out.
    """

    allowed: bool
    user: str
    why_not: str = ""
    sign_in: bool = False
    signed_in: bool = False


def decide(settings: Settings, user: Mapping[str, Any], address: str | None) -> Access:
    """Decide whether a viewer may free locks.

    Args:
        settings: of the explorer.
        user: what ``st.user`` says; it has ``is_logged_in`` where sign-in is configured.
        address: network address of the viewer, ``None`` for this machine.

    Returns:
        The decision. With sign-in configured, only the named roles may; without it, everyone who reaches the
        page, unless roles are named, for then nobody can have one.
    """
    if not settings.allow_release:
        return _no(OFF)
    wanted = set(settings.release_roles)
    if "is_logged_in" not in user:
        return _without_sign_in(wanted, address)
    if user["is_logged_in"] is not True:
        return _no("sign in to free locks")._replace(sign_in=True)
    name = next((str(user[claim]) for claim in NAMES if user.get(claim)), "somebody without a name")
    return _signed_in(wanted, name, roles(user))._replace(signed_in=True)


def _signed_in(wanted: set[str], name: str, has: set[str]) -> Access:
    if not wanted:
        return _no("no role may free locks; name some in LOCKSCOPE_RELEASE_ROLES", name)
    if wanted & has:
        return Access(allowed=True, user=name)
    return _no(f"of the roles that may free locks, {name} has none", name)


def _without_sign_in(wanted: set[str], address: str | None) -> Access:
    if wanted:
        return _no("LOCKSCOPE_RELEASE_ROLES names roles, but sign-in is not configured, so nobody has one")
    return Access(allowed=True, user=f"viewer at {address or 'this machine'}")


def _no(why: str, user: str = "") -> Access:
    return Access(allowed=False, user=user, why_not=why)


def roles(user: Mapping[str, Any]) -> set[str]:
    """Return the roles in a user's claims: a list, or names separated by commas or spaces."""
    found: set[str] = set()
    for claim in CLAIMS:
        value = user.get(claim)
        if isinstance(value, str):
            found |= set(value.replace(",", " ").split())
        elif isinstance(value, list | tuple | set | frozenset):
            found |= {str(one) for one in value}
    return found
