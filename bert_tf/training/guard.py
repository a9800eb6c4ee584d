"""What keeps a run from harm: one process for a folder, and time to save before it is stopped."""

import contextlib
import os
import signal
import threading

from bert_tf import console, files
from bert_tf.errors import Stopped
from bert_tf.training import checkpointing

# The folders that this process holds.
_HELD: set[str] = set()


@contextlib.contextmanager
def exclusive_directory(output_dir, workers=None):
    """Holds a folder for this process; UserError if another one trains there.

    Of several `workers` that train together it is the chief that holds it.

    The lock is the kernel's, so it is gone when the process is, however it ends. On `gs://` and
    other object stores there is no such lock, and a line says so. Within the block the same folder
    may be held again.
    """
    folder = output_dir if "://" in output_dir else os.path.realpath(output_dir)
    if folder in _HELD or (workers is not None and not workers.is_chief):
        yield
        return
    files.make_folder(output_dir)
    with files.locked(output_dir, "output_dir", "trains"):
        files.remove_temporary_files(output_dir)
        files.remove_temporary_files(os.path.join(output_dir, checkpointing.BEST))
        _HELD.add(folder)
        try:
            yield
        finally:
            _HELD.remove(folder)


class PreemptionHandler:
    """Turns SIGTERM (a machine is taken away) and Ctrl-C into a request that the loop sees.

    >>> with PreemptionHandler() as stopper:
    ...     while not stopper.signal:
    ...         step()

    A second Ctrl-C stops at once.
    """

    signals = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.signal = None
        self._before = {}

    def __enter__(self):
        # Python takes signals in the main thread only.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self.signals}
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number, _):
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        console.info("%s: finishing the step and saving", self.signal.name)

    def stop(self, step):
        """Ends the run, whose state at `step` is saved."""
        by = self.signal.name if self.signal else "another worker's signal"
        raise Stopped(
            f"stopped by {by} at step {step}, which is saved; the same command goes on from there",
            130 if self.signal == signal.SIGINT else Stopped.RESUME_ME,
        )
