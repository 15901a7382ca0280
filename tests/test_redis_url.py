"""Redis URLs: what is accepted, what is refused, and that no password is ever shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockscope_exporter.redis_url import UrlError, hide_passwords, parse_redis_url


@pytest.mark.parametrize(
    ("text", "kind", "addresses", "path", "db"),
    [
        ("redis://", "standalone", (("localhost", 6379),), "", 0),
        (" redis://cache.example:6380/3\n", "standalone", (("cache.example", 6380),), "", 3),
        ("REDIS://h/?db=4", "standalone", (("h", 6379),), "", 4),
        ("redis://[2001:db8::1]:7000/1", "standalone", (("2001:db8::1", 7000),), "", 1),
        ("unix:///run/redis/a@b.sock?db=2", "standalone", (), "/run/redis/a@b.sock", 2),
        ("sentinel://s1,s2:26380/orders/5", "sentinel", (("s1", 26379), ("s2", 26380)), "", 5),
        ("cluster://n1:7000,n2/0", "cluster", (("n1", 7000), ("n2", 6379)), "", 0),
    ],
)
def test_every_form_is_read(text, kind, addresses, path, db):
    """Each documented form gives its deployment, addresses, socket file and database."""
    url = parse_redis_url(text)
    assert (url.kind, url.addresses, url.path, url.db) == (kind, addresses, path, db)


def test_credentials_are_percent_decoded():
    """User and password lose their percent encoding, an empty user means the default one."""
    url = parse_redis_url("rediss://app%40eu:p%23s%2Fs%3F@h:6379")
    assert (url.username, url.password, url.tls) == ("app@eu", "p#s/s?", True)
    url = parse_redis_url("redis://:pw@h")
    assert (url.username, url.password) == (None, "pw")


def test_sentinels_have_their_own_credentials():
    """The user of the Sentinels is told apart from the user of the master."""
    url = parse_redis_url("sentinel://app:one@s1/m?sentinel_username=watch&sentinel_password=two")
    assert (url.username, url.password) == ("app", "one")
    assert (url.sentinel_username, url.sentinel_password) == ("watch", "two")
    assert "sentinel_password" not in url.options


def test_options_of_an_application_url_are_taken_or_ignored():
    """A URL pasted from an application works: TLS options count, decoding options do not apply to bytes."""
    url = parse_redis_url("rediss://h?ssl_cert_reqs=CERT_NONE&decode_responses=True&socket_timeout=1.5")
    assert url.options == {"ssl_cert_reqs": "none", "socket_timeout": 1.5}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no scheme"),
        ("localhost:6379", "has no scheme"),
        ("http://localhost:6379", 'scheme "http" is not known; write one of redis://'),
        ("redis://h:99999", 'port "99999" is not a number from 1 to 65535'),
        ("redis://h:0", 'port "0"'),
        ("redis://h:٣", "port"),
        ("redis://h/abc", 'database "abc" is not a number'),
        ("redis://h/1/2", '"/1/2" is no database number'),
        ("redis://h?db=-1", 'database "-1" is not a number'),
        ("redis://h?nonsense=1", 'option "nonsense" is not known; known are db, '),
        ("redis://h?socket_timeout=0", 'option socket_timeout cannot be "0"'),
        ("redis://h?ssl_ca_certs=ca.pem", "option ssl_ca_certs needs TLS; write rediss://"),
        ("sentinel://h/m?ssl_cert_reqs=none", "write sentinels://"),
        ("unix:///s?ssl_ca_certs=ca.pem", "a socket file has no TLS"),
        ("redis://h?health_check_interval=-1", 'cannot be "-1"'),
        ("redis://h1,h2", "several hosts need sentinel://"),
        ("redis://:p#ss@h:6379", "percent-encoded"),
        ("redis://:p/ss@h:6379", "percent-encoded"),
        ("redis://:p?ss@h:6379", "percent-encoded"),
        ("unix://run/redis.sock", "full path"),
        ("unix://", "full path"),
        ("sentinel://s1:26379", "name the master"),
        ("cluster://n1/3", "database 0 only"),
    ],
)
def test_a_bad_url_gets_one_line_that_says_what_to_write(text, says):
    """Every malformed URL is refused with its fault named, on one line."""
    with pytest.raises(UrlError) as caught:
        parse_redis_url(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "redis://user:hunter2@h/abc",
        "redis://:hunter2@h:x",
        "redis://:hun#hunter2@h",
        "redis://:hun?hunter2@h",
        "redis://:hun/hunter2@h:1",
        "redis://hunter2@h:x",
        "user:hunter2@h:1",
        "redis://h?password=hunter2&db=x",
        "sentinel://h?sentinel_password=hunter2",
        "rediss://h:x?ssl_password=hunter2",
        "http://:hunter2@h",
    ],
)
def test_no_message_shows_a_password(text):
    """Whatever is wrong with the URL, its password is not in the message."""
    with pytest.raises(UrlError) as caught:
        parse_redis_url(text)
    assert "hunter2" not in str(caught.value)


def test_a_good_url_is_shown_without_its_password():
    """The printable form and the repr of a parsed URL hold no password."""
    url = parse_redis_url("redis://app:hunter2@h:1/0?client_name=x&password=hunter2")
    assert url.shown == "redis://app:***@h:1/0?client_name=x&password=***"
    assert "hunter2" not in repr(url)


@given(st.text(max_size=400))
def test_any_text_is_parsed_or_refused_in_one_printable_line(text):
    """No text makes the parser raise anything but a one-line ``UrlError``."""
    for candidate in (text, f"redis://{text}", f"sentinel://{text}", f"unix://{text}"):
        try:
            shown = parse_redis_url(candidate).shown
        except UrlError as error:
            shown = str(error)
        assert shown.isprintable()


@given(st.text(alphabet="abc:/?#@%=& ", min_size=1, max_size=20))
def test_no_password_survives_hiding(filler):
    """Text before the last ``@`` of a URL is never shown, however the password is spelt."""
    assert "hunter2" not in hide_passwords(f"redis://user:{filler}hunter2{filler}@host:6379/0")
