"""Protection of a run: one process for a folder, and saving before the machine is taken away."""

import contextlib
import os
import signal
import threading

from bert_tf import console, files
from bert_tf.errors import Stopped
from bert_tf.training import checkpointing

# The folders that this process has locked.
_HELD: set[str] = set()


@contextlib.contextmanager
def exclusive_directory(output_dir, workers=None):
    """Lock a folder for this process; UserError if another process trains there.

    With several `workers` the chief locks it. The kernel releases the lock when the process ends,
    however that happens. Object stores such as `gs://` have no locks, which is logged. Within the
    block the same folder may be locked again.
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
    """Turns SIGTERM (a machine is taken away) and Ctrl-C into a request that the loop checks.

    >>> with PreemptionHandler() as preemption:
    ...     while not preemption.signal:
    ...         step()

    A second Ctrl-C stops immediately.
    """

    signals = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.signal = None
        self._before = {}

    def __enter__(self):
        # Python handles signals in the main thread only.
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
        """Raise `Stopped`, after the state at `step` was saved."""
        by = self.signal.name if self.signal else "another worker's signal"
        raise Stopped(
            f"stopped by {by} at step {step}, which is saved; run the same command to continue",
            130 if self.signal == signal.SIGINT else Stopped.RESUME_ME,
        )
