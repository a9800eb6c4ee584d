"""Distillation: compute the logits of a fine-tuned teacher for the training of a student."""

import functools
import hashlib
import os

import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.data.feature_cache import file_digest
from bert_tf.data.input_pipeline import EvaluationInput, length_multiple
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.tasks.classification.features import record_schema, write_features
from bert_tf.tasks.classification.task import TASK_CLASSES
from bert_tf.tokenization import FullTokenizer
from bert_tf.training.checkpointing import log_best_checkpoint
from bert_tf.training.trainer import Trainer


class Teacher:
    """A fine-tuned classifier, loaded from the output folder of its run."""

    def __init__(self, folder, spec, student, distillation, dtype="float32"):
        """Find the teacher in a run's `folder`; raise UserError if its task differs."""
        self._folder, self._student, self._dtype = folder, student, dtype
        self.distillation = distillation
        self._config = spec.config_class.load(folder)
        if self._config is None:
            raise UserError(
                f"`teacher_dir`: found no {spec.config_class.FILE} in {folder}, expected the "
                f"output folder of a {spec.script} training run"
            )
        if self._config.windows:
            raise UserError(
                f"`teacher_dir`: the model in {folder} was trained with `long_documents=windows`, "
                "which is not supported for a teacher"
            )
        if student.task_type == "regression" and distillation.temperature != 1:
            raise UserError("`teacher_temperature` has no effect with `task_type=regression`")
        for name, get_value in (
            ("task_type", lambda x: x.task_type),
            ("labels", lambda x: ", ".join(sorted(x.labels))),
            ("numeric_columns", lambda x: ", ".join(x.numeric_columns)),
            ("numeric_as", lambda x: x.numeric_as),
        ):
            teacher_value, student_value = get_value(self._config), get_value(student)
            if teacher_value != student_value:
                raise UserError(
                    f"`teacher_dir`: found {name} {teacher_value or 'none'} in {folder}, expected "
                    f"{student_value or 'none'}, as for the student"
                )
        self._prefix = checkpoints.find(folder, "teacher_dir")
        console.info("teacher: %s", self._prefix)
        log_best_checkpoint(folder, "teacher_dir")

    @functools.cached_property
    def fingerprint(self):
        """A digest of the weights and settings that determine the logits."""
        paths = tf.io.gfile.glob(f"{self._prefix}.*")
        side_files = (files.CONFIG, files.VOCABULARY, self._config.FILE)
        paths += [os.path.join(self._folder, name) for name in side_files]
        # "float32" is omitted so that features cached by version 0.1 stay valid.
        dtype = "" if self._dtype == "float32" else self._dtype
        text = "".join(map(file_digest, sorted(paths))) + dtype
        return hashlib.sha256(text.encode()).hexdigest()

    def logits(self, examples, strategy, batch_size, folder):
        """Return the logits (N, L) in the order of the student's labels; all workers call this."""
        config = self._config
        task_class = TASK_CLASSES[config.task_type]
        console.info("loading the teacher to compute its logits:")
        numbers, size = config.numeric_inputs, config.num_outputs
        trainer = Trainer(
            lambda: task_class(
                config.bert_config,
                size,
                self._dtype,
                num_numeric_features=len(numbers),
                scores=config.scores,
            ),
            strategy,
            self._folder,
            must_be_trained=True,
        )
        # A resumed run removes files with such names that a killed run left behind.
        path = os.path.join(folder, "teacher.tf_record.tmp-0")
        tokenizer = FullTokenizer(config.vocab, **config.tokenizer_settings)
        length = config.max_seq_length
        trainer.workers.chief_first(
            lambda: write_features(
                path, examples, config.labels, tokenizer, length, task_class, numbers
            )
        )
        batches = EvaluationInput(
            [path],
            record_schema(task_class, numbers),
            {"S": length, "L": size, "F": len(numbers)},
            batch_size,
            length_multiple=length_multiple(strategy, False, length),
        )
        logits = trainer.predict_all(batches, "teacher", len(examples))["logits"]
        trainer.workers.chief_first(lambda: tf.io.gfile.remove(path))
        if not config.labels:
            return logits
        return logits[:, [config.labels.index(label) for label in self._student.labels]]
