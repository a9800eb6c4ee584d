"""Run scripts from Python, as the quick start and the notebooks do."""

import os
import shlex
import subprocess
import sys
import sysconfig

from bert_tf.errors import UserError

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(script, start=None, **options):
    """Run a script in a new process, and print its command and its output.

    `script` is a file, such as "run_classifier.py", or "-m MODULE"; `options` are flags by name,
    True for a flag without a value. If `sys.stdout` was replaced, as in a notebook, the output goes
    there. `start` is a function that runs a command and returns its exit status.
    """
    command = script.split() if script.startswith("-m ") else [_find_script(script)]
    command += [f"--{k}" if v is True else f"--{k}={v}" for k, v in options.items()]
    words = (f"\\\n    {shlex.quote(x)}" if x.startswith("--") else shlex.quote(x) for x in command)
    print("$ python " + " ".join(words) + "\n", flush=True)
    if status := (start or _run)([sys.executable, *command]):
        raise UserError(f"{script} exited with status {status}")


def environment():
    """Return the environment for a new process that imports this copy of bert_tf."""
    paths = [_ROOT, os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _run(command):
    if sys.stdout is sys.__stdout__:
        return subprocess.run(command, env=environment()).returncode
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    env = {**environment(), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, env=env, text=True, errors="replace", **pipes)
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
        return process.wait()
    finally:
        # If a notebook cell is interrupted. SIGTERM lets a training run save its state.
        if process.poll() is None:
            process.terminate()


def _find_script(script):
    path = os.path.join(_ROOT, script)
    path = path if os.path.exists(path) else os.path.join(sysconfig.get_path("scripts"), script)
    return min(path, os.path.relpath(path), key=len)
