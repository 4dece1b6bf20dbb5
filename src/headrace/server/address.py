"""From a URL to an `Address`: which kind of place, which endpoints, which service, how to get in.

redis://user:password@host:port/db          one server; when it is a node of a cluster, the cluster
rediss://...                                 the same over TLS
unix:///path/to/socket?db=0                  a Unix socket
redis+sentinel://user:pw@h1:p1,h2:p2/service/db      the primary that the Sentinels name
redis+cluster://h1:p1,h2:p2                  a cluster, found through any of these nodes
rediss+sentinel://, rediss+cluster://        the same over TLS
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from headrace.errors import InvalidInput
from headrace.server.endpoint import Endpoint, Kind
from headrace.server.url_options import options_of

Shape = Literal["single", "sentinel", "cluster"]

_SCHEMES: Final[dict[str, tuple[Kind, Shape]]] = {
    "redis": ("tcp", "single"),
    "rediss": ("tls", "single"),
    "unix": ("unix", "single"),
    "redis+sentinel": ("tcp", "sentinel"),
    "rediss+sentinel": ("tls", "sentinel"),
    "redis+cluster": ("tcp", "cluster"),
    "rediss+cluster": ("tls", "cluster"),
}
_ALIASES: Final = {"valkey": "redis", "valkeys": "rediss"}
_PORTS: Final[dict[Shape, int]] = {"single": 6379, "sentinel": 26379, "cluster": 6379}


@dataclass(slots=True)
class Address:
    """Where the server is: `seeds` are the endpoints named, `way_in` the template of those found through them."""

    shape: Shape
    seeds: list[Endpoint]
    way_in: Endpoint
    service: str = ""
    sentinel_login: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def url(self) -> str:
        """A URL that leads there, password included; "" when a credential provider knows the way in."""
        if "credential_provider" in self.way_in.settings:
            return ""
        return url_of(self)


def masked(url: str) -> str:
    """The URL without its secrets, whatever its form: for errors and logs."""
    head, slashes, rest = url.partition("://")
    if not slashes:
        return re.sub(r"^.*@", "***@", url)
    rest = re.sub(r"^[^?]*@", "***@", rest)
    place, mark, query = rest.partition("?")
    # A mistyped name of an option may carry a secret too.
    return f"{head}://{place}{mark}" + re.sub(r"=[^&]*", "=***", query)


def address_of(url: str) -> Address:
    """The address that a URL names; raises InvalidInput or OptionError with the URL's secrets left out."""
    scheme, slashes, _ = url.partition("://")
    kind, shape = _scheme(scheme, bool(slashes))
    try:
        parts = urlsplit(url)
        options = options_of(parts.query, kind, shape)
        places = _places(parts, shape) if kind != "unix" else []
    except ValueError as error:
        raise (
            type(error)(f"{error} (in {masked(url)})")
            if isinstance(error, InvalidInput)
            else InvalidInput(
                f"cannot read the server URL {masked(url)}: ports go from 1 to 65535, and special characters of user "
                "and password are percent-encoded"
            )
        ) from None
    sentinel_login = {k.removeprefix("sentinel_"): options.pop(k) for k in list(options) if k.startswith("sentinel_")}
    settings = _login(parts) | options
    if kind == "unix":
        endpoint = Endpoint("unix", settings | {"path": _socket_path(parts)})
        return Address("single", [endpoint], endpoint)
    service, database = _path(parts, shape, masked(url))
    settings = ({"db": database} if database else {}) | settings
    if shape == "cluster" and settings.get("db"):
        raise InvalidInput(f"a cluster has only database 0: leave {settings['db']} out (in {masked(url)})")
    way_in = Endpoint(kind, settings | {"host": places[0][0], "port": places[0][1]})
    outer = way_in if shape != "sentinel" else sentinel_endpoint(way_in, sentinel_login)
    return Address(shape, [outer.at(host, port) for host, port in places], way_in, service, sentinel_login)


