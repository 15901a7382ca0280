"""Owner tokens that say who holds a lock, and what uninstrumented ones give away."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lockscope import tokens
from lockscope.jobs import NO_JOB, Job
from lockscope.tokens import MAX_BYTES, Owner, describe, fingerprint, parse, uuid1_owner

TEXT = st.text(st.characters(), max_size=200)  # surrogates, control characters, separators, everything
CLEAN = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=13)
NOW = 1732896000.1234


@settings(max_examples=150, deadline=None)
@given(job_type=CLEAN, job_id=CLEAN, at=st.floats(0, 9e9))
@example(job_type="a;host=evil", job_id="pid=1;n=2", at=0.0)
@example(job_type="100%", job_id="%3B%00", at=1.0005)
def test_what_goes_in_comes_out(job_type: str, job_id: str, at: float) -> None:
    """Any job type and id come back from the token unchanged, beside host, pid, worker and time."""
    owner = parse(describe(Job(job_type, job_id), at))
    process = tokens.process
    assert owner == Owner(
        process.host,
        os.getpid(),
        process.worker,
        owner.job_type,
        job_id,
        owner.started_at,
        namespace=process.namespace,
        born=process.born,
    )
    assert owner.job_type == (None if job_type == "none" else job_type)
    assert owner.started_at == pytest.approx(at, abs=0.0006)


@settings(max_examples=150, deadline=None)
@given(job_type=TEXT, job_id=st.none() | TEXT, presence=st.sampled_from(["", ";p=1", ";p=0"]))
@example(job_type="\ud800" * 200, job_id="é" * 200, presence=";p=1")
@example(job_type=";" * 200, job_id="\U0001f512" * 100, presence=";p=1")
def test_tokens_are_bounded_ascii(job_type: str, job_id: str | None, presence: str) -> None:
    """Whatever the job, a token has at most 512 bytes of printable ASCII, and it stays readable."""
    token = describe(Job(job_type, job_id), 99999999999.0, presence)
    assert len(token) <= MAX_BYTES
    assert token.isascii()
    assert token.decode().isprintable()
    assert re.fullmatch(rb"[0-9a-f]{32}", token.rpartition(b";n=")[2])
    owner = parse(token)
    assert owner is not None
    assert owner.worker == tokens.process.worker
    assert owner.presence == {"": None, ";p=1": True, ";p=0": False}[presence]


@given(text=st.text("aé漢🔒;%", min_size=100, max_size=300))
def test_long_fields_are_cut_between_characters(text: str) -> None:
    """A field that is too long comes back as its beginning, with no character cut in two."""
    owner = parse(describe(Job("t", text), NOW))
    assert owner.job_id
    assert text.startswith(owner.job_id)


def test_a_huge_job_id_costs_nothing() -> None:
    """A job id of megabytes makes a bounded token in no time."""
    started = time.process_time()
    token = describe(Job("t", "x" * 10_000_000), NOW)
    assert len(token) <= MAX_BYTES
    assert time.process_time() - started < 0.1


def test_longest_host_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest fields all at once, with the largest pid, still make a token that readers accept."""
    process = tokens.Process()
    host, seen = tokens._quoted("h" * 255, 96), f"ns={2**32}.89abcdef;st={10**15}"
    process.head = f"ls1;host={host};pid={2**22};worker={process.worker};{seen}"
    monkeypatch.setattr(tokens, "process", process)
    token = describe(Job("t" * 500, "i" * 500), NOW, ";p=1")
    assert len(token) <= MAX_BYTES
    owner = parse(token)
    assert (owner.host, owner.pid, owner.job_type, owner.job_id) == ("h" * 96, 2**22, "t" * 120, "i" * 120)
    assert (owner.namespace, owner.born) == (f"{2**32}.89abcdef", 10**15)


