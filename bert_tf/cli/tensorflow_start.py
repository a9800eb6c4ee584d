"""Process-wide settings: TensorFlow's start-up messages, and the memory of training."""

import ctypes
import glob
import importlib
import os
import sys

from bert_tf import console

_GPUS = "/dev/nvidia[0-9]*"


def import_tensorflow():
    """Import TensorFlow and list its devices, without its messages.

    Warn about a GPU that it cannot use, unless Keras uses another backend.
    """
    with console.without_tensorflow_messages():
        found = import_quickly().config.list_physical_devices("GPU")
    expected = glob.glob(_GPUS) and os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
    if expected and not found and os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        console.warning(
            "TensorFlow cannot use the GPU of this machine; TF_CPP_MIN_LOG_LEVEL=0 shows why"
        )


def import_quickly():
    """Import TensorFlow, and Keras without scikit-learn, which takes a sixth of the time.

    Keras needs scikit-learn only for `keras.wrappers`, which no script uses.
    """
    is_hidden = sys.modules.setdefault("sklearn", None) is None
    tensorflow = importlib.import_module("tensorflow")
    if is_hidden:
        del sys.modules["sklearn"]
    return tensorflow


def cache_programs_of_jax():
    """Set the variables with which JAX caches compiled programs on disk, unless they are set.

    With no minimum compile time, programs that compile in less than a second are also cached; a run
    has hundreds of them.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(cache, "bert_tf", "jax"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


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
