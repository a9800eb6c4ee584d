"""Workers on simulated machines: network namespaces connected by a bridge.

Creating namespaces needs root's rights.
"""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from tests.training.training_helpers import assert_same, log, run, wait_for_first_step

pytestmark = pytest.mark.slow

_PREFIX = f"bt{os.getpid() % 10000}"


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], check=check, capture_output=True)


class Network:
    """A bridge, and a namespace with an address for each machine."""

    def __init__(self, count):
        self.count = count
        self.hub = f"{_PREFIX}h"
        self.names = [f"{_PREFIX}w{i}" for i in range(count)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]

    def __enter__(self):
        for name in (self.hub, *self.names):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            ip("-n", self.hub, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth",
               "netns", name)  # fmt: skip
            ip("-n", self.hub, "link", "set", f"port{i}", "master", "bridge", "up")
            ip("-n", name, "addr", "add", f"{self.addresses[i]}/24", "dev", "eth")
            ip("-n", name, "link", "set", "eth", "up")
        return self

    def __exit__(self, *_):
        for name in (self.hub, *self.names):
            ip("netns", "delete", name, check=False)

    def cut(self, index):
        """Unplug a machine."""
        ip("-n", self.hub, "link", "set", f"port{index}", "down")

    def plug(self, index):
        ip("-n", self.hub, "link", "set", f"port{index}", "up")

    def start(self, folder, options):
        """Start train_alone.py on each machine, with a common output folder and separate logs."""
        script = os.path.join(os.path.dirname(__file__), "train_alone.py")
        cluster = {"worker": [f"{address}:2222" for address in self.addresses]}
        processes = []
        for i, name in enumerate(self.names):
            task = {"cluster": cluster, "task": {"type": "worker", "index": i}}
            logs = folder / f"worker{i}"
            logs.mkdir(exist_ok=True)
            command = ["ip", "netns", "exec", name, sys.executable, script]
            with open(logs / "log", "a") as output:
                processes.append(subprocess.Popen(
                    [*command, str(folder / "run"), json.dumps(options)],
                    stdout=output, stderr=output, env={**os.environ, "TF_CONFIG": json.dumps(task)},
                ))  # fmt: skip
        return processes


@pytest.fixture
def network():
    """A function `network(count)` that makes machines; without the rights the test is skipped."""
    if not shutil.which("ip") or ip("netns", "add", f"{_PREFIX}t", check=False).returncode:
        pytest.skip("network namespaces cannot be made")
    ip("netns", "delete", f"{_PREFIX}t")
    made = []

    def make(count):
        made.append(Network(count).__enter__())
        return made[-1]

    yield make
    for each in made:
        each.__exit__()


def test_an_unplugged_machine_ends_the_others_and_the_run_is_resumed(network, tmp_path):
    """The others exit with one sentence within a minute; the resumed run has the same weights."""
    options = {"steps": 400, "total": 400, "save": 50, "seconds_per_loop": 0.05}
    run(tmp_path / "one", 400, total=400, save=50)
    machines = network(2)
    processes = machines.start(tmp_path, options)
    wait_for_first_step(tmp_path, processes)
    start = time.monotonic()
    machines.cut(1)
    status = processes[0].wait(200)
    assert time.monotonic() - start < 60
    lines = log(tmp_path / "worker0").splitlines()
    assert status and "another worker was lost" in lines[-1], lines[-5:]
    assert processes[1].wait(60)
    machines.plug(1)
    assert [process.wait(200) for process in machines.start(tmp_path, options)] == [0, 0]
    assert_same(tmp_path / "one", tmp_path / "run", atol=1e-4)
