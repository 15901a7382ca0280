"""Targets files: what is read from YAML and TOML, and the one line for each file that cannot be used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockscope_exporter.configuration import OptionError, Options, from_environment
from lockscope_exporter.redis_url import parse_redis_url
from lockscope_exporter.targets import LockPattern, Target
from lockscope_exporter.targets_entry import Secrets, read_entry
from lockscope_exporter.targets_file import TargetsFileError, read_targets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "p@ss:w/o?r#d %+"


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Give a function that writes a targets file and returns its path."""

    def write(text: str | bytes, name: str = "targets.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def fault(path: Path, **environ: str) -> str:
    """Return the line that a file is refused with; it names the file and never a password."""
    with pytest.raises(TargetsFileError) as caught:
        read_targets(path, environ)
    text = str(caught.value)
    assert text.startswith(f"targets file {path}: ")
    assert "\n" not in text
    assert "s3cret" not in text
    return text.removeprefix(f"targets file {path}: ")


YAML = """
targets:
  - name: orders
    url: redis://cache-1:6379/2
    locks: ["lock:order:*", "jobs:*=redis-py"]
    dbs: [2, 3]
  - name: lock-a
    url: redis://a:6379
    quorum_group: redlock
  - name: lock-b
    url: unix:///run/b.sock
    quorum_group: redlock
"""
TOML = """
[[targets]]
name = "orders"
url = "redis://cache-1:6379/2"
locks = ["lock:order:*", "jobs:*=redis-py"]
dbs = [2, 3]

[[targets]]
name = "lock-a"
url = "redis://a:6379"
quorum_group = "redlock"

[[targets]]
name = "lock-b"
url = "unix:///run/b.sock"
quorum_group = "redlock"
"""


@pytest.mark.parametrize(("text", "name"), [(YAML, "t.yaml"), (YAML, "t.YML"), (TOML, "t.toml")])
def test_every_field_arrives_from_both_formats(write, text, name):
    """YAML and TOML with the same fields give the same targets, in the order of the file."""
    assert read_targets(write(text, name)) == (
        Target(
            "redis://cache-1:6379/2",
            "orders",
            (LockPattern(b"lock:order:*", "any"), LockPattern(b"jobs:*", "redis-py")),
            (2, 3),
        ),
        Target("redis://a:6379", "lock-a", quorum_group="redlock"),
        Target("unix:///run/b.sock", "lock-b", quorum_group="redlock"),
    )


@pytest.mark.parametrize(
    ("url", "user", "options"),
    [
        ("redis://h:1/2", None, {}),
        ("rediss://reader@h:1/2?ssl_cert_reqs=none", "reader", {"ssl_cert_reqs": "none"}),
        ("unix:///run/r.sock?db=2", None, {}),
        ("sentinel://reader@s1,s2:7/orders/2", "reader", {}),
        ("redis://h:1/2?username=reader", "reader", {}),
    ],
)
def test_a_password_from_the_environment_is_put_into_the_url(write, url, user, options):
    """Whatever characters it has, the password arrives unchanged, and the rest of the URL stays as it is."""
    path = write(f"targets: [{{name: a, url: '{url}', password_env: REDIS_PASSWORD}}]")
    [target] = read_targets(path, {"REDIS_PASSWORD": SECRET})
    parsed, bare = parse_redis_url(target.url), parse_redis_url(url)
    assert (parsed.password, parsed.username) == (SECRET, user)
    assert (parsed.addresses, parsed.path, parsed.db, parsed.service) == (
        bare.addresses, bare.path, 2, bare.service,
    )  # fmt: skip
    assert options.items() <= parsed.options.items()
    assert "***" in parsed.shown
    assert SECRET not in parsed.shown


@given(st.text(min_size=1, max_size=40, alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_password_survives(password):
    """Percent-encoding loses no character, of either password of a Sentinel group."""
    entry = {
        "name": "a", "url": "sentinel://u@h/m?db=1", "password_env": "P", "sentinel_password_env": "P",
    }  # fmt: skip
    parsed = parse_redis_url(read_entry(entry, "it", Secrets(None, {"P": password})).url)
    assert (parsed.password, parsed.sentinel_password, parsed.username, parsed.db) == (
        password, password, "u", 1,
    )  # fmt: skip


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_password_from_a_file(write, tmp_path, ending):
    """A password file is found beside the targets file, and its last line end is no part of the password."""
    (tmp_path / "secret").write_bytes(f"{SECRET} {ending}".encode())
    path = write("targets: [{name: a, url: 'redis://h', password_file: secret}]")
    [target] = read_targets(path, {})
    assert parse_redis_url(target.url).password == f"{SECRET} "


GROUP = "targets: [{name: a, url: %s, quorum_group: g}, {name: b, url: %s, quorum_group: g}]"
ENTRY = "targets: [{name: a, url: 'redis://h'%s}]"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", 'no list "targets"'),
        ("[]", 'no list "targets"'),
        ("targets: []", "at least one entry"),
        ("targets: {a: 1}", "must be a list"),
        ("targets: [a]", 'target 1: it must hold fields, at least "name" and "url"'),
        ("targets: [{name: a, url: 'redis://h'}]\nglobal: 1", '"global" is not known'),
        ("targets: [{url: 'redis://h'}]", 'target 1: "name" is missing'),
        ("targets: [{name: a}]", 'target 1 "a": "url" is missing'),
        ("targets: [{name: 12, url: 'redis://h'}]", 'name must be text; write it in quotes: "12"'),
        ("targets: [{name: on, url: 'redis://h'}]", "name must be text"),
        ("targets: [{name: 'a b', url: 'redis://h'}]", 'name: "a b" cannot be a name'),
        ("targets: [{name: \"a\\n\", url: 'redis://h'}]", r'name: "a\n" cannot be a name'),
        (ENTRY % ", password: s3cret", 'target 1 "a": field "password" is not known; known are name'),
        (ENTRY % ", lock: ['a*']", 'field "lock" is not known'),
        (ENTRY % ", 7: x", 'field "7" is not known'),
        (ENTRY % ", locks: 'lock:*'", "locks: write a list of patterns"),
        (ENTRY % ", locks: []", "locks: write a list of patterns"),
        (ENTRY % ", locks: ['lock:[']", 'locks: the pattern "lock:[" has a [ without ]'),
        (ENTRY % ", locks: ['lock:*=larravel']", "did you mean laravel?"),
        (ENTRY % ", dbs: 3", "dbs: write a list of database numbers"),
        (ENTRY % ", dbs: [true]", 'dbs: "True" is not a database number'),
        (ENTRY % ", dbs: [-1]", 'dbs: "-1" is not a database number'),
        (ENTRY % ", dbs: [1, 1]", "dbs: a number stands there twice"),
        (ENTRY % ", quorum_group: ''", "quorum_group must be text"),
        (ENTRY % ", name: b", '"name" stands 2 times in the entry that begins in line 1'),
        ("targets: [{name: a, url: 'cluster://h', dbs: [1]}]", "a cluster has database 0 only"),
        ("targets: [{name: a, url: 'cluster://h', quorum_group: g}]", "its servers are independent"),
        ("targets: [{name: a, url: 'http://:s3cret@h'}]", 'scheme "http" is not known'),
        ("targets: [{name: a, url: 'redis://:s3cret@h:x'}]", 'port "x" is not a number'),
        ("targets: [{name: a, url: redis://h:1}, {name: a, url: redis://h:2}]", '"a": target 1 has the same'),
        ("targets: [{name: a, url: redis://h:1, quorum_group: a}]", "a quorum_group has the same name"),
        ("targets: [{name: a, url: redis://h:1, quorum_group: g}]", "only one member"),
        (
            GROUP % ("redis://h:1", "redis://h:2/1"),
            '"a" and "b" differ in locks or databases',
        ),
        (
            GROUP % ("redis://h", "redis://h"),
            "two of its targets are one server",
        ),
        (ENTRY % ", password_env: ABSENT", 'password_env: the environment variable "ABSENT" is not set'),
        (ENTRY % ", password_env: EMPTY", 'variable "EMPTY" is not set, or empty'),
        (ENTRY % ", password_env: P, password_file: p", "name one password twice"),
        (ENTRY % ", password_file: absent", 'password_file: "absent": No such file'),
        (ENTRY % ", password_file: .", "Is a directory"),
        (ENTRY % ", password_file: empty", 'password_file: "empty" is empty'),
        (ENTRY % ", password_file: long", "too long to be a password"),
        (ENTRY % ", password_file: bytes", "it is not UTF-8"),
        (ENTRY % ", sentinel_password_env: P", "sentinel_password is for sentinel:// URLs"),
        ("targets: [{name: a, url: 'redis://:s3cret@h', password_env: P}]", "both in the URL and in a field"),
        (
            "targets: [{name: a, url: 'sentinel://h/m?sentinel_password=s3cret', sentinel_password_env: P}]",
            "password of the Sentinels is both",
        ),
        ("targets: [{url: 'redis://:s3cret@h'", "not valid YAML in line 1"),
        ("targets: !!python/object/apply:os.getcwd []", "not valid YAML in line 1"),
        ("--- 1\n--- 2\n", "not valid YAML"),
        (b"targets: \xff", "byte 9 is not UTF-8"),
        ("[" * 500, "nested too deeply"),
        ("[" * 10_000, "nested too deeply"),
        ("targets: [{name: a, url: redis://h, dbs: [[[1]]]}]", "dbs: a list is not a database number"),
        (f"targets: [{{name: a, url: 0x{'f' * 5000}}}]", "url must be text"),
        (f"targets: [{{name: a, url: {'1' * 5000}}}]", "a number, date or tag in it cannot be read"),
        (b"#" * (1024 * 1024 + 1), "larger than 1 MiB"),
    ],
)  # fmt: skip
def test_each_fault_has_one_line(write, tmp_path, text, says):
    """The line names file, entry and field, says what to write, and shows no password."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "long").write_text("s3cret" * 1000)
    (tmp_path / "bytes").write_bytes(b"s3cret\xff")
    assert says in fault(write(text), P="s3cret", EMPTY="")


def test_faults_of_toml(write):
    """A broken TOML file tells where, and a name given twice is refused there too."""
    assert "not valid TOML: " in fault(write("[[targets]\n", "t.toml"))
    assert "not valid TOML: " in fault(write('[[targets]]\nname = "a"\nname = "b"\n', "t.toml"))
    assert "nested too deeply" in fault(write("a = " + "[" * 10_000, "t.toml"))
    assert "a number or date in it cannot be read" in fault(write(f"a = {'1' * 5000}", "t.toml"))
    assert "url must be text" in fault(write('[[targets]]\nname = "a"\nurl = 2026-01-01\n', "t.toml"))


def test_a_file_that_is_not_there(tmp_path, write):
    """A missing file and an unknown ending are told apart."""
    assert fault(tmp_path / "no.yaml").startswith("No such file or directory; check the path")
    assert "must end in .yaml, .yml or .toml" in fault(write(YAML, "targets.json"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["name", "url", "locks", "dbs", "quorum_group", "x"]), inner)
        ),
        max_leaves=12,
    )
)
def test_no_content_breaks_the_reader(tmp_path_factory, content):
    """Whatever an entry holds, it is read or refused with one line, never with another error."""
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(json.dumps({"targets": [content]}))
    refused = ""
    try:
        read_targets(path, {})
    except TargetsFileError as error:
        refused = str(error)
    assert not refused or refused.isprintable()


def test_options_are_what_entries_do_not_say(write):
    """Patterns and databases of the options hold for entries without their own."""
    path = write(
        "targets: [{name: a, url: redis://h:1}, {name: b, url: redis://h:2, locks: ['x*'], dbs: [5]}]"
    )
    first, second = Options(targets_file=str(path), locks=("lock:*",), db=(1,)).targets()
    assert (first.patterns, first.dbs) == ((LockPattern(b"lock:*", "any"),), (1,))
    assert (second.patterns, second.dbs) == ((LockPattern(b"x*", "any"),), (5,))


def test_servers_are_named_in_one_place(write):
    """A URL beside a targets file is refused, because one of them would be ignored."""
    with pytest.raises(OptionError, match="give one of them"):
        Options(targets_file=str(write(YAML)), redis_url="redis://h:1").targets()


def test_some_targets_are_chosen_by_name(write):
    """A name picks its target, a group's name the group; a member alone is a server like any other."""
    path = str(write(YAML))

    def names(*wanted: str) -> list[tuple[str, str | None]]:
        return [(one.name, one.quorum_group) for one in Options(targets_file=path, target=wanted).targets()]

    assert names("orders") == [("orders", None)]
    assert names("redlock") == [("lock-a", "redlock"), ("lock-b", "redlock")]
    assert names("lock-b") == [("lock-b", None)]
    with pytest.raises(OptionError, match='called "nope"; there are lock-a, lock-b, orders, redlock'):
        names("nope")


def test_a_child_process_gets_the_file(write):
    """The explorer reads the same targets from the variables that its parent wrote."""
    options = Options(targets_file=str(write(YAML)), target=("orders",))
    variables = options.environment()
    assert variables["LOCKSCOPE_TARGETS"] == options.targets_file
    assert from_environment(variables) == options
    assert [one.name for one in from_environment(variables).targets()] == ["orders"]


def test_yaml_anchors_share_fields(write):
    """Entries may share fields by YAML's own means, and still have their own name."""
    text = """
targets:
  - &first {name: a, url: redis://h:1, locks: ["x*"]}
  - {<<: *first, name: b, dbs: [2]}
"""
    assert read_targets(write(text)) == (
        Target("redis://h:1", "a", (LockPattern(b"x*", "any"),)),
        Target("redis://h:1", "b", (LockPattern(b"x*", "any"),), (2,)),
    )
