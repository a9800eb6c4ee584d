"""A server that imports modules once and runs each script in a fork of its process.

Importing TensorFlow takes seconds, a fork takes milliseconds. The forks are safe because the server
has not run any TensorFlow operation and has no TensorFlow threads. A fork runs a script as `python`
would, with the arguments, folder, environment and open files of the caller. If the environment has
BERT_TF_TEST_KILL=N, the fork kills itself before its file system operation number N.
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

_PRELOADED = ("tensorflow", "keras", "tensorflow_text", "sklearn.metrics", "bert_tf.training",
              "bert_tf.serving", "bert_tf.tasks.registry")  # fmt: skip

# Audit events of functions that change the file system.
_OPERATIONS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}


@contextlib.contextmanager
def serving(address, environment, modules=_PRELOADED):
    """Run the server while the block runs; `address` is the path of its socket."""
    command = [sys.executable, __file__, address, *modules]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"ready\n"
            yield
        finally:
            server.kill()


def start(address, words, folder, environment, files):
    """Start a script in a fork, and return (its process id, the connection with its result).

    `words` are the arguments of `python`, and `files` the descriptors of its standard files.
    """
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    request = json.dumps([words, str(folder), environment]).encode()
    descriptors = array.array("i", files).tobytes()
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
    connection.sendmsg([b"%10d" % len(request)], ancillary)
    connection.sendall(request)
    return int(connection.recv(10, socket.MSG_WAITALL)), connection


def wait(connection):
    """Return (exit status, number of file system operations) of a fork."""
    with connection:
        reply = connection.recv(100)
    return tuple(map(int, reply.split())) if reply else (-signal.SIGKILL, 0)


def _serve(address, *modules):
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
                _run(connection)
            connection.close()


def _run(connection):
    """Run a script for a client, send its result, and exit."""
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
    connection.sendall(b"%10d" % os.getpid())
    last = os.environ.pop("BERT_TF_TEST_KILL", None)
    count = [0] if last is None else _count_operations(int(last))
    status = 0
    try:
        _run_script(words)
        atexit._run_exitfuncs()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    connection.sendall(f"{status} {count[0]}".encode())
    os._exit(status)


def _run_script(words):
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


def _count_operations(last):
    """Return a list that holds the running count of file system operations.

    Opening a file for writing counts as well as `_OPERATIONS`. The process kills itself before
    operation number `last`.
    """
    count, process = [0], os.getpid()

    def audit(event, arguments):
        is_writing = event == "open" and str(arguments[1])[:1] in ("w", "a")
        if (is_writing or event in _OPERATIONS) and os.getpid() == process:
            count[0] += 1
            if count[0] == last:
                os.kill(process, signal.SIGKILL)

    sys.addaudithook(audit)
    return count


if __name__ == "__main__":
    _serve(*sys.argv[1:])
