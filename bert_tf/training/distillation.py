"""A fine-tuned model as the teacher of another one."""

import functools
import hashlib
import os

import tensorflow as tf

from bert_tf import checkpoints, console, files, tasks
from bert_tf.data.input_pipeline import EvaluationInput
from bert_tf.errors import UserError
from bert_tf.tasks.cache import digest_of_file
from bert_tf.tokenization import FullTokenizer
from bert_tf.training.best import log_best_checkpoint
from bert_tf.training.strategy import length_multiple
from bert_tf.training.trainer import Trainer


class Teacher:
    """The model of a folder that run_classifier.py trained in, and what it answers."""

    def __init__(self, folder, settings):
        """Finds the model and checks that it answers the same questions.

        Args:
          folder: the output folder of its run, or the folder of its best checkpoint.
          settings: the `tasks.Settings` of the model that learns from it.

        Raises:
          UserError: if it is not trained, or on another kind of task, other labels or numbers.
        """
        self._folder, self._taught = folder, settings
        self._settings = tasks.load_settings(folder)
        if self._settings is None:
            raise UserError(
                f"`teacher_dir`: {folder} is not the output_dir of a run_classifier.py that has "
                "trained: it has no classifier.json"
            )
        for name, of in (
            ("kind of task", lambda x: x.task_type),
            ("labels", lambda x: ", ".join(sorted(x.labels))),
            ("numbers", lambda x: ", ".join(number.name for number in x.numbers)),
            ("numeric_as", lambda x: x.numeric_as),
        ):
            theirs, ours = of(self._settings), of(settings)
            if theirs != ours:
                raise UserError(
                    f"`teacher_dir`: the {name} of the model in {folder}: {theirs or 'none'}, "
                    f"here: {ours or 'none'}"
                )
        self._prefix = checkpoints.find(folder, "teacher_dir")
        console.info("teacher: %s", self._prefix)
        log_best_checkpoint(folder, "teacher_dir")

    @functools.cached_property
    def fingerprint(self):
        """What its answers depend on, as text: a digest of its weights and settings."""
        paths = tf.io.gfile.glob(f"{self._prefix}.*")
        beside = (files.CONFIG, files.VOCABULARY, files.CLASSIFIER)
        paths += [os.path.join(self._folder, name) for name in beside]
        return hashlib.sha256("".join(map(digest_of_file, sorted(paths))).encode()).hexdigest()

    def logits(self, examples, strategy, batch_size, folder, dtype=None):
        """Its logits for N examples; all workers must ask together.

        Args:
          examples: list of `tsv.Example`.
          strategy: a `tf.distribute.Strategy`.
          batch_size: the global batch.
          folder: where its features lie for a while.
          dtype: a Keras dtype policy.

        Returns:
          Array (N, L), in the order of the other model's labels.
        """
        theirs = self._settings
        kind = tasks.TASK_CLASSES[theirs.task_type]
        console.info("the teacher is loaded, to be asked for its answers:")
        trainer = Trainer(
            lambda: kind(theirs.config, theirs.num_outputs, dtype, num_numbers=len(theirs.vector)),
            strategy,
            self._folder,
            must_be_trained=True,
        )
        # What a killed run leaves under such a name, the next one clears away.
        path = os.path.join(folder, "teacher.tf_record.tmp-0")
        tokenizer = FullTokenizer(theirs.vocab_file, theirs.do_lower_case)
        length = theirs.max_seq_length
        trainer.workers.chief_first(
            lambda: tasks.write_features(
                path, examples, theirs.labels, tokenizer, length, kind, theirs.vector
            )
        )
        data = EvaluationInput(
            [path],
            tasks.schema_of(kind, theirs.vector),
            {"S": length, "L": theirs.num_outputs, "F": len(theirs.vector)},
            batch_size,
            length_multiple=length_multiple(strategy, False, length),
        )
        found = trainer.predict_all(data, "asking the teacher", len(examples))["logits"]
        trainer.workers.chief_first(lambda: tf.io.gfile.remove(path))
        if not theirs.labels:
            return found
        return found[:, [theirs.labels.index(label) for label in self._taught.labels]]
