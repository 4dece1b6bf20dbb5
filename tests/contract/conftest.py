"""Fixtures for the contract tests."""

from __future__ import annotations

from tests.queues.fixtures import app, clock, dirty, hands, namespace, place, timed

__all__ = ["app", "clock", "dirty", "hands", "namespace", "place", "timed"]