def test_where_the_system_does_not_tell_the_token_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc, or with one that counts processes otherwise, a token names no PID namespace."""
    assert tokens._identity(os.getpid())[0] is not None
    assert tokens._identity(os.getpid() + 1) == (None, 0)
    monkeypatch.setattr(tokens, "_identity", lambda _: (None, 0))
    assert ";ns=" not in tokens.Process().head


def test_no_two_tokens_agree() -> None:
    """Tokens of one instant, also from several threads, all differ."""
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: describe(NO_JOB, NOW), range(4000)))
    assert len(set(made)) == 4000


def test_a_forked_child_has_a_name_of_its_own() -> None:
    """After a fork the child's tokens carry its own pid and worker name and never repeat the parent's."""
    script = (
        "import os; from lockscope import tokens; from lockscope.jobs import NO_JOB;"
        "child = os.fork();"
        "os.waitpid(child, 0) if child else None;"
        "os.write(1, tokens.describe(NO_JOB, 1.0) + b'\\n')"
    )
    lines = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout.split()
    owners = [parse(line) for line in lines]
    assert len({owner.pid for owner in owners}) == len({owner.worker for owner in owners}) == 2
    assert len({line.rpartition(b";n=")[2] for line in lines}) == 2


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"ls1",
        b"ls1;",
        b"ls1;pid=1;type=x",
        b"ls2;host=a;pid=1",
        b"LS1;host=a",
        b"1",
        b"\xff\xfe\x00",
        b"9b1f7c1e0e5a4d7c8f3a2b1c0d9e8f70",
        b"ls1;host=" + b"a" * MAX_BYTES,
        b's:16:"ls1;host=a;pid=1";',
    ],
)
def test_other_values_are_no_owner(token: bytes) -> None:
    """What lockscope did not write is not read as if it had."""
    assert parse(token) is None


@given(token=st.binary(max_size=600) | st.binary(max_size=500).map(lambda rest: b"ls1;host=" + rest))
@example(token=b"ls1;host=%ff%fe;pid=%31;worker=../..;at=nan;p=2")
@example(token="ls1;host=a;pid=²;at=\u0661".encode())
@example(token=b"ls1;host=a;pid=" + b"9" * 400)
def test_hostile_tokens_do_no_harm(token: bytes) -> None:
    """No bytes make the reader raise, and what it returns has the right types and bounds."""
    owner = parse(token)
    if owner is not None:
        assert owner.pid is None or 0 <= owner.pid < 10**19
        assert owner.started_at is None or 0 <= owner.started_at < 10**12
        assert owner.worker is None or re.fullmatch("[0-9a-f]{6,32}", owner.worker)


def test_unknown_and_unreadable_fields_are_left_out() -> None:
    """A reader ignores fields it does not know, takes the first of a repeated one, and drops bad numbers."""
    owner = parse(b"ls1;host=web-3;host=evil;pid=-1;worker=ZZ;zone=eu;at=soon;type=a%20b;id;n=1")
    assert owner == Owner(host="web-3", job_type="a b")


@pytest.mark.parametrize("host", [b"a", b"%61"])
def test_the_first_of_two_fields_counts(host: bytes) -> None:
    """A field that comes twice is the first, percent-encoded or not."""
    owner = tokens.parse(b"ls1;host=" + host + b";pid=1;id=a=b;host=b;;pid")
    assert owner is not None
    assert (owner.host, owner.pid, owner.job_id) == ("a", 1, "a=b")


def test_uuid1_tells_when_and_where() -> None:
    """redis-py's own token gives the time of the attempt, and the node where it is a real MAC address."""
    before = time.time()
    made = uuid.uuid1(node=0x0242AC110002)
    owner = uuid1_owner(made.hex.encode())
    assert owner == Owner(host="mac:0242ac110002", started_at=owner.started_at)
    assert before - 1 <= owner.started_at <= time.time() + 1
    assert uuid1_owner(str(made).upper().encode()) == owner


def test_a_random_node_is_no_host() -> None:
    """The multicast bit says that a UUIDv1's node was drawn at random: no host is named."""
    assert uuid1_owner(uuid.uuid1(node=0x0142AC110002).hex.encode()).host is None


@pytest.mark.parametrize(
    "token",
    [
        b"9b1f7c1e0e5a4d7c8f3a2b1c0d9e8f70",  # a UUIDv4
        b"cfbff0d193755685968c48ce8b15ae17",  # a UUIDv5
        b"0f3b1b2ed5a511efb86c0242ac11000",  # one digit short
        b"0f3b1b2ed5a511efb86c0242ac11000g",
        b"0" * 32,
        b"00000000000010008000000000000000",  # a UUIDv1 of the year 1582
        b"ffffffffffff1fffbfffffffffffffff",  # a UUIDv1 of the year 5236
        b"\xff" * 32,
    ],
)
def test_other_values_are_no_uuid1(token: bytes) -> None:
    """UUIDv4 and v5, random hex and impossible times tell nothing."""
    assert uuid1_owner(token) is None


def test_random_hex_is_hardly_ever_taken_for_a_uuid1() -> None:
    """Of ten thousand random values of 32 hex digits, next to none looks like an attempt of a real time."""
    generator = tokens.random.Random(7)
    taken = [uuid1_owner(f"{generator.getrandbits(128):032x}".encode()) for _ in range(10_000)]
    assert sum(owner is not None for owner in taken) <= 5


def test_fingerprint_is_the_first_hex_of_sha256() -> None:
    """A token is shown as eight hex digits, whatever bytes it has."""
    for token in (b"", b"\xff\x00", describe(NO_JOB, NOW)):
        assert fingerprint(token) == hashlib.sha256(token).hexdigest()[:8]


@given(
    st.lists(
        st.sampled_from(
            [
                "host=web-3", "host=", "pid=41", "pid=x", "worker=7f3a9c", "p=1", "ns=1.a", "st=5",
                "type=a.b", "type=", "id=8", "id=9", "at=1732896000.123", "at=x",
                "n=ab", "bare", "x=%41", "type=\xe9",
            ]
        ),
        max_size=10,
    )
)  # fmt: skip
def test_a_token_in_the_usual_order_reads_as_in_any_other(fields):
    """What is remembered of a process changes no answer: a last field that nobody knows asks anew."""
    token = ";".join(["ls1", *fields])
    assert tokens.parse(token.encode()) == tokens.parse(f"{token};unknown=1".encode())
