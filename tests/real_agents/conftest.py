import os

import pytest
from tests.real_agents.agents import AGENTS
from tests.real_agents.install import install, program_of


def installed(name: str) -> str:
    """Return the name of an agent whose program is there; skip the test unless it is, or AGENTV_REAL_AGENTS=1."""
    if not program_of(name).exists():
        if os.environ.get("AGENTV_REAL_AGENTS") != "1":
            pytest.skip(
                f"{program_of(name)} is not there: run tests/real_agents/install.py, or set AGENTV_REAL_AGENTS=1"
            )
        install(name)
    return name


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    """One agent after the other, where it is installed."""
    return installed(request.param)
