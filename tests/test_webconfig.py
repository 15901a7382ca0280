"""The web configuration file: what is honoured, what is refused, and a real exporter that obeys it."""

from __future__ import annotations

import ssl
import subprocess
from typing import TYPE_CHECKING

import bcrypt
import httpx
import pytest
import trustme

from commands import Exporter
from lockscope_exporter.webconfig import WebConfigError, load_web_config
from lockscope_exporter.webguard import LiveWebConfig
from servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def hashed(password: str, prefix: str = "2b") -> str:
    """Return a cheap bcrypt hash, spelt as htpasswd (2y) or others (2b) do."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode().replace("$2b$", f"${prefix}$", 1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Give a throw-away certificate authority."""
    return trustme.CA()


@pytest.fixture
def write(tmp_path, authority) -> Callable[[str], Path]:
    """Give a function that writes a web configuration beside a certificate, its key and the authority."""
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(tmp_path / "key.pem")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    def write(text: str) -> Path:
        path = tmp_path / "web.yml"
        path.write_text(text)
        return path

    return write


TLS = "tls_server_config: {cert_file: cert.pem, key_file: key.pem%s}\n"


def test_the_whole_form_is_read(write):
    """TLS, users and headers arrive; file names are relative to the configuration's folder."""
    path = write(
        TLS % ", min_version: TLS13, cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA], "
        "curve_preferences: [CurveP256], client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem"
        + "http_server_config: {http2: false, headers: {X-Frame-Options: deny}}\n"
        + f"basic_auth_users: {{ann: {hashed('x')}}}\n"
    )
    config = load_web_config(path)
    assert config.tls is not None
    assert config.tls.cert_file == path.parent / "cert.pem"
    assert (
        config.tls.ciphers == "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-AES256-SHA"
    )
    assert config.tls.context().verify_mode == ssl.CERT_REQUIRED
    assert config.tls.context().minimum_version == ssl.TLSVersion.TLSv1_3
    assert list(config.users) == ["ann"]
    assert config.headers == {"X-Frame-Options": "deny"}


def test_an_empty_file_means_plain_http(write):
    """An empty file switches nothing on."""
    config = load_web_config(write(""))
    assert (config.tls, config.users, config.headers) == (None, {}, {})


def grown(first: str, more: str) -> str:
    """Return a list whose items each hold ten of the one before: nine of them stand for a milliard."""
    items = [f"&a {first}"]
    items += [
        f"&{name} {more % ', '.join([f'*{before}'] * 10)}"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    return f"[{', '.join(items)}]"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tls_server_config: [", "not valid YAML in line 1"),
        ("[" * 10_000, "nested too deeply"),
        (
            "tls_server_config:\n" + "".join(f"{'  ' * depth}- \n" for depth in range(1, 500)),
            "nested too deeply",
        ),
        ("basic_auth_users: {ann: secret, ann: secret}", '"ann" stands 2 times'),
        (f"rate: {'1' * 5000}", "a number, date or tag in it cannot be read"),
        ("rate: 2026-13-01", "a number, date or tag in it cannot be read"),
        ("rate: !!int ''", "a number, date or tag in it cannot be read"),
        (TLS % f", min_version: {grown('[x]', '[%s]')}", "min_version a list is not supported"),
        (f"x: {grown('{k: v}', '{<<: [%s]}')}", "field"),
        (
            f"x: {{{', '.join(f'k{number}: v' for number in range(1001))}}}",
            "more than 1000 fields in one mapping",
        ),
        ("#" * (1024 * 1024 + 1), "larger than 1 MiB"),
        (f"rate: 0x{'f' * 5000}", '"rate" is not supported'),
        (TLS % f", min_version: 0x{'f' * 5000}", "min_version a huge number is not supported"),
        ("- a", "the file must hold fields with names"),
        ("rate_limit: {burst: 5}", 'field "rate_limit" is not supported'),
        ("tls_server_config: {key_file: k}", "cert_file is missing"),
        (TLS % ", min_version: TLS10", 'min_version "TLS10" is not supported; TLS12, TLS13 are'),
        (TLS % ", client_auth_type: RequireAnyClientCert", "client_auth_type"),
        (TLS % ", client_ca_file: ca.pem", "need each other"),
        (TLS % ", client_auth_type: RequireAndVerifyClientCert", "need each other"),
        (TLS % ", client_allowed_sans: [a]", '"client_allowed_sans" is not supported'),
        (TLS % ", cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]", "cipher suite"),
        (TLS % ", curve_preferences: [CurveP256, X25519]", "one curve only"),
        ("basic_auth_users: {ann: secret}", "needs a bcrypt hash"),
        ("basic_auth_users: [ann]", "must hold fields with names"),
        ("http_server_config: {headers: {Server: x}}", '"Server" is not supported'),
        ('http_server_config: {headers: {X-Frame-Options: "a\\nb"}}', "one line of ASCII"),
    ],
)
def test_what_cannot_be_honoured_is_refused(write, text, says):
    """A field that is wrong or not supported is named with the file; secrets are not shown."""
    path = write(text)
    with pytest.raises(WebConfigError) as caught:
        load_web_config(path)
    assert says in str(caught.value)
    assert "web.yml" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_bad_certificate_files_are_refused(write, authority):
    """Missing, foreign, encrypted or mismatched key files are refused when the server starts."""
    path = write(TLS % "")
    other = authority.issue_cert("other")
    for spoil in (
        (path.parent / "key.pem").unlink,
        lambda: (path.parent / "key.pem").write_text("nonsense"),
        lambda: other.private_key_pem.write_to_path(path.parent / "key.pem"),
        lambda: (path.parent / "key.pem").write_text(
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n"
            "-----END RSA PRIVATE KEY-----\n"
        ),
    ):
        spoil()
        with pytest.raises(WebConfigError, match=r"TLS files .*cert\.pem"):
            LiveWebConfig(path)


