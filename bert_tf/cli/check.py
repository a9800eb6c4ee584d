"""Check the results of this machine's devices.

    bert-tf check --quick

Check all dtypes and save the results:

    bert-tf check --output_file=check.json
"""

import importlib.metadata
import os
import platform
import time

from absl import flags

import bert_tf
from bert_tf import console
from bert_tf.cli.flags import FLAGS, define_options, from_flags
from bert_tf.configs.base import hints_of
from bert_tf.configs.train import DeviceConfig
from bert_tf.console import write

define_options(DeviceConfig)
flags.DEFINE_bool("quick", False, "Whether to check only float32.")
_DTYPES = ["float32", "bfloat16", "float16"]
flags.DEFINE_multi_enum("dtype", _DTYPES, _DTYPES, "Compute dtype to check; may be repeated.")
flags.DEFINE_integer("num_logical_devices", None, "Number of virtual CPU devices.", lower_bound=1)
flags.DEFINE_string("output_file", None, "JSON file to write the results to.")

_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "jax", "numpy")

BACKENDS = ("tensorflow", "jax")


def main():
    if FLAGS.quick and FLAGS["dtype"].present:
        raise bert_tf.UserError("--dtype has no effect with --quick")
    if FLAGS.output_file:
        bert_tf.io.files.check_writable(FLAGS.output_file, "output_file")
    dtypes = ["float32"] if FLAGS.quick else FLAGS.dtype
    on_jax = os.environ["KERAS_BACKEND"] == "jax"
    if on_jax:
        checks = _jax_checks(dtypes)
    else:
        from bert_tf.device_check import checks as device_checks

        if FLAGS.num_logical_devices:
            device_checks.set_logical_devices(FLAGS.num_logical_devices)
        strategy = bert_tf.training.make_strategy(from_flags(DeviceConfig))
        checks = device_checks.Checks(strategy, dtypes)
    report = describe(checks)
    write("\n".join(f"{name:<17}{value}" for name, value in report.items()) + "\n")
    if on_jax and not FLAGS.quick:
        write("not checked on JAX: float16, the optimizer alone, resuming\n")
    # Hide the log of training and export, and TensorFlow's warning about several compilations.
    with console.at_level("ERROR", "bert_tf", "absl", "tensorflow"):
        report["checks"] = run_checks(checks)
    if FLAGS.output_file:
        bert_tf.io.json_files.write(FLAGS.output_file, report)
    if failed := [check["name"] for check in report["checks"] if not check["passed"]]:
        raise bert_tf.UserError(f"failed checks: {'; '.join(failed)}")
    write(f"\nall {len(report['checks'])} checks passed\n")


def _jax_checks(dtypes):
    """Return the `JaxChecks`; raise UserError if a flag requires TensorFlow."""
    for name in ("num_logical_devices", *hints_of(DeviceConfig)):
        if FLAGS[name].present:
            raise bert_tf.UserError(f"--{name} has no effect with KERAS_BACKEND=jax")
    if FLAGS["dtype"].present and "float16" in dtypes:
        raise bert_tf.UserError("--dtype=float16 requires KERAS_BACKEND=tensorflow")
    from bert_tf.device_check.checks import JaxChecks

    return JaxChecks([x for x in dtypes if x != "float16"])


def describe(checks):
    values = {"bert_tf": bert_tf.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            values[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            values[name] = "not installed under this name"
    return {**values, "devices": checks.describe()}


def run_checks(checks):
    results = []
    write(f"\n{'check':<38}{'value':>10}{'bound':>10}          seconds\n")
    start = time.perf_counter()
    for check in checks.all():
        seconds, start = time.perf_counter() - start, time.perf_counter()
        mark = "pass" if check.passed else "FAIL"
        line = f"{check.name:<38}{check.value:>10.2g}{check.bound:>10.2g}  {mark}{seconds:>11.1f}"
        write(f"{line}  {check.note}".rstrip() + "\n")
        results.append({**check._asdict(), "passed": check.passed, "seconds": round(seconds, 2)})
    return results
