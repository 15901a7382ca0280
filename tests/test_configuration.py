"""Options from the command line and the environment: what is accepted, what is refused and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockscope.globs import compile_glob
from lockscope_exporter.configuration import (
    OptionError,
    Options,
    duration,
    expected_hold,
    from_environment,
    glob,
    join_list,
    lock_pattern,
    split_list,
)
from lockscope_exporter.targets import LockPattern, Target


def test_a_pattern_may_name_a_dialect():
    """``PATTERN=DIALECT`` forces the dialect, a plain pattern leaves it to recognition."""
    assert lock_pattern("lock:*") == lock_pattern("lock:*=any") == LockPattern(b"lock:*", "any")
    assert lock_pattern("*") == LockPattern(b"*")
    assert lock_pattern("[a-z]*") == LockPattern(b"[a-z]*")
    assert lock_pattern(" lock:*=redis-py") == LockPattern(b"lock:*", "redis-py")


def test_an_equals_sign_may_belong_to_the_pattern():
    r"""What follows the last ``=`` is a dialect only if it looks like a name and is not escaped."""
    assert lock_pattern("lock:k=*") == LockPattern(b"lock:k=*", "any")
    assert lock_pattern(r"lock:k\=v") == LockPattern(rb"lock:k\=v", "any")


def test_an_unknown_dialect_is_refused_with_the_known_ones():
    """A misspelt dialect gets the nearest names, another one the whole list."""
    with pytest.raises(OptionError, match=r'dialect "larravel" is not known .*; did you mean laravel\?'):
        lock_pattern("lock:*=larravel")
    with pytest.raises(OptionError, match=r"; known are .*redis-py"):
        lock_pattern("lock:*=qqq")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("lock:[ab", r"a \[ without \]"),
        ("lock:\\", "ends in a lone"),
        ("x" * 2000, "longer than 1024"),
    ],
)
def test_invalid_patterns_are_refused(text, says):
    """A pattern that cannot be meant is refused, with the fault named."""
    with pytest.raises(OptionError, match=says):
        glob(text)


@pytest.mark.parametrize("text", ["lock:[ab]", r"lock:\[ab", r"a\\", "[^a]*", r"[\]]", "lock:\udcff*"])
def test_valid_patterns_are_taken_as_they_are(text):
    """Brackets, escapes and bytes that are no text pass unchanged."""
    assert glob(text) == text.encode("utf-8", "surrogateescape")


def test_a_pattern_that_names_a_family_is_text():
    """Bytes may be matched, but a name that becomes a label has to be UTF-8."""
    assert lock_pattern("lock:\udcff*").glob == b"lock:\xff*"
    for options in (Options(prefixes=("lock:\udcff*",)), Options(expected_hold=("lock:\udcff*=1s",))):
        with pytest.raises(OptionError, match="is not UTF-8"):
            options.sampling()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("500ms", 0.5), ("1.5s", 1.5), ("5m", 300), ("2 h", 7200), ("1D", 86400)],
)
def test_durations(text, seconds):
    """Each unit gives seconds."""
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "5 minutes", "inf", "nan", "1e3", "٣", "1h30m"])
def test_what_is_no_duration(text):
    """Anything else is refused with an example of what is meant."""
    with pytest.raises(OptionError, match="write seconds, or 500ms"):
        duration(text)


def test_expected_hold():
    """A pattern gets the duration after its last ``=``."""
    assert expected_hold("lock:report:*=10m") == ("lock:report:*", 600.0)
    with pytest.raises(OptionError, match="PATTERN=DURATION"):
        expected_hold("lock:report:*")


def test_options_become_targets_and_sampling():
    """Every option arrives where the sampler reads it."""
    options = Options(
        redis_url="redis://h:1/2", locks=("lock:*",), db=(0, 3), prefixes=("lock:a:*",), max_prefixes=7,
        expected_hold=("lock:a:*=5s",), progress=("job:*",), progress_stale_after="2m", feed="scan",
        interval="500ms", scan_budget=10, timeout="3s", state_file="/tmp/x",
    )  # fmt: skip
    [target] = options.targets()
    assert target == Target("redis://h:1/2", patterns=(LockPattern(b"lock:*", "any"),), dbs=(0, 3))
    sampling = options.sampling()
    assert (sampling.prefix_patterns, sampling.max_prefixes) == (("lock:a:*",), 7)
    assert (sampling.expected_hold, sampling.progress) == ({"lock:a:*": 5.0}, ("job:*",))
    assert (sampling.progress_stale_after, sampling.mode, sampling.interval) == (120.0, "scan", 0.5)
    assert (sampling.scan_budget, sampling.timeout, sampling.state_file) == (10, 3.0, "/tmp/x")


def test_options_travel_through_the_environment():
    """A child process reads the same options from the variables that its parent wrote."""
    options = Options(
        redis_url="redis://h:1/2",
        locks=("lock:a, b*", "x[1,2]"),
        db=(0, 3),
        expected_hold=("a*=5s",),
        timeout="3s",
    )
    variables = options.environment()
    assert set(variables) == {
        "LOCKSCOPE_REDIS_URL", "LOCKSCOPE_LOCKS", "LOCKSCOPE_DB",
        "LOCKSCOPE_EXPECTED_HOLD", "LOCKSCOPE_TIMEOUT",
    }  # fmt: skip
    assert from_environment(variables) == options


def test_empty_variables_mean_the_default():
    """A variable that is set but empty, as in a compose file, changes nothing."""
    assert from_environment({"LOCKSCOPE_LOCKS": "", "LOCKSCOPE_REDIS_URL": " "}) == Options()


def test_a_bad_number_in_the_environment_names_its_variable():
    """A number that is none is refused with the variable's name."""
    with pytest.raises(OptionError, match='LOCKSCOPE_MAX_PREFIXES takes a whole number, not "many"'):
        from_environment({"LOCKSCOPE_MAX_PREFIXES": "many"})
    with pytest.raises(OptionError, match="LOCKSCOPE_DB"):
        from_environment({"LOCKSCOPE_DB": "0,x"})


@given(st.lists(st.text(alphabet="ab*,: []", min_size=1).filter(str.strip), max_size=5))
def test_lists_survive_the_environment(items):
    """Patterns with commas and spaces come back as they were."""
    items = [item.strip(" ") for item in items]
    assert split_list(join_list(items)) == items


@given(st.text(alphabet="ab*?[]^-\\", min_size=1, max_size=12))
def test_a_pattern_that_is_accepted_can_be_matched(text):
    """Every accepted pattern compiles as a Redis glob."""
    try:
        raw = glob(text)
    except OptionError:
        return
    compile_glob(raw)
