"""The quota of a run on a real Ray cluster: an actor for each account, which nodes reach directly and may be killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.ray_cluster import RayCluster

PROGRAM = """
import asyncio, json, os, signal, sys
from pathlib import Path
import ray
from agentv.engine.cluster.ray_quota import NodeQuota, RayQuota
from agentv.scoring.keys.identity import digest
from agentv.types.errors import QuotaError
from agentv.types.protocols import Amounts, QuotaLimits, QuotaRequest

class Driver:
    requests = 0
    def __init__(self, quota):
        self.quota = quota
    async def exchange(self, request):
        self.requests += 1
        return await self.quota.exchange(request)

def request(account, lease, least=Amounts(), wanted=None, hold_s=0.0):
    limits = QuotaLimits(usd=1.0) if account.startswith("budget") else QuotaLimits(requests=60)
    return QuotaRequest(account=account, holder="n", lease=lease, limits=limits, least=least, wanted=wanted or least,
                        hold_s=hold_s)

async def killed(account):
    actor = ray.get_actor(f"agentv-quota-run-{digest(account)}")
    os.kill(await actor.__ray_call__.remote(lambda self: os.getpid()), signal.SIGKILL)

async def patiently(node, request):
    refusals = set()
    while True:
        try:
            return await node.exchange(request), refusals
        except QuotaError as error:
            refusals.add(str(error))
            await asyncio.sleep(0.05)

async def main(folder, is_over):
    quota = RayQuota("run", Path(folder, "quota"), is_over=lambda: is_over == "over")
    driver = Driver(quota)
    one, other = NodeQuota("run", driver), NodeQuota("run", driver)
    said = {}
    said["granted"] = (await one.exchange(request("account", "a", Amounts(1)))).granted.requests
    said["money"] = (await one.exchange(request("budget b", "m", Amounts(usd=0.6)))).granted.usd
    await other.exchange(request("account", "b"))
    said["requests to the driver"] = driver.requests
    await killed("budget b")
    grant, said["refusals"] = await patiently(one, request("budget b", "n", Amounts(usd=0.1), Amounts(usd=1.0)))
    said["money after the kill"] = grant.granted.usd
    await other.exchange(request("account", "c", hold_s=30.0))
    await killed("account")
    said["wait after the refusal"] = (await patiently(one, request("account", "d", Amounts(1))))[0].wait_s
    await quota.aclose()
    Path(folder, "said.json").write_text(json.dumps(said, default=sorted))

ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
asyncio.run(main(*sys.argv[2:]))
"""


def said_by(cluster: RayCluster, folder: Path, is_over: str) -> Any:
    words = cluster.command(sys.executable, "-c", PROGRAM, cluster.address, str(folder), is_over)
    env = {**cluster.env, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}  # as for a run; else workers would start with `uv run`
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "said.json").read_text())


@pytest.fixture(scope="module")
def runs(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What a driver said that was not at the end of its run, then what the one said that resumed it."""
    folder = tmp_path_factory.mktemp("run")
    said = [said_by(cluster, folder, "to be resumed"), said_by(cluster, folder, "over")]
    assert not (folder / "quota").exists()
    return said


def test_a_quota_whose_actors_are_killed_goes_on_where_it_was(runs: list[Any]) -> None:
    said, _ = runs
    assert (said["granted"], said["money"]) == (1, 0.6)
    assert said["requests to the driver"] == 2, "once for each account; the other node finds the actor"
    assert said["refusals"] == ["the quota of the run does not answer: its process cannot be reached"]
    assert abs(said["money after the kill"] - 0.4) < 1e-9
    assert 15 < said["wait after the refusal"] <= 30


def test_a_resume_knows_the_last_minute_but_not_the_money(runs: list[Any]) -> None:
    _, again = runs
    assert (again["granted"], again["money"]) == (0, 0.6), "held since the refusal; money is known from the rows"
