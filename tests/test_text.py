"""Hostile keys and messages are one harmless line wherever they are shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockscope_exporter.text import key_text, label_text, shown, shown_key


def test_utf8_keys_are_shown_as_they_are():
    """A readable key, in any script, is not changed."""
    assert key_text("lock:заказ:7".encode()) == "lock:заказ:7"
    assert shown_key("lock:заказ:7".encode()) == "lock:заказ:7"


def test_bytes_that_are_no_text_are_escaped():
    """Each byte that is not UTF-8 becomes its backslash escape, in JSON and on terminals."""
    assert key_text(b"lock:\xff\x00") == "lock:\\xff\x00"
    assert shown_key(b"lock:\xff\x00") == "lock:\\xff\\x00"


def test_terminal_and_direction_controls_are_escaped():
    """Escape sequences, newlines and right-to-left overrides cannot reach a terminal."""
    assert shown("a\x1b[2J\n\u202eb\U000e0001") == "a\\x1b[2J\\n\\u202eb\\U000e0001"


def test_bytes_of_the_command_line_are_escaped():
    """Arguments that were no UTF-8 arrive as lone surrogates and are shown as the bytes they were."""
    assert shown("\udcff") == "\\xff"
    assert label_text("lock:\udcff*") == "lock:\\xff*"
    assert label_text("lock:é*") == "lock:é*"


def test_a_long_key_keeps_both_ends():
    """A 64 KiB key is cut in the middle, so that two keys with the same start can be told apart."""
    line = shown_key(b"lock:" + b"x" * 65536 + b":9", 30)
    assert len(line) == 30
    assert line.startswith("lock:xxx")
    assert line.endswith("xxx:9")


@given(st.binary(max_size=300), st.integers(4, 60))
def test_any_key_is_one_printable_line_of_the_width(raw, width):
    """Whatever bytes a key has, what is shown is printable and not wider than asked."""
    assert shown_key(raw).isprintable()
    assert len(shown_key(raw, width)) <= width


@given(st.text(alphabet=st.characters(), max_size=100))
def test_any_label_can_be_encoded(text):
    """Whatever text a label value has, it can be written as UTF-8."""
    label_text(text).encode()
    shown(text).encode()
