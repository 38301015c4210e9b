"""Fixtures of the tests of the Python API."""

from tests.support.fake_server import fake_server

__all__ = ["fake_server"]
