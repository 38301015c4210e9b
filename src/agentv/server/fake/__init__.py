"""A server that speaks the model APIs and needs no key: for tests, and for trying a suite."""

from agentv.server.fake.conversation import Question, Reply, ToolUse
from agentv.server.fake.faults import FAULTS
from agentv.server.fake.log import Call, fingerprint
from agentv.server.fake.quota import Quota
from agentv.server.fake.server import FakeServer, Received

__all__ = ["FAULTS", "Call", "FakeServer", "Question", "Quota", "Received", "Reply", "ToolUse", "fingerprint"]
