"""The workers of TF_CONFIG: validation, and waiting until all of them are started."""

import contextlib
import functools
import json
import os
import re
import signal
import socket
import threading
import time

import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError, reason, shown

# Maximum time to wait for the other workers.
WAIT_SECONDS = 600.0


def read_tf_config():
    """Return the names of all workers, the chief first, and the name of this worker.

    Without a cluster in TF_CONFIG, they are () and None.

    A name is a job and an address, such as "worker host1:2222". Platforms add other keys than
    `cluster` and `task` to TF_CONFIG.
    """
    text = os.environ.get("TF_CONFIG", "").strip() or "{}"
    problem = "a different structure"
    with contextlib.suppress(LookupError, ValueError, TypeError, AttributeError):
        values = json.loads(text)
        cluster = values.get("cluster", {})
        if cluster == {}:
            return (), None
        names = tuple(f"{job} {x}" for job in ("chief", "worker") for x in cluster.get(job, ()))
        problem = "a task that is not in the cluster"
        job, index = values["task"]["type"], int(values["task"]["index"])
        own = f"{job} {dict(enumerate(cluster[job]))[index]}"
        wrong = [x for x in names if not re.fullmatch(r"\w+ \S+:[1-9]\d{0,4}", x)]
        problems = {
            "a job that is neither chief nor worker": cluster.keys() - {"chief", "worker"},
            "several chiefs": len(cluster.get("chief", ())) > 1,
            "an address that is not host:port": wrong,
            "an address twice": len({x.split()[-1] for x in names}) < len(names),
        }
        problem = next(filter(problems.get, problems), None)
    if problem:
        raise UserError(
            f"TF_CONFIG: found {problem} in {shown(text, 200)}, expected "
            '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}; '
            "there are no evaluators, because workers also evaluate"
        )
    return names, own


@functools.cache  # once, because TensorFlow's server then uses the port
def wait_for_workers(workers, own):
    """Return when all `workers` have called this function; `own` is the caller.

    TensorFlow would wait without a message, and without handling Ctrl-C and SIGTERM. The first
    worker listens on its port and sends the others the names of the missing workers, a line of
    JSON, about every second until all are connected.

    Raises:
      OSError: if some workers are missing after `WAIT_SECONDS`, or the port cannot be used.
    """
    deadline, logged = time.monotonic() + WAIT_SECONDS, None
    dual = {"family": socket.AF_INET6, "dualstack_ipv6": True}
    dual = dual if socket.has_dualstack_ipv6() else {}
    with socket.create_server(("", _host_and_port(own)[1]), **dual) as server:
        states = _lead(server, workers) if own == workers[0] else _follow(workers[0], own)
        for missing in iter(states.__next__, []):
            if missing != logged:
                console.info("waiting for %s", ", ".join(missing))
            logged = missing
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {WAIT_SECONDS:.0f} seconds for {', '.join(missing)}")


def _host_and_port(worker):
    host, _, port = worker.split()[1].rpartition(":")
    return host.strip("[]"), int(port)


def _lead(server, workers):
    """Yield the missing workers, about once a second, and send them to those that are connected."""
    connections = {}
    server.settimeout(1)
    with contextlib.ExitStack() as stack:
        while True:
            with contextlib.suppress(OSError):
                connection = stack.enter_context(server.accept()[0])
                connection.settimeout(1)
                connections[connection.recv(1000).decode(errors="replace")] = connection
            missing = [name for name in workers[1:] if name not in connections]
            for name, connection in [*connections.items()]:
                try:
                    connection.sendall(json.dumps(missing).encode() + b"\n")
                except OSError:  # the worker has ended
                    del connections[name]
                    missing = [*missing, name]
            yield missing


def _follow(leader, own):
    """Yield the missing workers that `leader` sends, or `leader` until it answers."""
    while True:
        # A server of TensorFlow that is left from an earlier run sends no JSON.
        with contextlib.suppress(OSError, ValueError):
            connection = socket.create_connection(_host_and_port(leader), timeout=5)
            with connection, connection.makefile() as lines:
                connection.sendall(own.encode())
                yield from map(json.loads, lines)
        yield [leader]
        time.sleep(1)


@contextlib.contextmanager
def connecting(name="TF_CONFIG"):
    """Name an option in the errors of the context, which connects the workers.

    Also restores the handler of SIGTERM, which TensorFlow and JAX replace when they connect.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except (tf.errors.OpError, ValueError, RuntimeError, OSError, OverflowError) as error:
        raise UserError(f"{name}: cannot connect to other workers ({reason(error)})") from error
    finally:
        if threading.current_thread() is threading.main_thread():  # others cannot set it
            signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
