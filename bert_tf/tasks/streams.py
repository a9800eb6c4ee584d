"""`TextStream`, the base of the classes with pre-trained models, for any number of texts."""

import os
import tempfile
from typing import Any

import numpy as np

from bert_tf import checkpoints, console
from bert_tf.configs.train import BatchConfig
from bert_tf.data.containers import iterate_texts
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.tasks.base import Task
from bert_tf.tokenization.packing import LengthCounter, log_truncated, pack_pair
from bert_tf.tokenization.vocabulary import to_text


class TextStream(Task):
    """Base class of tasks that answer any number of texts, read lazily, by `stream`.

    Their models are pre-trained: `save_to_preset` writes a Hugging Face folder.
    """

    pretrained_head = ""

    def stream(self, texts: Any, batch_size: int = BatchConfig.batch_size) -> Any:
        """Yield the answer to each text of an iterable; an iterator is read lazily."""
        raise NotImplementedError

    def predict(self, texts: Any, batch_size: int = BatchConfig.batch_size) -> Any:
        """Return a list of the answers of `stream`, or a single answer if `texts` is a str."""
        if isinstance(texts, str):
            return self.predict([texts], batch_size)[0]
        return list(self.stream(texts, batch_size))

    def _run(
        self, function, rows, schema, batch_size, description, bytes_per_row=0, key=None, **lengths
    ):
        """Yield (item, dict of arrays) for pairs (item, dict of lists, the features of `schema`).

        `function` converts outputs of the model, as in `BatchRunner`; `key` as in `_runner`.
        """
        runner = self._runner(function, schema, {"S": self.config.max_seq_length, **lengths}, key)
        items = ((item, {name: np.array(x[name]) for name in schema}) for item, x in rows)
        return runner.run(items, batch_size, description, bytes_per_row=bytes_per_row)

    def _pack(self, rows):
        """Yield (item, dict of features) for (item, ids of a text, ids of a second text or [])."""
        limit, config = self.config.max_seq_length, self.config.bert_config
        lengths, num_blank = LengthCounter(limit), 0
        for item, ids_a, ids_b in rows:
            num_blank += not ids_a
            if ids_b:
                config.check_num_texts(2)
            yield item, pack_pair(ids_a, ids_b, self.tokenizer, limit, lengths, pad=False)
        if num_blank:
            console.warning("`texts`: %d of %d texts are blank", num_blank, lengths.counts["texts"])
        log_truncated("input", lengths.counts, limit, config.max_position_embeddings)

    def _pack_pairs(self, texts):
        """Yield the features of each text; " ||| " separates a pair."""
        rows = ((None, *map(self.tokenizer.encode, pair)) for pair in read_pairs(texts))
        return (features for _, features in self._pack(rows))

    def _write_preset(self, folder):
        self._write_pretrained(folder, checkpoints.tensors(self.model), self.config.bert_config)

    def _write_pretrained(self, folder, tensors, bert_config):
        """Write a Hugging Face folder, which must not exist; `tensors` have the release's names."""
        settings = self.tokenizer.settings
        with tempfile.TemporaryDirectory() as temporary:
            vocab_file = os.path.join(temporary, files.VOCABULARY)
            files.write_text(vocab_file, to_text(self.tokenizer.vocab))
            checkpoints.write_hugging_face(folder, tensors, bert_config, vocab_file, **settings)


def check_layers(option, layers, count):
    """Raise UserError if one of the `layers` of an option is not among the model's `count`."""
    for layer in layers:
        if not -count <= layer < count:
            expected = f"expected numbers from -{count} to {count - 1}"
            because = f"because the model has {count} layers"
            raise UserError(f"`{option}`: found {layer}, {expected}, {because}")


def read_pairs(texts):
    """Yield (text, second text or "") for each str; " ||| " separates a pair, as in the release."""
    for text in iterate_texts(texts, "texts"):
        first, separator, second = text.strip().rpartition(" ||| ")
        yield (first, second) if separator else (second, "")
