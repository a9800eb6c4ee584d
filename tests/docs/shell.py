"""Bash in which `python` and `bert-tf` start immediately, to run the commands of the pages.

A server imports TensorFlow once and forks a child for each command. The child gets the arguments,
folder, environment and open files of the command and runs the script as `python` would.
"""

import array
import atexit
import contextlib
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import traceback

_PRELOADED = ("tensorflow", "keras", "tensorflow_text", "sklearn.metrics", "bert_tf.training")

# Sends a command to the server and exits with its status. Other programs run here.
_CLIENT = """\
import array, json, os, socket, sys
words = @WORDS + sys.argv[1:]
is_ours = words[0] == "-m" and words[1].startswith(("bert_tf", "examples"))
if not (words[0].endswith(".py") or is_ours):
    os.execv(@PYTHON, [@PYTHON, *words])
server = socket.socket(socket.AF_UNIX)
server.connect(@ADDRESS)
request = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
files = array.array("i", [0, 1, 2]).tobytes()
server.sendmsg([b"%10d" % len(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
server.sendall(request)
sys.exit(int(server.recv(10) or 70))
"""


@contextlib.contextmanager
def bash(folder, environment, extra_flags):
    """Yield a function that runs the text of a block in a folder and returns its output.

    It raises AssertionError with the output if the exit status of a command is not 0.

    Args:
      folder: `pathlib.Path` of the folder that the blocks run in; `folder.parent` is used too.
      environment: dict of environment variables to add.
      extra_flags: dict from a script, such as "run_squad.py" or "bert-tf vocab learn", to flags
        that are added to its own.
    """
    programs, address = folder.parent / "programs", str(folder.parent / "server")
    programs.mkdir()
    for name, words in {"python": [], "bert-tf": ["-m", "bert_tf"]}.items():
        text = _CLIENT.replace("@WORDS", repr(words)).replace("@ADDRESS", repr(address))
        text = text.replace("@PYTHON", repr(sys.executable))
        (programs / name).write_text(f"#!{sys.executable} -SE\n{text}")
        (programs / name).chmod(0o755)
    environment = {**os.environ, **environment, "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    flags = json.dumps(extra_flags)
    command = [sys.executable, __file__, address, flags, *_PRELOADED]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"ready\n"

            def run(text):
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment,
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    text=True, errors="replace", timeout=900,
                )  # fmt: skip
                assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-3000:]}"
                return done.stdout

            yield run
        finally:
            server.kill()


def _serve(address, extra_flags, *modules):
    for module in modules:
        importlib.import_module(module)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped automatically
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                _run(connection, extra_flags)
            connection.close()


def _run(connection, extra_flags):
    """Run a client's command, send its exit status, and exit."""
    descriptors = array.array("i")
    size, ancillary, _, _ = connection.recvmsg(10, socket.CMSG_LEN(3 * descriptors.itemsize))
    descriptors.frombytes(ancillary[0][2])
    request = b""
    while len(request) < int(size):
        request += connection.recv(1 << 16)
    words, folder, environment = json.loads(request)
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    status = 0
    try:
        _run_script(words, extra_flags)
        atexit._run_exitfuncs()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    connection.sendall(str(status).encode())
    os._exit(status)


def _run_script(words, extra_flags):
    name, *rest = words
    if name == "-m":
        name, *rest = rest
        command = f"bert-tf {' '.join(rest)} "
        script = next((x for x in extra_flags if command.startswith(f"{x} ")), "")
        sys.argv = [name, *rest, *extra_flags.get(script, ())]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [name, *rest, *extra_flags.get(name, ())]
        sys.path.insert(0, os.path.dirname(os.path.realpath(name)))
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    _serve(sys.argv[1], json.loads(sys.argv[2]), *sys.argv[3:])
