"""The training step of a run, compiled for devices that are not there: errors and memory."""

import collections
import contextlib
import dataclasses
import hashlib
import os
import re
import signal
import tempfile
import threading
import time
import traceback

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from bert_tf import console
from bert_tf.configs.task import check_length
from bert_tf.data import records
from bert_tf.device_check.checks import vocabulary
from bert_tf.errors import UserError, reason
from bert_tf.io import files, json_files
from bert_tf.modeling import attention
from bert_tf.optimization import make_optimizer
from bert_tf.tasks.registry import HEADS
from bert_tf.tasks.token_classification.options import Tags
from bert_tf.training.checkpointing import trainable_weights
from bert_tf.training.pretraining import PretrainingObjective
from bert_tf.training.run import check_batch_size
from bert_tf.training.tensorflow_engine import LossScale, make_train_step
from tools.compilers import memory_limit

# Options of `from_preset` and columns of `fit` for each task.
_SAMPLES = {
    "classification": ({"labels": ("x", "y")}, (["a b", "c"], ["x", "y"])),
    "multiple_choice": ({}, (["a"], [["b", "c"]], [0])),
    "question_answering": ({}, (["a"], ["b c"], ["c"])),
    "sentence_embedding": (
        {"pooling": "mean", "normalize": True}, ([("a", "b"), ("c", "d")], [1.0, 0.0])
    ),
    "token_classification": (
        {"tags": Tags(("O", "B-X", "I-X"), "iob2", "iob2")}, ([["a", "b"]], [["B-X", "O"]])
    ),
}  # fmt: skip

_COLLECTIVES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_HOST = "infeed|outfeed|send|recv"


