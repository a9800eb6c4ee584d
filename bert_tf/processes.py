"""Work shared out to processes, in order, with no more read ahead than they need."""

import collections
import gc
import os
import signal
import sys
import threading
import time

from bert_tf.errors import UserError


def cores():
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def shared_map(function, items, num_processes, fork=True):
    """Yields `function(item)` for each of the items, in their order.

    Args:
      function: called in the processes; where they do not fork, it must be picklable.
      items: iterable of what can be pickled; it is read as the processes need it.
      num_processes: 1 for this process alone.
      fork: whether they may be forks, where that is safe; False if `function` uses TensorFlow,
        whose threads a fork does not have.

    Raises:
      UserError: if a process was ended from outside. What `function` raises comes here too.
    """
    if num_processes == 1:
        yield from map(function, items)
        return
    import concurrent.futures
    import multiprocessing

    # TensorFlow takes seconds to import and is not needed there: a fork has it without that, and
    # runs none of it. Where forks are not safe, the processes start anew.
    kind = "fork" if fork and sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(kind)
    # Memory that is shared, and no event: a process that was killed can hold the locks of that.
    stop = context.RawValue("b", False)
    pool = concurrent.futures.ProcessPoolExecutor(
        num_processes, context, _start, (function, os.getpid(), stop)
    )
    try:
        waiting = collections.deque()
        for item in items:
            waiting.append(pool.submit(_work, item))
            if len(waiting) > 3 * num_processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except concurrent.futures.process.BrokenProcessPool:
        raise UserError(
            f"`num_processes={num_processes}`: one of these was ended from outside, perhaps for "
            "lack of memory"
        ) from None
    except BaseException:
        # What they are at, which may take minutes, is not wanted any more.
        stop.value = True
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_function = None


def _start(function, parent, stop):
    global _function
    _function = function
    # What the fork has of TensorFlow must not be collected in it: its threads are not here.
    gc.freeze()

    def follow():
        # One that is killed cannot end those that it started, and they would hold its locks.
        while os.getppid() == parent and not stop.value:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    # Ctrl-C goes to all of them; the one that they work for sees to it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(item):
    return _function(item)
