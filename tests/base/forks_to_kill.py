"""Run scripts in forks of a process that has imported everything, and kill them on request.

    python tests/base/forks_to_kill.py

Each line of standard input is a JSON object with the arguments of `run_and_kill`; each line of
output is its result. Importing TensorFlow takes seconds, a fork takes milliseconds. The forks are
safe because this process has not run any TensorFlow operation and has no TensorFlow threads.
"""

import json
import os
import pathlib
import signal
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

# Functions that change the file system. A fork can be killed before any of them.
_OPERATIONS = ["replace", "remove", "unlink", "rmdir", "mkdir"]


def run_and_kill(run, script, arguments, log, seconds=None, operation=None):
    """Run a script in a fork.

    Args:
      run: function that runs a script.
      script: its name, "fetch" for `checkpoints.fetch`, or "fit" for `fit`.
      arguments: its command line, a list.
      log: file that its output is appended to.
      seconds: time after which to kill it; None for never.
      operation: the fork kills itself before the file system operation with this number.

    Returns:
      Dict with the exit `status` (negative if killed), the elapsed `seconds` and the number of file
      system `operations`.
    """
    start = time.monotonic()
    reader, writer = os.pipe()
    if not (child := os.fork()):
        _run(run, script, arguments, log, operation, writer)
    os.close(writer)
    ended = 0
    while not ended:
        ended, status = os.waitpid(child, os.WNOHANG)
        if not ended and seconds is not None and time.monotonic() - start > seconds:
            os.kill(child, signal.SIGKILL)
            seconds = None
        time.sleep(0.001)
    with os.fdopen(reader) as results:
        operations = int(results.read() or 0)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "seconds": time.monotonic() - start,
        "operations": operations,
    }


def _run(run, script, arguments, log, operation, results):
    """Run the script in the fork, then exit the process."""
    status = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        count = _count_operations(operation)
        run(script, *arguments)
        os.write(results, str(count[0]).encode())
        status = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def _count_operations(last):
    """Return a list that holds the running count of file system operations.

    Opening a file for writing counts as well as `_OPERATIONS`. The process kills itself before
    operation number `last`.
    """
    from bert_tf.io import files

    count, process = [0], os.getpid()

    def counted(function):
        def call(*arguments, **options):
            mode = arguments[1] if len(arguments) > 1 else ""
            if function is not open or (isinstance(mode, str) and mode[:1] in ("w", "a")):
                count[0] += os.getpid() == process
                if count[0] == last:
                    os.kill(process, signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for name in _OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))
    files.Local.remove = staticmethod(os.remove)
    files.Local.GFile = staticmethod(counted(open))
    return count


def fit(preset, output):
    """Train a classifier for 4 epochs of 5 steps in a folder, and write the history there."""
    import keras

    import bert_tf

    keras.utils.set_random_seed(0)  # a process may be killed before it saves the random head
    classifier = bert_tf.TextClassifier.from_preset(preset, ["x", "y"], max_seq_length=8)
    data = [f"{'abcd'[i % 4]} {'abcdefgh'[i % 8]}" for i in range(20)], ["x", "y"] * 10
    history = classifier.fit(
        *data, validation_data=data, output_dir=output, epochs=4, batch_size=4,
        save_checkpoints_steps=3,
    )  # fmt: skip
    text = json.dumps([history.epoch, history.history])
    pathlib.Path(output, "history.json").write_text(text)


def main():
    import bert_tf
    from bert_tf import checkpoints, serving, training  # noqa: F401  imported before the forks
    from bert_tf.tasks import registry  # noqa: F401
    from tests import scripts_alone

    scripts = ["create_pretraining_data", "run_pretraining", "run_classifier", "export_model"]
    scripts += ["bert-tf convert", "bert-tf vocab learn"]
    bert_tf.console.show()
    with scripts_alone.imported(*scripts) as run_script:

        def run(script, *arguments):
            if script == "fetch":
                name, os.environ["BERT_TF_CACHE"], os.environ["BERT_TF_MODELS_URL"] = arguments
                checkpoints.fetch(name)
            elif script == "fit":
                fit(*arguments)
            else:
                run_script(script, *arguments)

        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(run_and_kill(run, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