def test_a_missing_file_is_named(tmp_path):
    """A configuration file that cannot be read is named with the reason."""
    with pytest.raises(WebConfigError, match=r"none\.yml: No such file"):
        load_web_config(tmp_path / "none.yml")


def test_promtool_accepts_what_we_accept(write):
    """The file of these tests is valid for Prometheus' own checker too."""
    path = write(TLS % "" + f"basic_auth_users: {{ann: {hashed('x', '2y')}}}\n")
    checked = subprocess.run(
        ["promtool", "check", "web-config", path], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert load_web_config(path).users


def test_a_broken_change_leaves_the_last_good_one_in_force(write, caplog):
    """A configuration that turns bad while serving is logged once, and the one before stays."""
    now = [0.0]
    path = write(f"basic_auth_users: {{ann: {hashed('x')}}}\n")
    live = LiveWebConfig(path, every=1.0, clock=lambda: now[0])
    write("basic_auth_users: {ann: plain}\n")
    assert list(live.config().users) == ["ann"]
    for moment in (2.0, 4.0, 6.0):
        now[0] = moment
        assert list(live.config().users) == ["ann"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    write(f"basic_auth_users: {{bob: {hashed('y')}}}\n")
    now[0] = 8.0
    assert list(live.config().users) == ["bob"]


def test_basic_authentication_of_a_running_exporter(server, write):
    """Every path wants the password; wrong and malformed ones are refused; a change counts at once."""
    path = write(
        f"basic_auth_users: {{ann: {hashed('good', '2y')}, 'émil': {hashed('pässword')}}}\n"
        "http_server_config: {headers: {X-Content-Type-Options: nosniff}}\n"
    )
    with Exporter(server.url, "--web-config-file", str(path)) as exporter:
        refused = exporter.get("/-/healthy")
        assert (refused.status_code, refused.headers["www-authenticate"][:6]) == (401, "Basic ")
        for path_ in ("/", "/metrics", "/-/ready", "/api/v1/locks", "/nonsense"):
            assert exporter.get(path_).status_code == 401, path_
        assert exporter.get(auth=("ann", "good")).status_code == 200
        assert exporter.get(auth=("ann", "good")).headers["x-content-type-options"] == "nosniff"
        assert exporter.get(auth=httpx.BasicAuth("émil", "pässword")).status_code == 200
        for user, password in (("ann", "bad"), ("ann", ""), ("nobody", "good"), ("", ""), ("ann", "x" * 100)):
            assert exporter.get(auth=(user, password)).status_code == 401, (user, password)
        for header in ("Basic", "Basic !!!", "Bearer x", "Basic YW5u"):
            assert exporter.get(headers={"Authorization": header}).status_code == 401, header
        write(f"basic_auth_users: {{ann: {hashed('new')}}}\n")
        wait_until(lambda: exporter.get(auth=("ann", "new")).status_code == 200, every=0.1)
        assert exporter.get(auth=("ann", "good")).status_code == 401


def test_tls_of_a_running_exporter(server, write, authority):
    """It serves TLS only, to clients with a certificate of the authority, and takes up a new certificate."""
    path = write(TLS % ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.pem")
    folder = path.parent
    trusting = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    with Exporter(server.url, "--web-config-file", str(path)) as exporter:
        assert exporter.url.startswith("https://")
        with pytest.raises((httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError)):
            exporter.get(verify=trusting)
        authority.issue_cert("scraper").configure_cert(trusting)
        assert exporter.get(verify=trusting).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(exporter.url.replace("https", "http") + "/metrics")

        new = trustme.CA()
        leaf = new.issue_cert("127.0.0.1")
        only_new = ssl.create_default_context()
        new.configure_trust(only_new)
        authority.issue_cert("scraper").configure_cert(only_new)
        leaf.private_key_pem.write_to_path(folder / "next-key.pem")
        leaf.cert_chain_pems[0].write_to_path(folder / "next-cert.pem")
        (folder / "next-cert.pem").replace(folder / "cert.pem")
        (folder / "next-key.pem").replace(folder / "key.pem")

        def renewed() -> bool:
            try:
                return exporter.get(verify=only_new).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(renewed, every=0.1)
