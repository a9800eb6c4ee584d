"""Import TensorFlow without its startup messages."""

import contextlib
import glob
import importlib.machinery
import os
import re
import signal
import sys

from bert_tf import console

# Show only errors, unless the user has set a level; 0 shows everything.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# Lines about oneDNN and missing GPUs. TensorFlow's C++ code prints them before its logging is set
# up, at any TF_CPP_MIN_LOG_LEVEL (tensorflow/tensorflow issue 100442). `warn_of_unused_gpu` warns
# of unusable GPUs instead.
_NOISE = re.compile(rb"I0000 |WARNING: All log messages before absl|.* failed call to cuInit: ")


@contextlib.contextmanager
def _without_noise():
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0" or not hasattr(os, "fork"):
        yield
        return
    reader, writer = os.pipe()
    sys.stderr.flush()
    # A child process filters the lines, so that none are lost if TensorFlow ends this process.
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
    """Import finder for the first import of TensorFlow, which may be in another library."""

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
    """Import TensorFlow and list its devices, without the lines that match `_NOISE`."""
    if "tensorflow" not in sys.modules:
        tensorflow = importlib.import_module("tensorflow")
        with _without_noise():
            tensorflow.config.list_physical_devices()


def _set_log_level(tensorflow):
    """Apply TF_CPP_MIN_LOG_LEVEL to all C++ code of TensorFlow 2.20, as in 2.21."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError, ValueError):
        path = os.path.join(tensorflow.sysconfig.get_lib(), "libtensorflow_framework.so.2")
        level = int(os.environ["TF_CPP_MIN_LOG_LEVEL"])
        # absl::SetMinLogLevel in the absl version of TensorFlow 2.20.
        ctypes.CDLL(path)._ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE(level)


_GPUS = "/dev/nvidia[0-9]*"


def warn_of_unused_gpu():
    """Warn about a GPU that TensorFlow cannot use; its own message is hidden."""
    if not glob.glob(_GPUS) or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return
    if not importlib.import_module("tensorflow").config.list_physical_devices("GPU"):
        console.warning(
            "TensorFlow cannot use the GPU of this machine; TF_CPP_MIN_LOG_LEVEL=0 shows why"
        )
