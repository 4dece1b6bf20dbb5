"""The options after the `?` of a server URL, checked: names as in redis-py, so that its URLs work here."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import parse_qsl

from headrace.errors import OptionError


def _flag(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "t", "y"}:
        return True
    if text.lower() in {"0", "false", "no", "f", "n"}:
        return False
    raise ValueError(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86400:
        raise ValueError(text)
    return value


def _demand(text: str) -> str:
    if text not in {"none", "optional", "required"}:
        raise ValueError(text)
    return text


def _tls_version(text: str) -> ssl.TLSVersion:
    return ssl.TLSVersion(int(text))


_READ: Final[dict[str, Callable[[str], Any]]] = {
    "db": int,
    "username": str,
    "password": str,
    "client_name": str,
    "socket_timeout": _seconds,
    "socket_connect_timeout": _seconds,
    "socket_keepalive": _flag,
    "ssl_ca_certs": str,
    "ssl_ca_path": str,
    "ssl_ca_data": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_password": str,
    "ssl_cert_reqs": _demand,
    "ssl_check_hostname": _flag,
    "ssl_min_version": _tls_version,
    "ssl_ciphers": str,
    "sentinel_username": str,
    "sentinel_password": str,
}

#: Options of redis-py that say how its own pools and parsers behave: harmless here, so that a shared URL works.
_ELSEWHERE: Final = frozenset(
    {"protocol", "legacy_responses", "decode_responses", "encoding", "encoding_errors", "max_connections", "timeout"}
    | {"health_check_interval", "retry_on_timeout", "retry_on_error", "socket_read_size"}
)


def options_of(query: str, kind: str, shape: str) -> dict[str, Any]:
    """The options of a URL's query as settings; raises OptionError naming the option, never its value."""
    found: dict[str, Any] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name in _ELSEWHERE:
            continue
        if name not in _READ:
            near = get_close_matches(name, _READ, 1)
            hint = f"did you mean {near[0]!r}?" if near else "known are " + ", ".join(sorted(_READ))
            raise OptionError(f"unknown option {name!r} of the server URL: {hint}")
        if name.startswith("ssl_") and kind != "tls":
            raise OptionError(f"option {name!r} needs a TLS URL: rediss:// in place of redis://")
        if name.startswith("sentinel_") and shape != "sentinel":
            raise OptionError(f"option {name!r} needs a redis+sentinel:// URL")
        try:
            found[name] = _READ[name](text)
        except ValueError:
            raise OptionError(f"option {name!r} of the server URL has a value that it cannot take") from None
    return found
