"""`StreamingPipeline`, the base of the classes that answer any number of texts, read lazily."""

import itertools
from typing import Any

from bert_tf import checkpoints
from bert_tf.configs.train import BatchConfig
from bert_tf.data import records
from bert_tf.tasks.arguments import iterate_texts
from bert_tf.tasks.base import Pipeline
from bert_tf.tasks.saving import write_pretrained
from bert_tf.tokenization.packing import LengthCounter, log_truncated, pack_pair

# Number of texts to serialize at a time.
_CHUNK = 250


class StreamingPipeline(Pipeline):
    """Base class; a task defines `stream`, and `save_to_preset` writes a Hugging Face folder."""

    has_head = False

    def stream(self, texts: Any, batch_size: int = BatchConfig.batch_size) -> Any:
        """Yield the answer to each text of an iterable; an iterator is read lazily."""
        raise NotImplementedError

    def predict(self, texts: Any, batch_size: int = BatchConfig.batch_size) -> Any:
        """Return a list of the answers of `stream`, or a single answer if `texts` is a str."""
        if isinstance(texts, str):
            return self.predict([texts], batch_size)[0]
        return list(self.stream(texts, batch_size))

    def _run(self, function, rows, record_format, batch_size, description, bytes_per_row=0):
        """Yield (item, dict of arrays) for pairs (item, dict of features).

        `function` converts outputs of the model, as in `BatchRunner`, and depends on the config.
        """
        batch_size = BatchConfig(batch_size).validate().batch_size
        runner = self._runner(function, record_format, batch_size, bytes_per_row=bytes_per_row)
        return runner.run(_serialize(rows, record_format["schema"]), description)

    def _pack(self, rows):
        """Yield (item, dict of features) for (item, ids of a text, ids of a second text or [])."""
        limit, config = self.config.max_seq_length, self.config.bert_config
        lengths = LengthCounter(limit)
        for item, ids_a, ids_b in rows:
            if ids_b:
                config.check_num_texts(2)
            yield item, pack_pair(ids_a, ids_b, self.tokenizer, limit, lengths)
        log_truncated("input", lengths.counts, limit, config.max_position_embeddings)

    def _write_preset(self, folder):
        tensors = checkpoints.tensors(self.model)
        write_pretrained(folder, tensors, self.config.bert_config, self.tokenizer)


def read_pairs(texts):
    """Yield (text, second text or "") for each str; " ||| " separates a pair, as in the release."""
    for text in iterate_texts(texts, "texts"):
        first, separator, second = text.strip().rpartition(" ||| ")
        yield (first, second) if separator else (second, "")


def _serialize(rows, schema):
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, _CHUNK)):
        items, features = zip(*chunk, strict=True)
        yield from zip(items, records.serialize(schema, features), strict=True)
