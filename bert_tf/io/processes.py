"""A parallel `map` that preserves order and reads its input as needed."""

import collections
import gc
import os
import signal
import sys
import threading
import time

from bert_tf.errors import UserError


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def shared_map(function, items, num_processes, fork=True):
    """Yield `function(item)` for each item, in order, computed in worker processes.

    One process computes in this process. `fork` must be False if `function` uses TensorFlow, whose
    threads do not survive a fork. Exceptions are raised here, UserError if a worker is killed.
    """
    if num_processes == 1:
        yield from map(function, items)
        return
    import concurrent.futures
    import multiprocessing

    # Forked workers need no imports, which take seconds. Where forks are not safe, workers start a
    # new interpreter.
    method = "fork" if fork and sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    # Shared memory instead of an event, whose locks a killed worker might hold.
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
    global _function
    _function = function
    # A fork must not garbage-collect TensorFlow's objects, because it does not have their threads.
    gc.freeze()

    def watch_parent():
        # A killed parent cannot stop its workers, which would keep its locks.
        while os.getppid() == parent and not stop.value:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()
    # Ctrl-C reaches every process; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(item):
    return _function(item)
