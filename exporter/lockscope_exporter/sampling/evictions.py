"""Which locks that are gone early were evicted, of a server that tells how many keys it evicts, not which."""

from __future__ import annotations

_CREDIT = 1000.0  # evicted locks that may be owed at most, so that an old burst explains no release of today


class Evictions:
    """Shares out evictions between locks and other keys, by their numbers.

    A server with few locks among a million cache entries that it evicts all day long must not make every
    release look like an eviction; one that runs out of memory and drops locks must not look as if their
    holders let go. Of the keys that were evicted since the last look, locks are taken to have the share
    that they have among the keys which the policy may evict, or all of it where the policy takes the
    shortest time to live first.

    Args:
        evicted: the server's count so far.
    """

    def __init__(self, evicted: int) -> None:
        self._evicted = evicted
        self._owed = 0.0

    def explain(self, gone: int, live: int, evicted: int, evictable: int, policy: str) -> int:
        """Say how many locks of those that are gone early were evicted.

        Args:
            gone: locks that are gone early.
            live: locks that were live before.
            evicted: the server's count now; smaller after a restart.
            evictable: keys left that the policy may evict.
            policy: ``maxmemory-policy``.
        """
        newly = max(evicted - self._evicted, 0)
        self._evicted = evicted
        share = 1.0 if policy == "volatile-ttl" else min(live / max(evictable + newly, 1), 1.0)
        self._owed = min(self._owed + newly * share, _CREDIT)
        explained = min(gone, round(self._owed))
        self._owed = max(self._owed - explained, 0.0)
        return explained

    def forget(self, evicted: int) -> None:
        """Take note of evictions in a time in which no lock was gone early."""
        self._evicted = evicted
        self._owed = 0.0
