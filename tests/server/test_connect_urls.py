"""URLs are read exactly, refused helpfully, and never shown with their secrets."""

from __future__ import annotations

import logging

import pytest

from headrace.errors import InvalidInput, OptionError, ServerUnavailable
from headrace.server.address import address_of, masked, url_of
from headrace.server.connect import open_site
from tests.tools.processes import Port


@pytest.mark.parametrize(
    ("url", "kind", "place", "settings"),
    [
        ("redis://localhost", "tcp", ("localhost", 6379), {}),
        ("redis://h:1234/5", "tcp", ("h", 1234), {"db": 5}),
        ("valkey://h:1234", "tcp", ("h", 1234), {}),
        ("redis://:p%40%2Fss@h", "tcp", ("h", 6379), {"password": "p@/ss"}),
        ("redis://u:p@[::1]:7/0", "tcp", ("::1", 7), {"username": "u", "password": "p"}),
        ("rediss://h:1?ssl_cert_reqs=none&ssl_check_hostname=no", "tls", ("h", 1), {"ssl_check_hostname": False}),
        ("valkeys://h:1?ssl_ca_certs=/ca.pem", "tls", ("h", 1), {"ssl_ca_certs": "/ca.pem"}),
        ("unix:///run/a%20b.sock?db=3&password=x", "unix", ("/run/a b.sock", 0), {"db": 3, "password": "x"}),
        ("unix://relative/v.sock", "unix", ("relative/v.sock", 0), {}),
        ("redis://h?protocol=3&decode_responses=true&max_connections=5", "tcp", ("h", 6379), {}),
    ],
)
def test_a_single_server(url: str, kind: str, place: tuple[str, int], settings: dict[str, object]) -> None:
    address = address_of(url)
    assert (address.shape, address.way_in.kind, address.way_in.place) == ("single", kind, place)
    assert settings.items() <= address.way_in.settings.items()


def test_sentinels_have_a_way_in_of_their_own() -> None:
    address = address_of("redis+sentinel://u:p@a:1,b/mine/4?sentinel_password=sp&socket_timeout=3")
    assert (address.shape, address.service) == ("sentinel", "mine")
    assert [seed.place for seed in address.seeds] == [("a", 1), ("b", 26379)]
    assert address.way_in.settings["password"] == "p"
    assert address.way_in.settings["db"] == 4
    assert address.way_in.reply_timeout == 3
    assert [seed.settings.get("password") for seed in address.seeds] == ["sp", "sp"]
    assert "db" not in address.seeds[0].settings
    assert "username" not in address.seeds[0].settings


def test_a_cluster_is_found_through_any_node() -> None:
    address = address_of("rediss+cluster://:p@a:1,b:2?ssl_ca_certs=/ca.pem")
    assert address.shape == "cluster"
    assert [(seed.kind, *seed.place) for seed in address.seeds] == [("tls", "a", 1), ("tls", "b", 2)]
    assert all(seed.settings["password"] == "p" for seed in address.seeds)


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:p%40@h:1/2",
        "unix://:p@/run/v.sock?db=2",
        "rediss://h:1?ssl_ca_certs=%2Fca.pem&ssl_check_hostname=0",
        "redis+sentinel://:p@a:1,b:2/mine/3?sentinel_password=s",
        "redis+cluster://:p@a:1,[::1]:2",
    ],
)
def test_an_address_can_be_written_as_a_url_again(url: str) -> None:
    assert url_of(address_of(url)) == url


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("localhost:6379", "starts with its scheme"),
        ("redi://h", "did you mean redis://"),
        ("redis+sentinal://h/s", "did you mean redis+sentinel://"),
        ("http://h", "use one of"),
        ("redis://a,b", "redis+sentinel:// or redis+cluster://"),
        ("redis+sentinel://a", "names its service"),
        ("redis+cluster://a/3", "only database 0"),
        ("redis://h/abc", "database number"),
        ("redis://h/1/2", "database number"),
        ("redis://h:99999", "percent-encode"),
        ("redis://h:0", "percent-encode"),
        ("redis://h?sll_ca_certs=x", "unknown option 'sll_ca_certs'"),
        ("rediss://h?ssl_ca_cert=x", "did you mean 'ssl_ca_certs'"),
        ("redis://h?ssl_ca_certs=x", "rediss://"),
        ("redis://h?sentinel_password=x", "redis+sentinel://"),
        ("redis://h?socket_timeout=-1", "'socket_timeout'"),
        ("rediss://h?ssl_cert_reqs=maybe", "'ssl_cert_reqs'"),
    ],
)
def test_a_bad_url_is_refused_with_a_hint(url: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        address_of(url)
    assert hint in str(caught.value)


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "url",
    [
        f"redis://u:{SECRET}@h:99999",
        f"redis://:{SECRET}/x@h",
        f"redis://:{SECRET}#x@h",
        f"redis://:x@{SECRET}@h:abc",
        f"redis://h/x?password={SECRET}",
        f"redis://h?pasword={SECRET}",
        f"rediss://h?db=x&ssl_password={SECRET}",
        f"redis+sentinel://h?sentinel_password={SECRET}",
        f"redi://u:{SECRET}@h",
        f"u:{SECRET}@h:6379",
    ],
)
def test_no_error_shows_a_secret(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_site(url)
    assert SECRET not in str(caught.value)
    assert SECRET not in masked(url)


def test_nothing_listens_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    port = Port()
    try:
        with pytest.raises(ServerUnavailable) as caught:
            open_site(f"redis://u:{SECRET}@127.0.0.1:{port.number}")
    finally:
        port.close()
    assert f"127.0.0.1:{port.number}" in str(caught.value)
    assert "HEADRACE_URL" in str(caught.value)
    assert SECRET not in str(caught.value) + repr(caught.value.__cause__) + caplog.text


def test_no_repr_shows_a_secret() -> None:
    address = address_of(f"redis+sentinel://u:{SECRET}@h/s?sentinel_password={SECRET}")
    assert SECRET not in repr(address) + repr(address.way_in) + repr(address.seeds)


def test_url_and_connection_exclude_each_other() -> None:
    with pytest.raises(OptionError, match="not both"):
        open_site("redis://h", connection=object())
