"""The interface of a task: `Task`, the model with losses and metrics, and `TaskData`, its data."""

import functools
import os
from collections.abc import Sequence

import tensorflow as tf

from bert_tf.data import records
from bert_tf.data.feature_cache import FeatureCache, digest, tokenizer_fingerprint
from bert_tf.data.rows import base_split
from bert_tf.tokenization.packing import log_truncated


class Task:
    """A model with its losses, predictions and metrics.

    Subclasses create `model` in their constructor, which runs in the strategy's scope. All methods
    except `metrics` are traced, so they must use TensorFlow operations only. Their shapes are
    static except for the sequence length (on a TPU it is static too).
    """

    model = None
    loss_names: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()
    # Whether losses or predictions read the model's outputs at padding. If not, they are not
    # computed on a CPU (`modeling.token_layout`).
    reads_padding = False
    # Whether the loss of an example depends on the outputs of all replicas.
    compares_replicas = False

    def loss_weights(self, batch):
        """Return this batch's share of the denominator of each loss: a dict of float32 scalars.

        By default, it is the number of examples. They are summed over the replicas and the
        micro-batches of gradient accumulation before `losses` is called, so that each loss is the
        mean over the global batch.
        """
        return {"examples": tf.cast(tf.shape(batch["input_ids"])[0], tf.float32)}

    def losses(self, outputs, batch, weights):
        """Return the batch's share of each loss: a dict of float32 scalars by `loss_names`.

        Args:
          outputs: the model's training outputs.
          batch: dict of tensors (B, ...), B the batch size of one replica.
          weights: the sums of `loss_weights` over the global batch.
        """
        raise NotImplementedError

    def predictions(self, outputs, batch):
        """Return the predictions for a batch: a dict of tensors (B, ...)."""
        raise NotImplementedError

    def metrics(self, predictions):
        """Return a dict of metrics from the predictions of a split, a dict of arrays (N, ...).

        The keys are `metric_names`. Lower is better for names that contain "loss", else higher.
        """
        raise NotImplementedError


class TaskData:
    """The validated data of a run, and how to evaluate and predict them.

    The name of a split starts with "train", "dev" or "test", such as "dev_mismatched".

    Attributes:
      examples: dict from split to examples.
      config: the `TaskConfig` of the run.
      version: bump when the features change for the same data.
      unit, sequence_unit: plural nouns for examples and for the content of a sequence, in messages.
      metric_names: names of the metrics of an evaluation.
      data_files: paths of the files that contain the examples.
      evaluates_predictions: whether evaluation uses predictions, with the prediction batch size.
    """

    version = 1
    unit = "examples"
    sequence_unit = "texts"
    metric_names: tuple[str, ...] = ()
    data_files: Sequence[str] = ()
    evaluates_predictions = False

    def __init__(self, examples, config):
        self.examples, self.config = examples, config
        self.caches = {}

    def splits(self, base):
        """Return the names of the "train", "dev" or "test" splits that were read."""
        return [split for split in self.examples if base_split(split) == base]

    def train_config(self, config):
        """Return the `configs.TrainConfig` to train with, for a `configs.FineTuneConfig`."""
        return config.train

    def schema(self, split):
        """Return the schema of a split's records."""
        raise NotImplementedError

    def fingerprint(self, split):
        """Return a dict of JSON values that the features depend on, besides the tokenizer."""
        raise NotImplementedError

    def write_features(self, split, path, tokenizer):
        """Write the features of a split to a TFRecord file; return a dict for its metadata."""
        raise NotImplementedError

    def features(self, split, path, tokenizer):
        """Return the `FeatureCache` of a split, whose TFRecord file is `path`."""
        fingerprint = {
            **self.fingerprint(split),
            **tokenizer_fingerprint(tokenizer),
            "schema": digest(self.schema(split).items()),
            "version": self.version,
        }
        write = functools.partial(self.write_features, split, path, tokenizer)
        self.caches[split] = FeatureCache(path, fingerprint, write)
        return self.caches[split]

    def log_truncated(self, split, features):
        """Log how many texts of a split are truncated, if its `FeatureCache` has lengths."""
        if counts := (features.metadata or {}).get("lengths"):
            config = self.config
            limits = config.max_seq_length, config.bert_config.max_position_embeddings
            log_truncated(split, counts, *limits, self.truncation_advice(), self.sequence_unit)

    def truncation_advice(self):
        """Return an option with a value that avoids truncation, "" if there is none."""
        return ""

    def count(self, split, features):
        """Return the number of records in a split, None if unknown.

        `features` is its `FeatureCache`, or None before it exists.
        """
        return len(self.examples[split])

    def num_train_units(self, features):
        """Return the number of training examples in an epoch; see `count`."""
        return self.count(self.splits("train")[0], features)

    def lengths(self, split):
        """Return a dict from the letters in the shapes of `schema` to sizes."""
        return {"S": self.config.max_seq_length}

    def num_labels(self, split):
        """Return the number of labels; label ids in the records must be lower."""
        return 2

    def record_format(self, split):
        """Return a dict of the schema, the lengths and the limits of a split's records."""
        schema, lengths = self.schema(split), self.lengths(split)
        limits = records.limits(schema, self.config.bert_config, lengths, self.num_labels(split))
        return {"schema": schema, "lengths": lengths, "limits": limits}

    def make_task(self, dtype=None):
        """Make the `Task`, in the strategy's scope; `dtype` is a Keras dtype policy."""
        raise NotImplementedError

    def evaluate(self, run, split):
        """Evaluate a "dev" split of a `Run`, and write its result files.

        Returns a dict of metrics, with `global_step`.
        """
        raise NotImplementedError

    def predict(self, run, split):
        """Predict a "test" split of a `Run`, and write its result files."""
        raise NotImplementedError

    def evaluate_and_predict(self, run):
        """Evaluate and predict as the run's config specifies; return metrics by split."""
        splits = self.splits("dev") if run.config.do_eval else ()
        results = {split: self.evaluate(run, split) for split in splits}
        for split in self.splits("test") if run.config.do_predict else ():
            self.predict(run, split)
        return results


def result_name(stem, split, ending):
    """Return the name of a split's file, such as "eval_results_mismatched.txt"."""
    return f"{stem}{split.removeprefix(base_split(split))}{ending}"


def result_file(folder, stem, split, ending):
    return os.path.join(folder, result_name(stem, split, ending))
