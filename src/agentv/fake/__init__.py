"""A server that implements the model APIs and needs no key: for tests, and for trying a suite."""

from agentv.fake.api import Question, Reply, ToolUse
from agentv.fake.faults import FAULTS
from agentv.fake.log import Call, fingerprint
from agentv.fake.quota import Quota
from agentv.fake.server import FakeServer, Received

__all__ = ["FAULTS", "Call", "FakeServer", "Question", "Quota", "Received", "Reply", "ToolUse", "fingerprint"]
