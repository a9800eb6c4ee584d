"""A parallel `map` that keeps the order and reads no more input ahead than it needs."""

import collections
import gc
import os
import signal
import sys
import threading
import time

from bert_tf.errors import UserError


def cores():
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def shared_map(function, items, num_processes, fork=True):
    """Yield `function(item)` for each item, in order, computed in worker processes.

    Args:
      function: called in the workers; must be picklable where the workers are not forked. Its
        exceptions are raised here; a killed worker raises a UserError.
      items: iterable of picklable objects, read as the workers need them.
      num_processes: number of workers, 1 to use this process alone.
      fork: whether workers may be forked where that is safe. False if `function` uses TensorFlow,
        whose threads do not survive a fork.
    """
    if num_processes == 1:
        yield from map(function, items)
        return
    import concurrent.futures
    import multiprocessing

    # TensorFlow takes seconds to import and is not needed in a worker: a fork already has the
    # module and runs none of it. Where forks are not safe, workers start a new interpreter.
    method = "fork" if fork and sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    # Shared memory instead of an event: a worker that was killed may hold the locks of an event.
    stop = context.RawValue("b", False)
    pool = concurrent.futures.ProcessPoolExecutor(
        num_processes, context, _start, (function, os.getpid(), stop)
    )
    try:
        pending = collections.deque()
        for item in items:
            pending.append(pool.submit(_call, item))
            if len(pending) > 3 * num_processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except concurrent.futures.process.BrokenProcessPool:
        raise UserError(
            f"`num_processes={num_processes}`: a worker process was killed, possibly because "
            "memory ran out"
        ) from None
    except BaseException:
        # Do not wait minutes for work that is no longer needed.
        stop.value = True
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_function = None


def _start(function, parent, stop):
    """Initialise a worker process."""
    global _function
    _function = function
    # A fork must not garbage-collect TensorFlow's objects: their threads do not exist in it.
    gc.freeze()

    def watch_parent():
        # A killed parent cannot end its workers, and they would keep holding its locks.
        while os.getppid() == parent and not stop.value:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()
    # Ctrl-C reaches every process; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(item):
    return _function(item)