def sentinel_endpoint(way_in: Endpoint, login: dict[str, Any]) -> Endpoint:
    """How to talk to a Sentinel: the TLS of the servers it watches, its own user and password, no database."""
    inner = {"db", "username", "password", "credential_provider"}
    settings = {k: v for k, v in way_in.settings.items() if k not in inner}
    # Who watches must not make us wait: a Sentinel that does not answer is skipped soon.
    timeouts = {"socket_timeout": 2.0, "socket_connect_timeout": 2.0}
    return Endpoint(way_in.kind, settings | login | timeouts)


def url_of(address: Address) -> str:
    """The URL of an address, password included."""
    settings = address.way_in.settings
    login = ""
    if settings.get("username") or settings.get("password"):
        login = f"{quote(str(settings.get('username', '')), '')}:{quote(str(settings.get('password', '')), '')}@"
    query = {k: _plain(v) for k, v in settings.items() if k.startswith("ssl_")}
    query |= {f"sentinel_{k}": str(v) for k, v in address.sentinel_login.items()}
    tail = f"?{urlencode(query)}" if query else ""
    if address.way_in.kind == "unix":
        database = f"?db={settings['db']}" if settings.get("db") else ""
        return f"unix://{login}{quote(str(settings['path']))}{database}"
    scheme = "rediss" if address.way_in.kind == "tls" else "redis"
    scheme += "" if address.shape == "single" else f"+{address.shape}"
    places = ",".join(f"{_bracketed(host)}:{port}" for host, port in (seed.place for seed in address.seeds))
    path = [quote(address.service, "")] if address.service else []
    path += [str(settings["db"])] if settings.get("db") else []
    return f"{scheme}://{login}{places}{''.join('/' + step for step in path)}{tail}"


def _scheme(scheme: str, complete: bool) -> tuple[Kind, Shape]:
    stem, plus, form = scheme.lower().partition("+")
    name = _ALIASES.get(stem, stem) + plus + form
    if complete and name in _SCHEMES:
        return _SCHEMES[name]
    if not complete:
        raise InvalidInput("a server URL starts with its scheme, as in redis://localhost:6379/0")
    near = get_close_matches(name, _SCHEMES, 1, 0.5)
    hint = f"did you mean {near[0]}://?" if near else "use one of " + ", ".join(f"{s}://" for s in _SCHEMES)
    raise InvalidInput(f"unknown scheme {scheme!r} of the server URL: {hint}")


def _login(parts: SplitResult) -> dict[str, Any]:
    login, at, _ = parts.netloc.rpartition("@")
    if not at:
        return {}
    user, _, password = login.partition(":")
    return {k: unquote(v) for k, v in (("username", user), ("password", password)) if v}


def _places(parts: SplitResult, shape: Shape) -> list[tuple[str, int]]:
    places: list[tuple[str, int]] = []
    for place in parts.netloc.rpartition("@")[2].split(","):
        match = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]*)(?::(\d{1,5}))?", place.strip())
        if match is None:
            raise ValueError(place)
        host = unquote(match[1].strip("[]")) or "localhost"
        port = int(match[2] or _PORTS[shape])
        if not 0 < port < 65536:
            raise ValueError(port)
        places.append((host, port))
    if shape == "single" and len(places) > 1:
        raise InvalidInput("several hosts need redis+sentinel:// or redis+cluster://")
    return places


def _path(parts: SplitResult, shape: Shape, shown: str) -> tuple[str, int]:
    steps = [unquote(step) for step in parts.path.split("/") if step]
    service = steps.pop(0) if shape == "sentinel" and steps else ""
    if shape == "sentinel" and not service:
        raise InvalidInput(f"a Sentinel URL names its service, as in redis+sentinel://host:26379/mymaster ({shown})")
    if len(steps) > 1 or (steps and not steps[0].isdecimal()):
        raise InvalidInput(f"the path of a server URL is its database number ({shown})")
    return service, int(steps[0]) if steps else 0


def _socket_path(parts: SplitResult) -> str:
    # unix:relative/path and unix://relative/path put the first step where a host would be.
    return unquote(parts.netloc.rpartition("@")[2] + parts.path)


def _plain(value: object) -> str:
    if isinstance(value, ssl.VerifyMode):
        return value.name.removeprefix("CERT_").lower()
    return str(int(value)) if isinstance(value, int) else str(value)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
