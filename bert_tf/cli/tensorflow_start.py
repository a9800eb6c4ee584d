"""The import of TensorFlow without what it prints at every start; its other messages are shown."""

import contextlib
import glob
import importlib.machinery
import os
import re
import signal
import sys

from bert_tf import console

# Only errors. What the user has set takes precedence; 0 shows everything.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# What TensorFlow's C++ code prints before its logging is set up, at any TF_CPP_MIN_LOG_LEVEL
# (tensorflow/tensorflow issue 100442): that it uses oneDNN, and that there is no GPU; see
# `warn_of_unused_gpu`.
_NOISE = re.compile(rb"I0000 |WARNING: All log messages before absl|.* failed call to cuInit: ")


@contextlib.contextmanager
def _without_noise():
    """Leave out these lines of standard error; other lines are printed."""
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0" or not hasattr(os, "fork"):
        yield
        return
    reader, writer = os.pipe()
    sys.stderr.flush()
    # A process of its own also prints what is written before TensorFlow ends this one.
    if not (child := os.fork()):
        os.close(writer)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with open(reader, "rb") as lines:
            for line in lines:
                if not _NOISE.match(line):
                    os.write(2, line)
        os._exit(0)
    os.close(reader)
    stderr = os.dup(2)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.waitpid(child, 0)


class _TensorFlowFinder:
    """Finds TensorFlow for the first import, in a library or a worker process, too."""

    @staticmethod
    def find_spec(name, path, target=None):
        if name != "tensorflow":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                with _without_noise():
                    run(module)
                _set_log_level(module)

            spec.loader.exec_module = exec_module
        return spec


if "tensorflow" not in sys.modules:
    sys.meta_path.insert(0, _TensorFlowFinder)


def import_tensorflow():
    """Import TensorFlow and find its devices, without messages about them."""
    if "tensorflow" not in sys.modules:
        tensorflow = importlib.import_module("tensorflow")
        with _without_noise():
            tensorflow.config.list_physical_devices()


def _set_log_level(tensorflow):
    """Make TensorFlow 2.20 heed TF_CPP_MIN_LOG_LEVEL in all of its C++ code, as 2.21 does."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError, ValueError):
        path = os.path.join(tensorflow.sysconfig.get_lib(), "libtensorflow_framework.so.2")
        level = int(os.environ["TF_CPP_MIN_LOG_LEVEL"])
        # absl::SetMinLogLevel of the version of absl that 2.20 contains.
        ctypes.CDLL(path)._ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE(level)


# The GPUs of a machine with a driver of NVIDIA.
_GPUS = "/dev/nvidia[0-9]*"


def warn_of_unused_gpu():
    """Warn if TensorFlow, whose own messages are not shown, cannot use the GPU of this machine."""
    if not glob.glob(_GPUS) or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return
    if not importlib.import_module("tensorflow").config.list_physical_devices("GPU"):
        console.warning(
            "TensorFlow cannot use the GPU of this machine; TF_CPP_MIN_LOG_LEVEL=0 shows why"
        )
