"""Run the scripts from Python and show their commands, for the quick start and notebooks."""

import os
import shlex
import subprocess
import sys
import sysconfig

from bert_tf.errors import UserError

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(script, **options):
    """Run a script in a new process; print its command and its output.

    Where `sys.stdout` is not the standard output of the process, as in a notebook, the output of
    the script is copied to `sys.stdout` line by line.

    Args:
      script: name of a script, "run_classifier.py", or "-m MODULE".
      **options: the flags by name; True means a flag without a value.

    Raises:
      UserError: if the exit status is not 0.
    """
    command = script.split() if script.startswith("-m ") else [_find_script(script)]
    command += [f"--{k}" if v is True else f"--{k}={v}" for k, v in options.items()]
    print("$ " + _format_command(["python", *command]) + "\n", flush=True)
    status = _run([sys.executable, *command])
    if status:
        raise UserError(f"{script} ended with exit status {status}")


def environment():
    """Return environment variables with which a new process can import this copy of bert_tf."""
    paths = [_ROOT, os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _run(command):
    if sys.stdout is sys.__stdout__:
        return subprocess.run(command, env=environment()).returncode
    process = subprocess.Popen(
        command,
        env={**environment(), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
        return process.wait()
    finally:
        # A notebook cell was interrupted. SIGTERM lets a training run save first.
        if process.poll() is None:
            process.terminate()


def _find_script(script):
    """Return the path of a script, in a clone of the repository or where pip installs scripts."""
    path = os.path.join(_ROOT, script)
    path = path if os.path.exists(path) else os.path.join(sysconfig.get_path("scripts"), script)
    return min(path, os.path.relpath(path), key=len)


def _format_command(command):
    """Return the command as a shell would take it, with each flag on its own line."""
    return " ".join(
        f"\\\n    {shlex.quote(word)}" if word.startswith("--") else shlex.quote(word)
        for word in command
    )