class Step:
    """The step that a run would take, for compilation with any batch size."""

    def __init__(self, task, bert_config, lengths, train, optimizer, compiler):
        """Build the model and the optimizer.

        Args:
          task: "pretraining", or the name of a task in the registry.
          bert_config: the `BertConfig`.
          lengths: a `RecordConfig`.
          train: a `TrainConfig`.
          optimizer: an `OptimizerConfig`.
          compiler: a `compilers.Compiler`.
        """
        if task not in (names := ["pretraining", *_SAMPLES]):
            raise UserError(f"`task={task}`: expected one of {', '.join(names)}")
        check_length(lengths.max_seq_length, bert_config)
        self._config, self._compiler = train, compiler
        self._is_jax = keras.backend.backend() == "jax"
        attention.capability = lambda: compiler.capability if self._is_jax else 0.0
        self._replicas = _Replicas(compiler.count)
        keras.config.disable_traceback_filtering()
        with self._replicas.scope(), _naming_layers():
            make = _fine_tuning if task in _SAMPLES else _pretraining
            self._objective, schema, sizes = make(task, bert_config, lengths, train.dtype_policy)
            self._objective.model.skip_padding = False
            self._optimizer = make_optimizer(optimizer, 1000)
            self._program = self._of_jax() if self._is_jax else self._of_tensorflow()
        # TensorFlow exchanges the gradients of GPUs outside of the compiled program.
        is_one = self._objective.compares_replicas or compiler.is_gpu
        if is_one and compiler.count > 1 and not self._is_jax:
            name = f"`device={compiler.name}` with `task={task}`"
            raise UserError(f"{name}: expected one device, or KERAS_BACKEND=jax")
        self._shapes = {
            name: (x.shape(sizes), "int32" if x.dtype == "int64" else x.dtype)
            for name, x in schema.items()
        }

    def compile(self, batch_size):
        """Return what the compiler planned, or None if the memory is not enough; cache it.

        The result is a dict with the bytes of one device, in "memory" all of them, and numbers of
        operations: matrix products ("dots"), collectives, and exchanges with the host.

        Raises:
          UserError: if the step cannot be compiled.
        """
        parts, compiler = self._config.gradient_accumulation_steps, self._compiler
        check_batch_size(batch_size, compiler.count, "train_batch_size", parts)
        size = batch_size if self._is_jax else batch_size // compiler.count
        with _naming_layers():
            text, compile = self._program(
                {k: ((size, *x), t) for k, (x, t) in self._shapes.items()}
            )
            flags = [os.environ.get(name) for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
            key = repr([compiler.name, compiler.memory, compiler.versions, flags, text]).encode()
            cache = os.environ.get("BERT_TF_CACHE") or os.path.expanduser("~/.cache/bert_tf")
            path = os.path.join(cache, "compiled", hashlib.sha256(key).hexdigest()[:32] + ".json")
            if files.exists(path):
                console.info("batch %d: from the cache, %s", batch_size, path)
                return json_files.read(path)
            try:
                start = time.monotonic()
                with _alive(f"batch {batch_size} for {compiler.name}"):
                    memory, compiled = compile()
                plan = _describe(memory, text, compiled)
                plan["seconds"] = round(time.monotonic() - start)
            except Exception as error:  # the compilers have no class for it
                if memory_limit(error) is None:
                    raise
                plan = None
        files.make_folder(os.path.dirname(path))
        json_files.write(path, plan)
        return plan

    def _of_jax(self):
        """Return the function from shapes to the program of the loop's step on JAX."""
        import jax

        from bert_tf.training.jax_engine import JaxEngine

        engine = JaxEngine(self._compiler.mesh)
        engine.prepare(self._objective, self._optimizer, self._config, 1000)

        def program(shapes):
            batch = {name: jax.ShapeDtypeStruct(*x) for name, x in shapes.items()}
            return self._compiler.lowered(engine.lower(batch))

        return program

    def _of_tensorflow(self):
        """Return the function from shapes of a replica to the program of the loop's step."""
        model = self._objective.model
        self._optimizer.build(trainable_weights(model))
        step = make_train_step(self._objective, self._optimizer, self._config, LossScale.of(model))

        def run(batch):
            return self._replicas.extended.call_for_each_replica(step, (batch,))

        def program(shapes):
            function = tf.function(run, autograph=False, jit_compile=True)
            batch = {name: tf.zeros(*x, name=name) for name, x in shapes.items()}
            graph_def = function.get_concrete_function(batch).graph.as_graph_def(add_shapes=True)
            if problems := unfit(graph_def):
                raise UserError(f"the step cannot be compiled: {'; '.join(problems[:3])}")
            hlo = function.experimental_get_compiler_ir(batch)(stage="hlo_serialized")
            return self._compiler.replicated(hlo)

        return program


def _pretraining(task, bert_config, lengths, dtype):
    """Return an `Objective`, and the schema and the lengths of its records."""
    sizes = {"S": lengths.max_seq_length, "P": lengths.max_predictions_per_seq}
    objective = PretrainingObjective(bert_config, dtype, lengths.has_pairs)
    return objective, records.pretraining_schema(lengths.has_pairs), sizes


def _fine_tuning(task, bert_config, lengths, dtype):
    """Return the objective of a task, and the schema and the lengths of its records."""
    task_class = next(x for x in HEADS.values() if x.name == task)
    options, columns = _SAMPLES[task]
    options = {"max_seq_length": lengths.max_seq_length, "do_lower_case": True, **options}
    with tempfile.TemporaryDirectory() as folder:
        files.write_text(path := os.path.join(folder, "vocab.txt"), "\n".join(vocabulary()) + "\n")
        config = task_class.config_class(bert_config=bert_config, vocab_file=path, **options)
        model = task_class(task_class.make_model(config, dtype), config)
    examples = {"train": model.make_examples(columns, model.arguments, "train")}
    data = dataclasses.replace(model.run_data(examples), pad_to_max_length=True)
    form = model._features(data, "train")[0].record_format(bert_config)
    objective = model.objective(data)
    return objective, form["schema"], form["lengths"]


def nodes_of(graph_def):
    functions = graph_def.library.function
    return [*graph_def.node, *(node for function in functions for node in function.node_def)]


def unfit(graph_def):
    """Return messages about outputs of a graph that the compiler of a TPU does not accept."""
    problems = []
    for node in nodes_of(graph_def):
        if node.op == "BroadcastGradientArgs":  # computed from static shapes by the compiler
            continue
        for shape in node.attr["_output_shapes"].list.shape:
            if shape.unknown_rank or any(dim.size < 0 for dim in shape.dim):
                problems.append(f"{node.op} {node.name} has no static shape")
        types = [attr.type for attr in node.attr.values() if attr.WhichOneof("value") == "type"]
        if tf.string.as_datatype_enum in types:
            problems.append(f"{node.op} {node.name} has strings")
    return problems


class _Replicas(tf.distribute.TPUStrategy):
    """A `TPUStrategy` without TPUs, which traces one of `count` replicas."""

    def __init__(self, count):
        one_device = type(tf.distribute.OneDeviceStrategy("CPU:0").extended)
        all_replicas = tf.constant([[*range(count)]])

        class Extended(one_device):
            _num_replicas_in_sync = count

            def _use_merge_call(self):
                return False

            def _replica_ctx_all_reduce(self, reduce_op, value, options=None):
                def add(x):
                    return gen_xla_ops.xla_all_reduce(x, all_replicas, "Add", "CrossReplica")

                return tf.nest.map_structure(add, value)

        tf.distribute.Strategy.__init__(self, Extended(self, "CPU:0"))


@contextlib.contextmanager
def _naming_layers():
    """Raise UserError for an error of Keras or of a compiler, with the layer it belongs to."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of any kind
        text = re.sub(r"\x1b\[\d*m|\{\{function_node [^}]*\}\}", "", str(error))
        text = text.rpartition("Error encountered:")[2]
        text = re.sub(r"^\s*Exception encountered when calling .*", "", text)
        names = re.search(r"\{\{node ([^}]+)\}\}|op_name=\"([^\"]+)\"", text)
        layer = names[1] or names[2] if names else None
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if isinstance(owner := frame.f_locals.get("self"), keras.Layer):
                layer = getattr(owner, "_path", layer)  # not in a constructor
        where = f" in {layer}" if layer else ""
        message = f"{type(error).__name__}, {reason(text)}"
        raise UserError(f"the step cannot be compiled{where}: {message}") from error


@contextlib.contextmanager
def _alive(what):
    """Log every 15 seconds that the process is alive, and let Ctrl-C end it."""
    done, start = threading.Event(), time.monotonic()

    def report():
        while not done.wait(15.0):
            console.info("compiling %s: %s", what, console.duration(time.monotonic() - start))

    threading.Thread(target=report, daemon=True).start()
    # Python does not see Ctrl-C while a compiler runs.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        done.set()


def _describe(memory, text, compiled):
    plan = {
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        # Results that do not replace arguments.
        "copies": max(0, memory.output_size_in_bytes - memory.alias_size_in_bytes),
        "program": memory.generated_code_size_in_bytes,
    }
    dots = re.findall(r"dot_general.* : \(tensor<([^>]*)>, tensor<([^>]*)>\)", text)
    return {
        "memory": sum(plan.values()),
        **plan,
        "dots": len(dots),
        "float32_dots": sum("f32" in "".join(types) for types in dots),
        **{
            name: collections.Counter(re.findall(rf" ({names})(?:-start)?\(", compiled))
            for name, names in (("collectives", _COLLECTIVES), ("host", _HOST))
        },
    }


def largest_batch(compile, first, plan, memory, unit):
    """Return the largest batch that fits and was compiled, with its plan; 0 if none fits.

    The memory is nearly linear in the batch. The line through two batches gives a third one, which
    is compiled too; if it does not fit, so is a smaller one.

    Args:
      compile: `Step.compile`.
      first: a batch size.
      plan: the result for it.
      memory: the bytes of a device.
      unit: the batch is a multiple of this number.
    """
    plans = {first: plan}

    def fits(size):
        if size not in plans:
            plans[size] = compile(size)
        return plans[size] is not None and plans[size]["memory"] <= memory

    size = first
    while not fits(size) and size > unit:
        size = max(unit, size // 2 // unit * unit)
    if not fits(size):
        return 0, None
    if size == first:
        fits(4 * size)
    if sum(known is not None for known in plans.values()) < 2:  # not enough for a line
        fits(size // 2 // unit * unit or 2 * unit)
    for _ in range(2):
        best, too_large = max(filter(fits, plans)), [x for x in plans if not fits(x)]
        points = sorted((x, known["memory"]) for x, known in plans.items() if known)[-2:]
        (x0, y0), (x1, y1) = points[0], points[-1]
        guess = x0 + (memory - y0) * (x1 - x0) / max(y1 - y0, 1)
        guess = min(guess, 0.95 * min(too_large, default=guess * 2))
        step = unit * (8 if guess >= 16 * unit else 1)
        guess = int(guess) // step * step
        if guess <= best or fits(guess):
            break
    best = max(filter(fits, plans))
    return best, plans[best]
