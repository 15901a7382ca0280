"""The ``web.config.file`` of the Prometheus ecosystem: TLS, basic authentication, response headers.

The form is that of Prometheus' exporter-toolkit (docs/web-configuration.md), so that one file serves all
exporters of a host. A setting that this server cannot honour is refused, never ignored.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockscope_exporter.text import shown
from lockscope_exporter.yamlfile import YamlFaultError, quoted, read_file, read_yaml

if TYPE_CHECKING:
    from pathlib import Path

_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_HEADERS = (
    "Content-Security-Policy",
    "X-Frame-Options",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "Strict-Transport-Security",
)
_CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
_BCRYPT = re.compile(r"\$2[aby]\$\d{2}\$[./A-Za-z0-9]{53}")
_TOP = frozenset({"tls_server_config", "http_server_config", "basic_auth_users"})
_TLS = frozenset({
    "cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version",
    "cipher_suites", "prefer_server_cipher_suites", "curve_preferences",
})  # fmt: skip
_CIPHER = re.compile(
    r"TLS_(ECDHE_(?:RSA|ECDSA))_WITH_"
    r"(?:AES_(128|256)_(?:GCM|CBC)_SHA(256|384)?|CHACHA20_POLY1305_SHA256)"
)


class WebConfigError(ValueError):
    """A web configuration that cannot be used; the text names the file, the field and what to write."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """How to serve TLS.

    Attributes:
        cert_file: certificate chain, PEM.
        key_file: private key, PEM.
        client_ca_file: authority of client certificates, ``None`` for none.
        verify: whether client certificates are asked for and needed.
        min_version: oldest protocol version.
        max_version: newest protocol version.
        ciphers: OpenSSL names for TLS 1.2, empty for the defaults.
        curve: OpenSSL name of the curve for key exchange, empty for the defaults.
        prefer_server_ciphers: the server's order of ciphers wins.
    """

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    verify: ssl.VerifyMode = ssl.CERT_NONE
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""
    curve: str = ""
    prefer_server_ciphers: bool = True

    def context(self) -> ssl.SSLContext:
        """Return a server context with the certificates as the files hold them now.

        Raises:
            WebConfigError: a file cannot be read, or does not hold what it should.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.minimum_version = self.min_version
            context.maximum_version = self.max_version
            if self.ciphers:
                context.set_ciphers(self.ciphers)
            if self.curve:
                context.set_ecdh_curve(self.curve)
            if self.prefer_server_ciphers:
                context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
            context.load_cert_chain(self.cert_file, self.key_file, password=_no_password)
            context.verify_mode = self.verify
            if self.client_ca_file is not None:
                context.load_verify_locations(self.client_ca_file)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            files = f"{self.cert_file} and {self.key_file}"
            if self.client_ca_file is not None:
                files += f" and {self.client_ca_file}"
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
            raise WebConfigError(
                f"TLS files {shown(files)}: {reason}; check that they are PEM and match"
            ) from error
        return context


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What a web configuration file says.

    Attributes:
        tls: how to serve TLS, ``None`` for plain HTTP.
        users: bcrypt hashes by user name; empty means no authentication.
        headers: further response headers.
    """

    tls: TlsConfig | None = None
    users: dict[str, str] = field(default_factory=dict, repr=False)
    headers: dict[str, str] = field(default_factory=dict)


def load_web_config(path: Path) -> WebConfig:
    """Read a web configuration file; file names in it are relative to its folder.

    Raises:
        WebConfigError: the file cannot be read, or a field cannot be honoured.
    """
    try:
        return _read(read_yaml(read_file(path)), path.parent)
    except (YamlFaultError, _FieldError) as error:
        raise WebConfigError(f"web configuration {shown(str(path), 200)}: {error}") from None


class _FieldError(Exception):
    """What is wrong with a field."""


def _read(content: object, folder: Path) -> WebConfig:
    top = _mapping(content, "the file", _TOP)
    http = _mapping(top.get("http_server_config"), "http_server_config", frozenset({"http2", "headers"}))
    headers = _mapping(http.get("headers"), "headers", frozenset(_HEADERS))
    users = _mapping(top.get("basic_auth_users"), "basic_auth_users", None)
    for name, digest in users.items():
        if ":" in name or not isinstance(digest, str) or not _BCRYPT.fullmatch(digest):
            raise _FieldError(
                f'basic_auth_users: "{shown(name, 40)}" needs a bcrypt hash, as from: htpasswd -nBC 10 ""'
            )
    tls = top.get("tls_server_config")
    return WebConfig(
        tls=_tls(_mapping(tls, "tls_server_config", _TLS), folder) if tls is not None else None,
        users=dict(users),
        headers={name: _line(value, f"headers: {name}") for name, value in headers.items() if value},
    )


def _tls(fields: dict[str, Any], folder: Path) -> TlsConfig:
    for name in ("cert_file", "key_file"):
        if not isinstance(fields.get(name), str):
            raise _FieldError(f"tls_server_config: {name} is missing")
    verify = _one_of(fields.get("client_auth_type") or "NoClientCert", _CLIENT_AUTH, "client_auth_type")
    authority = fields.get("client_ca_file")
    if (verify is not ssl.CERT_NONE) != bool(authority):
        raise _FieldError("tls_server_config: client_ca_file and client_auth_type need each other")
    curves = _strings(fields.get("curve_preferences"), "curve_preferences")
    if len(curves) > 1:
        raise _FieldError("tls_server_config: curve_preferences can hold one curve only on this server")
    return TlsConfig(
        cert_file=folder / fields["cert_file"],
        key_file=folder / fields["key_file"],
        client_ca_file=folder / str(authority) if authority else None,
        verify=verify,
        min_version=_one_of(fields.get("min_version") or "TLS12", _VERSIONS, "min_version"),
        max_version=_one_of(fields.get("max_version") or "TLS13", _VERSIONS, "max_version"),
        ciphers=":".join(map(_cipher, _strings(fields.get("cipher_suites"), "cipher_suites"))),
        curve=_one_of(curves[0], _CURVES, "curve_preferences") if curves else "",
        prefer_server_ciphers=fields.get("prefer_server_cipher_suites") is not False,
    )


def _cipher(name: str) -> str:
    """Return OpenSSL's name of a cipher suite from its IANA name, as Go uses it; TLS 1.3 suites are fixed."""
    found = _CIPHER.fullmatch(name)
    if found is None:
        raise _FieldError(f'tls_server_config: cipher suite "{shown(name, 60)}" is not supported')
    exchange = found[1].replace("_", "-")
    if found[2] is None:
        return f"{exchange}-CHACHA20-POLY1305"
    middle = "-GCM" if "_GCM_" in name else ""
    return f"{exchange}-AES{found[2]}{middle}-SHA{found[3] or ''}"


def _mapping(value: object, name: str, known: frozenset[str] | None) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _FieldError(f"{name} must hold fields with names")
    for key in value:
        if known is not None and key not in known:
            raise _FieldError(f'{name}: field "{shown(key, 40)}" is not supported; known are {_list(known)}')
    return value


def _strings(value: object, name: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _FieldError(f"tls_server_config: {name} must be a list of names")
    return value


def _one_of(value: object, table: dict[str, Any], name: str) -> Any:
    if not isinstance(value, str) or value not in table:
        raise _FieldError(f"tls_server_config: {name} {quoted(value)} is not supported; {_list(table)} are")
    return table[value]


def _line(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        raise _FieldError(f"{name} must be one line of ASCII text")
    return value


def _list(names: Any) -> str:
    return ", ".join(sorted(names))


def _no_password() -> str:
    """Refuse an encrypted key instead of asking for its password on the terminal."""
    raise ValueError("the key is encrypted")
