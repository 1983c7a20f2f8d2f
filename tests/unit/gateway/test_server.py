"""The listening socket: where it says it is, and what it refuses."""

from __future__ import annotations

import socket

import pytest

from services.gateway.server import bind, url_of


def test_bind_takes_a_free_port() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert port != 0
        assert url_of(listener) == f"http://127.0.0.1:{port}"


def test_bind_to_every_address_is_reached_by_loopback() -> None:
    with bind("0.0.0.0", 0) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")


@pytest.mark.skipif(not socket.has_ipv6, reason="this system has no IPv6")
def test_bind_writes_ipv6_in_brackets() -> None:
    with bind("::1", 0) as listener:
        assert url_of(listener).startswith("http://[::1]:")


def test_bind_refuses_a_taken_port() -> None:
    with bind("127.0.0.1", 0) as listener, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", listener.getsockname()[1])
