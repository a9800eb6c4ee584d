"""`FillMask`: prediction of masked tokens, and training on the masked words of texts."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from bert_tf import checkpoints, console
from bert_tf.data.columns import ANY_TEXT
from bert_tf.data.dynamic_masking import DynamicMasking
from bert_tf.errors import UserError
from bert_tf.modeling.models import INPUTS, BertPretrainer
from bert_tf.pipelines.arguments import check_texts, split_columns
from bert_tf.pipelines.keras_training import (
    BATCH_SIZE,
    EPOCHS,
    KerasTraining,
    pad_batch,
    ragged,
)
from bert_tf.pipelines.saving import write_pretrained
from bert_tf.pipelines.table_arguments import with_columns
from bert_tf.pipelines.text_pipeline import Text, TextPipeline
from bert_tf.tasks.fill_mask.servable import FillMaskAnswers, fill_mask_servable
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.special_tokens import CLS, MASK, SEP
from bert_tf.tokenization.vocabulary import mask_id
from bert_tf.training.task_spec import ServedTask, TaskSpec

_HEAD = "cls/predictions/"
# Positions per chunk; each needs V probabilities in memory.
_CHUNK_SIZE = 64

_TABLE = {"texts": ANY_TEXT}


class MaskPredictions(NamedTuple):
    """The predictions for the [MASK] tokens of a text.

    Attributes:
      text: the `Text`.
      tokens: list of its tokens, including [CLS] and [SEP].
      positions: indices of [MASK] in `tokens`.
      best: list of pairs (token, probability) for each position, most probable first.
    """

    text: Text
    tokens: list
    positions: list
    best: list


class FillMask(KerasTraining, TextPipeline):
    """Predicts masked tokens, and adapts models to a domain.

    >>> fill_mask = bert_tf.FillMask.from_preset("uncased_L-12_H-768_A-12")
    >>> next(fill_mask.predict(["The capital of France is [MASK]."])).best

    `save_to_preset` writes a Hugging Face folder.
    """

    make_model = BertPretrainer
    keep_special_tokens = True

    def __init__(
        self, model: BertPretrainer, tokenizer: FullTokenizer, num_best: int = 5, **options: Any
    ):
        """Create the pipeline.

        Args:
          model: a `BertPretrainer`.
          tokenizer: a `FullTokenizer` that keeps special tokens.
          num_best: number of tokens to return for each [MASK].
          **options: `strategy`, `batch_size` and `max_seq_length`, as in `TextPipeline`.
        """
        super().__init__(model, tokenizer, **options)
        self._encoder, self._head = model.get_layer("bert"), model.get_layer("masked_lm")
        self._mask_id = mask_id(tokenizer.vocab)
        self._num_best = min(num_best, model.config.vocab_size)
        self._runner = self._make_runner(
            self._compute_best, 8 * self._num_best * self.max_seq_length, ("positions",)
        )

    @staticmethod
    def _check_checkpoint(model, checkpoint):
        names = checkpoints.open_checkpoint(checkpoint).shapes
        missing = [name for name in checkpoints.weights(model)
                   if name.startswith(_HEAD) and name not in names]  # fmt: skip
        if missing:
            raise UserError(
                f"`init_checkpoint`: found no {missing[0]} in {checkpoint}, expected a masked-LM "
                "head"
            )

    @with_columns(**_TABLE)
    def fit(
        self,
        texts: Any,
        validation_data: Any = None,
        validation_split: float = 0.0,
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        learning_rate: float | None = None,
        callbacks: Any = None,
        masked_lm_prob: float = 0.15,
        shuffle: bool = True,
        seed: int = 0,
        **options: Any,
    ) -> keras.callbacks.History:
        """Adapt the model to a domain: train on masked words of texts with `keras.Model.fit`.

        Each epoch masks different tokens. As in the release, 80 % of them become [MASK], 10 % a
        random token, and 10 % stay. The loss is the mean over the masked tokens of a batch, without
        next sentence prediction.

        Args:
          texts: list of texts, or a table with a column such as "text": a dict of lists, a
            DataFrame, a `datasets.Dataset` or a `tf.data.Dataset` of dicts. Long texts are split
            into sequences of `max_seq_length` tokens.
          validation_data: like `texts`.
          validation_split: fraction of the texts to validate on, from the end of the list.
          epochs: number of passes over the texts.
          batch_size: number of sequences per step, over all devices.
          learning_rate: the peak learning rate, None for 5e-5; see `compile` for the schedule.
          callbacks: list of Keras callbacks.
          masked_lm_prob: fraction of the tokens to mask.
          shuffle: whether to reshuffle the sequences in each epoch.
          seed: random seed of the masks.
          **options: other arguments of `keras.Model.fit`, such as `verbose`.

        Raises:
          UserError: if an argument is invalid.
        """
        config = self._check_fit(
            options, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
            validation_split=validation_split, shuffle=shuffle,
        )  # fmt: skip
        texts = check_texts(texts, "texts")
        if validation_split:
            (texts,), (validation_data,) = split_columns(
                [texts], ["texts"], validation_split, validation_data
            )
        arguments = {"batch_size": batch_size, "masked_lm_prob": masked_lm_prob}
        validation = None
        if validation_data is not None:
            validation_data = check_texts(validation_data, "validation_data")
            validation = self._dataset(validation_data, "validation_data", **arguments)
        dataset = self._dataset(
            texts, "texts", shuffle=shuffle, seed=seed, epochs=epochs, **arguments
        )
        # One dataset for all epochs, so that each epoch has different masks.
        steps = config.steps_per_epoch or int(dataset.cardinality()) // epochs
        config = dataclasses.replace(config, steps_per_epoch=steps)
        return self._fit(dataset, validation, config, callbacks, options)

    @with_columns(**_TABLE)
    def evaluate(
        self,
        texts: Any,
        batch_size: int = BATCH_SIZE,
        masked_lm_prob: float = 0.15,
        **options: Any,
    ) -> dict[str, float]:
        """Return a dict of the loss and the accuracy of masked words.

        As in pre-training, a fraction `masked_lm_prob` of the tokens is masked at once; the masks
        are the same in every call.
        """
        texts = check_texts(texts, "texts")
        return self._evaluate(self._dataset(texts, "texts", batch_size, masked_lm_prob), options)

    def _default_compile_arguments(self):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
        return {
            "loss": {"masked_lm_logits": loss, "next_sentence_logits": None},
            "weighted_metrics": {"masked_lm_logits": [accuracy], "next_sentence_logits": []},
        }

    def _dataset(
        self, texts, argument, batch_size, masked_lm_prob, shuffle=False, seed=0, epochs=1
    ):
        """Return a dataset of masked batches (inputs, targets, weights) for all epochs."""
        size = self.max_seq_length - 2
        cls_id, sep_id = self.tokenizer.convert_tokens_to_ids([CLS, SEP])
        rows = [
            [cls_id, *ids[first : first + size], sep_id]
            for ids in self.tokenizer.encode_batch(texts)
            for first in range(0, len(ids), size)
        ]
        if not rows:
            raise UserError(f"`{argument}`: found no words")
        longest = min(self.max_seq_length, max(map(len, rows)))
        num_slots = max(1, round(longest * masked_lm_prob))
        lengths = {"S": self.max_seq_length, "P": num_slots}
        masking = DynamicMasking(self.tokenizer.vocab, lengths, masked_lm_prob, seed)

        def encode(ids):
            mask = tf.cast(tf.sequence_mask(ids.row_lengths(), self.max_seq_length), tf.int32)
            ids = ids.to_tensor(shape=(None, self.max_seq_length))
            return {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}

        @tf.autograph.experimental.do_not_convert
        def mask(step, batch):
            noise = masking.noise(tf.cast(step, tf.int32), tf.shape(batch["input_ids"])[0])
            batch = masking(batch, noise)
            longest = tf.reduce_max(tf.reduce_sum(batch["input_mask"], 1))
            inputs = {name: batch[name][:, :longest] for name in INPUTS}
            inputs = pad_batch(inputs, self._strategy, self.max_seq_length)
            inputs["masked_lm_positions"] = batch["masked_lm_positions"]
            weights = batch["masked_lm_weights"]
            # Keras divides the sum by the number of slots. These weights turn it into the release's
            # mean over the masked tokens of the whole batch, even across devices.
            weights *= tf.cast(tf.size(weights), tf.float32) / (tf.reduce_sum(weights) + 1e-5)
            ids = batch["masked_lm_ids"]
            # Keras expects targets and weights even for outputs without a loss.
            targets = {"masked_lm_logits": ids, "next_sentence_logits": ids[:, :1]}
            weights = {"masked_lm_logits": weights, "next_sentence_logits": weights[:, :1]}
            return inputs, targets, weights

        batches = self._batches((ragged(rows),), encode, batch_size, shuffle)
        return batches.repeat(epochs).enumerate().map(mask, tf.data.AUTOTUNE)

    def predict(self, texts: Iterable[str | Text]) -> Iterator[MaskPredictions]:
        """Yield the `MaskPredictions` of each `Text` or str; " ||| " in a str separates a pair."""
        num_unmasked = 0

        def sequences():
            for encoded in self._encode(texts):
                # A text without [MASK] gets a dummy position, whose output is dropped.
                positions = self._mask_positions(encoded) or [0]
                yield encoded._replace(extra_inputs={"positions": positions})

        for encoded, arrays in self._runner.run(sequences(), "predicting words"):
            positions = self._mask_positions(encoded)
            num_unmasked += not positions
            # The rows after the last position are padding.
            best = [
                list(zip(self._tokens(ids), map(float, probabilities), strict=True))
                for _, ids, probabilities in zip(
                    positions, arrays["ids"], arrays["probabilities"], strict=False
                )
            ]
            yield MaskPredictions(encoded.text, self._tokens(encoded.input_ids), positions, best)
        if num_unmasked:
            console.warning("%d texts contain no %s and have no predictions", num_unmasked, MASK)

    def _write_preset(self, folder):
        tensors = checkpoints.tensors(self.model)
        write_pretrained(folder, tensors, self.model.config, self.tokenizer)

    def _servable(self, serving_config):
        return fill_mask_servable(
            self.model, self.tokenizer, self.max_seq_length, serving_config, self._num_best
        )

    def _mask_positions(self, encoded):
        return [i for i, token in enumerate(encoded.input_ids) if token == self._mask_id]

    def _tokens(self, ids):
        """Convert ids to tokens, and ids beyond the vocabulary to "[id N]"."""
        inv_vocab = self.tokenizer.inv_vocab
        return [inv_vocab.get(int(index), f"[id {index}]") for index in ids]

    def _compute_best(self, batch):
        """Return the ids and probabilities (B, P, K) of the K best tokens at `positions`."""
        batch = dict(batch)
        positions = batch.pop("positions")
        x = self._encoder(batch, training=False, positions=positions)["sequence_output"]
        rows, per_row = ops.shape(x)[:2]
        count = rows * per_row
        # In chunks, to limit memory.
        padding = -count % _CHUNK_SIZE
        x = tf.pad(tf.reshape(x, (count, x.shape[-1])), [[0, padding], [0, 0]])

        def best(chunk):
            values, ids = tf.math.top_k(tf.nn.softmax(self._head(chunk[None])[0]), self._num_best)
            return {"ids": ids, "probabilities": values}

        outputs = tf.map_fn(
            best,
            tf.reshape(x, (-1, _CHUNK_SIZE, x.shape[-1])),
            fn_output_signature={"ids": tf.int32, "probabilities": tf.float32},
            parallel_iterations=1,
        )
        shape = (rows, per_row, self._num_best)
        return {
            name: tf.reshape(tf.reshape(value, (-1, self._num_best))[:count], shape)
            for name, value in outputs.items()
        }


def pretrained_servable(preset, serving_config, max_seq_length=None, num_best=5):
    """Return a pre-trained model as a `Servable`; see `fill_mask_servable`."""
    pipeline = FillMask.from_preset(preset, max_seq_length=max_seq_length, num_best=num_best)
    return pipeline._servable(serving_config)


SPEC = TaskSpec(
    name="fill_mask",
    pretrained_servable=pretrained_servable,
    served={"fill_mask": ServedTask(FillMaskAnswers, options=("num_best",))},
)
