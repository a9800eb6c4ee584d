"""Process-wide settings: TensorFlow's start-up messages, and the memory of training."""

import contextlib
import ctypes
import glob
import importlib
import os
import sys
import tempfile

from bert_tf import console

# Show only errors, unless the user has set a level; 0 shows everything.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def import_tensorflow():
    """Import TensorFlow, list its devices, and return it.

    TensorFlow prints lines about oneDNN and missing GPUs at any TF_CPP_MIN_LOG_LEVEL
    (tensorflow/tensorflow issue 100442). They are hidden, unless the level is 0.
    """
    shows_all = os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
    with contextlib.nullcontext() if shows_all else _hidden_standard_error():
        tensorflow = importlib.import_module("tensorflow")
        tensorflow.config.list_physical_devices()
    return tensorflow


@contextlib.contextmanager
def _hidden_standard_error():
    """Redirect standard error to a file, and show the file if an exception is raised."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 2)
        try:
            yield
        except BaseException:
            hidden.seek(0)
            os.write(stderr, hidden.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


_GPUS = "/dev/nvidia[0-9]*"


def warn_of_unused_gpu():
    """Warn about a GPU that TensorFlow cannot use; its own message is hidden."""
    if not glob.glob(_GPUS) or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return
    if not importlib.import_module("tensorflow").config.list_physical_devices("GPU"):
        console.warning(
            "TensorFlow cannot use the GPU of this machine; TF_CPP_MIN_LOG_LEVEL=0 shows why"
        )


# Parameters of glibc's `mallopt`, from <malloc.h>.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def keep_freed_memory():
    """Make the C library of Linux reuse freed memory instead of returning it to the kernel.

    A training step allocates buffers of up to 100 MB, whose pages the kernel would map and clear in
    every step, which took about 4 % of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # musl has no such function
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_M_TOP_PAD, 2**26)
