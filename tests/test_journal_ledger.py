"""What the journal tells, as pure values: metrics, takeovers, overlaps, timelines, bounds on memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from lockscope import events
from lockscope.events import LockEvent
from lockscope.jobs import Job
from lockscope.journal import Entry, Losses, Recorded, Writer, encode
from lockscope.journal.model import VERSION
from lockscope.sinks.prometheus import PrometheusSink
from lockscope_exporter.journal.books import GIVE_UP, Books
from lockscope_exporter.journal.history import History
from lockscope_exporter.journal.leases import SETTLE, Leases
from lockscope_exporter.journal.ledger import JournalLedger

A, B, C = (Writer(f"host-{name}", number, name * 12) for number, name in enumerate("abc", 1))
KEY = b"lock:order:7"
PREFIX = "lock:order:*"


def event(name: str, at: float, **fields: object) -> LockEvent:
    defaults = {"job": Job("order", "1"), "outcome": OUTCOME.get(name, "")}
    return LockEvent(f"lock.{name}", KEY, PREFIX, at, **{**defaults, **fields})


OUTCOME = {
    "acquired": "acquired",
    "contended": "contended",
    "acquire_timeout": "timeout",
    "acquire_error": "error",
    "renewed": "renewed",
    "renew_lost": "lost",
    "renew_error": "error",
    "released": "released",
    "release_lost": "lost",
    "release_error": "error",
    "duplicate": "duplicate",
}


# --- worker metrics ---


class Served(Collector):
    def __init__(self, books: Books) -> None:
        self.books = books

    def collect(self) -> object:
        """Return what the books say."""
        return self.books.families()


def samples(registry: object) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


@st.composite
def lives(draw: st.DrawFn) -> list[LockEvent]:
    """Return the events of a process, in an order in which they can happen."""
    told: list[LockEvent] = []
    held: list[int] = []
    for at in range(draw(st.integers(0, 25))):
        choice = draw(st.integers(0, 7))
        job = {"job": Job(draw(st.sampled_from(["a", "b"])))}
        wait = draw(st.floats(0, 100))
        if choice == 0:
            told.append(event("waiting", at, **job))
            told.append(event("acquire_timeout", at, wait_seconds=wait, waited=True, **job))
        elif choice == 1:
            told.append(event("contended", at, wait_seconds=wait, **job))
        elif choice == 2:
            told.append(
                event("idempotency", at, **job, outcome=draw(st.sampled_from(["first", "in_progress"])))
            )
        elif choice == 3:
            told.append(event("retry", at, reason=draw(st.sampled_from(["locked", "busy"])), **job))
        elif choice <= 5 or not held:
            told.append(event("acquired", at, wait_seconds=wait, ttl=30.0, ttl_remaining=30.0))
            held.append(at)
        else:
            name = draw(st.sampled_from(["released", "release_lost", "renew_lost", "abandoned"]))
            left = draw(st.floats(-10, 30))
            told.append(
                event(
                    name, at, hold_seconds=wait, ttl=30.0, ttl_remaining=left, ends_lease=True,
                    unprotected_seconds=max(-left, 0.0) if "lost" in name else 0.0,
                )
            )  # fmt: skip
            held.pop()
    return told


@given(st.lists(lives(), min_size=1, max_size=3))
@settings(max_examples=60)
def test_books_say_what_the_processes_would_have_said(told: list[list[LockEvent]]) -> None:
    """Entries of several processes add up to the sum of what each would serve, sample by sample."""
    books = Books()
    expected: dict[object, float] = {}
    for number, happened in enumerate(told):
        registry = CollectorRegistry()
        sink = PrometheusSink(registry)
        for each in happened:
            sink(each)
        for key, value in samples(registry).items():
            expected[key] = expected.get(key, 0.0) + value
        writer = Writer("h", number, f"{number:012x}")
        half = len(happened) // 2
        for sequence, part in enumerate((happened[:half], happened[half:]), 1):
            books.take(Entry(writer, sequence, 30.0, tuple(Recorded(each, "", writer) for each in part)))
    found = samples(Served(books))
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value), key


def entry(writer: Writer, sequence: int, *told: LockEvent, at: float = 100.0, **fields: object) -> Entry:
    return Entry(writer, sequence, at, tuple(Recorded(each, "", writer) for each in told), **fields)


def value(books: Books, name: str, **labels: str) -> float:
    wanted = {"prefix": PREFIX, "job_type": "order", **labels}
    (found,) = [
        number for (sample, given), number in samples(Served(books)).items()
        if sample == name and dict(given) == wanted
    ]  # fmt: skip
    return found


def test_entry_that_comes_twice_counts_once() -> None:
    """A writer that got no answer writes again; its number tells."""
    books = Books()
    first = entry(A, 1, event("acquired", 1.0, wait_seconds=0.0))
    assert (books.take(first), books.take(first)) == (True, False)
    assert books.take(entry(A, 2, event("released", 2.0, hold_seconds=1.0, ends_lease=True)))
    assert value(books, "redis_lock_acquire_total", outcome="acquired") == 1
    assert books.repeated == 1


def test_missed_entries_are_counted() -> None:
    """Entries that were trimmed before anybody read them show as a gap in the numbers."""
    books = Books()
    books.take(entry(A, 5, event("contended", 1.0, wait_seconds=0.0)))
    books.take(entry(A, 9, event("contended", 1.0, wait_seconds=0.0)))
    assert books.missed == 3


def test_dead_process_holds_nothing_after_a_while() -> None:
    """A killed process says nothing any more; its gauges go, its counts stay."""
    books = Books()
    books.take(entry(A, 1, event("acquired", 1.0, wait_seconds=0.0), event("waiting", 1.0), at=100.0))
    books.tick(100.0 + GIVE_UP - 1)
    assert value(books, "redis_lock_held") == 1
    books.tick(100.0 + GIVE_UP + 1)
    assert (value(books, "redis_lock_held"), value(books, "redis_lock_waiters")) == (0, 0)
    assert value(books, "redis_lock_acquire_total", outcome="acquired") == 1


def test_process_that_ends_holds_nothing_at_once() -> None:
    """The last entry of a process that ended in order takes its gauges along."""
    books = Books()
    books.take(entry(A, 1, event("acquired", 1.0, wait_seconds=0.0)))
    books.take(entry(A, 2, last=True))
    assert value(books, "redis_lock_held") == 0


def test_sign_of_life_corrects_the_gauges() -> None:
    """Numbers that a process gives itself win over what was counted, as after dropped events."""
    books = Books()
    books.take(entry(A, 1, event("contended", 1.0, wait_seconds=0.0)))
    books.take(entry(A, 2, gauges={(PREFIX, "order"): (3, 1)}))
    assert (value(books, "redis_lock_held"), value(books, "redis_lock_waiters")) == (3, 1)


def test_gauges_never_fall_below_zero() -> None:
    """Ends of leases whose begin was never told take nothing away."""
    books = Books()
    books.take(entry(A, 1, event("released", 1.0, hold_seconds=1.0, ends_lease=True)))
    books.take(entry(B, 1, event("acquired", 1.0, wait_seconds=0.0)))
    assert value(books, "redis_lock_held") == 1


def test_losses_are_summed_over_processes_and_told_once() -> None:
    """Each process says how much it lost in all; only what is new is added."""
    books = Books()
    for writer, sequence, dropped in ((A, 1, 2), (A, 2, 5), (B, 1, 1)):
        books.take(entry(writer, sequence, losses=Losses(dropped, dropped, {"logs": dropped})))
    found = samples(Served(books))
    assert found["redis_lock_journal_dropped_total", ()] == 6
    assert found["redis_lock_prefix_overflow_total", ()] == 6
    assert found["redis_lock_sink_errors_total", (("sink", "logs"),)] == 6


def test_labels_stay_bounded_whatever_is_written() -> None:
    """A writer of ever new prefixes, job types and sinks makes no more series than the caps allow."""
    books = Books(max_prefixes=5)
    for number in range(300):
        told = LockEvent(
            events.CONTENDED, b"k", f"p{number}", 1.0, Job(f"j{number}"), "contended", wait_seconds=0.0
        )
        writer = Writer("h", 1, f"{number:012x}")
        books.take(Entry(writer, 1, 1.0, (Recorded(told, "", writer),), Losses(0, 0, {f"s{number}": 1})))
    found = samples(Served(books))
    assert len({dict(labels)["prefix"] for _, labels in found if "prefix" in dict(labels)}) == 6
    assert len({dict(labels)["job_type"] for _, labels in found if "job_type" in dict(labels)}) <= 201
    assert len([name for name, _ in found if name == "redis_lock_sink_errors_total"]) == 20
    assert found["redis_lock_prefix_overflow_total", ()] == 295


def test_history_counts_nothing_but_is_known() -> None:
    """Entries from before counting began tell what is held now, and are not counted again."""
    books = Books()
    books.look(entry(A, 4, event("acquired", 1.0, wait_seconds=0.0), losses=Losses(7)))
    books.take(entry(A, 5, event("contended", 2.0, wait_seconds=0.0), losses=Losses(8)))
    assert value(books, "redis_lock_acquire_total", outcome="acquired") == 0
    assert value(books, "redis_lock_held") == 1
    assert samples(Served(books))["redis_lock_journal_dropped_total", ()] == 1
    assert books.missed == 0


# --- takeovers and overlaps ---


def told(writer: Writer, name: str, at: float, owner: str, **fields: object) -> Recorded:
    return Recorded(event(name, at, **fields), owner, writer)


def took(writer: Writer, at: float, owner: str) -> Recorded:
    return told(writer, "acquired", at - 0.5, owner, wait_seconds=0.5)


def lost(writer: Writer, at: float, owner: str, name: str = "release_lost") -> Recorded:
    return told(writer, name, at, owner, ends_lease=True, hold_seconds=1.0)


def freed(writer: Writer, at: float, owner: str) -> Recorded:
    return told(writer, "released", at, owner, ends_lease=True, hold_seconds=1.0)


def overlaps(*happened: Recorded, at: float = 1000.0) -> list[tuple[str, str, float, float]]:
    leases = Leases()
    for each in happened:
        leases.take(each)
    return [
        (found.first.writer.worker[0], found.second.writer.worker[0], found.began_at, found.seconds)
        for found in leases.overlaps(at)
    ]


@pytest.mark.parametrize("noticed", ["release_lost", "renew_lost"])
def test_second_holder_while_the_first_still_worked(noticed: str) -> None:
    """A lost the lock, B came in at 20, A noticed at 23: both held it for three seconds."""
    assert overlaps(took(A, 10, "a1"), took(B, 20, "b1"), lost(A, 23, "a1", noticed)) == [
        ("a", "b", 20.0, 3.0)
    ]


def test_overlap_ends_with_whichever_holder_is_through_first() -> None:
    """B was done at 21, two seconds before A noticed: they were together for one second."""
    found = overlaps(took(A, 10, "a1"), took(B, 20, "b1"), freed(B, 21, "b1"), lost(A, 23, "a1"))
    assert found == [("a", "b", 20.0, 1.0)]


def test_order_in_which_the_journals_arrive_does_not_matter() -> None:
    """The journal of B is read after that of A: the overlap is found all the same, once."""
    happened = [took(A, 10, "a1"), lost(A, 23, "a1"), took(B, 20, "b1"), freed(B, 21, "b1")]
    assert overlaps(*happened) == [("a", "b", 20.0, 1.0)]
    assert overlaps(*reversed(happened)) == []  # without A's acquire before its end nothing is known of A


def test_several_holders_came_in_while_one_slept() -> None:
    """Each holder that came in while A did not know makes one overlap of its own."""
    found = overlaps(
        took(A, 10, "a1"), took(B, 20, "b1"), freed(B, 21, "b1"), took(C, 22, "c1"), lost(A, 30, "a1")
    )
    assert found == [("a", "b", 20.0, 1.0), ("a", "c", 22.0, 8.0)]


@pytest.mark.parametrize(
    "happened",
    [
        [took(A, 10, "a1"), freed(A, 20, "a1"), took(B, 20.1, "b1"), freed(B, 21, "b1")],
        [took(A, 10, "a1"), freed(A, 20.001, "a1"), took(B, 20, "b1"), freed(B, 21, "b1")],
        [took(A, 10, "a1"), took(B, 20, "b1"), freed(B, 25, "b1")],
        [took(A, 10, "a1"), took(B, 20, "b1"), told(A, "abandoned", 25, "a1", ends_lease=True)],
        [took(A, 10, "a1"), lost(A, 19, "a1"), took(B, 20, "b1")],
        [took(A, 10, "a1"), took(B, 20, "b1"), lost(A, 20.001, "a1")],
        [took(A, 10, "a1"), freed(A, 11, "a1"), took(A, 12, "a2"), lost(A, 13, "a2")],
    ],
    ids=[
        "released before the next came",
        "released, though its word came a millisecond later",
        "killed: nobody knows that it worked on",
        "dropped without a release",
        "noticed before the next came",
        "within what clocks differ by",
        "lost, but nobody came in",
    ],
)
def test_what_is_no_overlap(happened: list[Recorded]) -> None:
    """Only what both sides prove is an overlap."""
    assert overlaps(*happened) == []


def test_overlap_is_told_once_the_journals_are_in() -> None:
    """Nothing is said before slower journals had time to tell their side, and nothing twice."""
    leases = Leases()
    for each in (took(A, 10, "a1"), took(B, 20, "b1"), lost(A, 23, "a1")):
        leases.take(each)
    assert leases.overlaps(23 + SETTLE - 0.1) == []
    assert len(leases.overlaps(23 + SETTLE)) == 1
    assert leases.overlaps(1000.0) == []


def test_locks_of_different_databases_are_different_locks() -> None:
    """The same key in another database overlaps with nothing."""
    other = B._replace(db=5)
    assert overlaps(took(A, 10, "a1"), took(other, 20, "b1"), lost(A, 23, "a1")) == []


def test_takeover_is_a_new_owner_without_a_release() -> None:
    """A lock that a dead or late holder left behind changes hands; one that was released does not."""
    leases = Leases()
    assert leases.take(took(A, 10, "a1")) is None
    takeover = leases.take(took(B, 20, "b1"))
    assert takeover is not None
    assert (takeover.before.writer, takeover.after.writer, takeover.key) == (A, B, KEY)
    leases.take(freed(B, 21, "b1"))
    assert leases.take(took(C, 22, "c1")) is None


def test_leases_are_forgotten_in_time() -> None:
    """A million keys leave no million leases behind."""
    leases = Leases()
    for number in range(30_000):
        leases.take(
            Recorded(event("acquired", float(number), wait_seconds=0.0)._replace(key=b"%d" % number), "a", A)
        )
        if number % 1000 == 0:
            leases.forget(float(number))
    leases.forget(30_000.0)
    assert len(leases._places) <= 20_000
    leases.forget(40_000.0)
    assert len(leases._places) == 0


# --- timelines ---


def test_timeline_is_in_order_of_the_server_clock() -> None:
    """Events of several processes come in the order in which they happened, acquires at their success."""
    history = History()
    history.take([took(B, 20, "b1"), lost(A, 23, "a1"), took(A, 10, "a1")])
    assert [(each.writer, each.event.event) for each in history.of(KEY)] == [
        (A, events.ACQUIRED), (B, events.ACQUIRED), (A, events.RELEASE_LOST),
    ]  # fmt: skip
    assert history.of(KEY, db=3) == ()


def test_refusals_and_renewals_do_not_push_out_who_holds_the_lock() -> None:
    """Hundreds of refused calls and renewals leave the acquire and the release before it in the history."""
    history = History(max_a_key=10)
    history.take([took(A, 1, "a1")])
    history.take([told(B, "contended", 2 + number, "") for number in range(50)])
    history.take([told(A, "renewed", 60 + number, "a1") for number in range(50)])
    found = [each.event.event for each in history.of(KEY)]
    assert found == [events.ACQUIRED, *[events.CONTENDED] * 10, *[events.RENEWED] * 10]
    assert len(history) == len(found)


def test_history_is_bounded_in_all_and_for_each_key() -> None:
    """Neither one busy key nor many keys make it grow; what was used last is kept."""
    history = History(max_events=100, max_a_key=10)
    for number in range(1000):
        history.take(
            [
                told(A, "contended", number, "")._replace(
                    event=event("contended", number)._replace(key=b"%d" % (number // 20))
                )
            ]
        )
    assert len(history) <= 100
    assert len(history.of(b"49")) == 10
    assert history.of(b"0") == ()


# --- together ---


def stream(made: Entry) -> dict[bytes, bytes]:
    return {b"v": VERSION, b"b": "".join(encode(made)).encode()}


def test_ledger_counts_overlaps_by_family_and_starts_them_at_zero() -> None:
    """Every family has its overlap counters at 0 from its first event; foreign entries are counted apart."""
    ledger = JournalLedger(Books())
    ledger.take(stream(Entry(A, 1, 10.0, (took(A, 10, "aaaaaaaa"),))))
    assert ledger.overlaps == {(PREFIX, 0): (0, 0.0)}
    ledger.take({b"v": b"9", b"b": b""})
    ledger.take({})
    ledger.take(stream(Entry(B, 1, 20.0, (took(B, 20, "bbbbbbbb"),))))
    ledger.take(stream(Entry(A, 2, 23.0, (lost(A, 23, "aaaaaaaa"),))))
    (overlap,) = ledger.tick(30.0)
    assert overlap.seconds == pytest.approx(3.0)
    assert ledger.overlaps == {(PREFIX, 0): (1, pytest.approx(3.0))}
    assert (ledger.read, ledger.malformed, len(ledger.takeovers)) == (3, 2, 1)
