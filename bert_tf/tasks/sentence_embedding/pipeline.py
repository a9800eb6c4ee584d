"""`SentenceEncoder`: fine-tuning and prediction of sentence vectors, on strings."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints import PretrainedFiles
from bert_tf.configs.model import BertConfig
from bert_tf.configs.train import BatchConfig
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.modeling.models import BertModel
from bert_tf.pipelines.arguments import check_columns, check_numbers, split_columns
from bert_tf.pipelines.keras_training import (
    BATCH_SIZE,
    EPOCHS,
    AddScores,
    KerasTraining,
    pad_batch,
    ragged,
)
from bert_tf.pipelines.saving import write_pretrained
from bert_tf.pipelines.table_arguments import with_columns
from bert_tf.pipelines.text_pipeline import Text, TextPipeline, check_collection
from bert_tf.tasks.sentence_embedding.config import (
    POOLINGS,
    SCORE_COLUMN,
    TEXT_COLUMNS,
    SentenceEmbeddingConfig,
)
from bert_tf.tasks.sentence_embedding.data import read
from bert_tf.tasks.sentence_embedding.evaluation import correlations, search_scores
from bert_tf.tasks.sentence_embedding.neighbors import l2_normalize
from bert_tf.tasks.sentence_embedding.pooling import Pooling
from bert_tf.tasks.sentence_embedding.sentence_transformers import sentence_transformers_options
from bert_tf.tasks.sentence_embedding.servable import sentence_embedding_servable, trained_servable
from bert_tf.tasks.sentence_embedding.task import make_model
from bert_tf.tasks.sentence_embedding.training import ColumnModel, make_loss
from bert_tf.tokenization import FullTokenizer
from bert_tf.training.jax_devices import predict_on_batch
from bert_tf.training.task_spec import TaskSpec

# The package of the module types in modules.json.
_MODULES = "sentence_transformers.models"

_TABLE = {"texts": TEXT_COLUMNS, "scores": SCORE_COLUMN}


class SentenceEncoder(KerasTraining, TextPipeline):
    """Computes sentence vectors by pooling the token vectors of a layer; trains on pairs of texts.

    >>> encoder = bert_tf.SentenceEncoder.from_preset("uncased_L-12_H-768_A-12", layer=-1)
    >>> pairs = [("A man is eating.", "Somebody has dinner."), ("It rained.", "It was wet.")]
    >>> history = encoder.fit(pairs, epochs=1, verbose=0)
    >>> encoder.encode(["A man is eating.", "Somebody has dinner."])  # float32 (2, H)

    `save_to_preset` writes a sentence-transformers folder without the layers above `layer`.

    Attributes:
      pooling, layer, normalize: the arguments of the constructor.
      width: H.
    """

    _compares_examples = True
    # The layers above `layer`, and the pooler.
    _untrained = r"\['(layer_|pooler/)"

    def __init__(
        self,
        model: BertModel,
        tokenizer: FullTokenizer,
        pooling: str = "mean",
        layer: int = -2,
        normalize: bool = False,
        **options: Any,
    ):
        """Create the pipeline.

        Args:
          model: a `BertModel`.
          tokenizer: a `FullTokenizer`.
          pooling: "mean" or "max" over all tokens including [CLS] and [SEP], or "cls" for the
            vector of [CLS].
          layer: index of the layer: 0 is the first, -1 the last.
          normalize: whether to scale vectors to length 1.
          **options: `strategy`, `batch_size` and `max_seq_length`, as in `pipelines.TextPipeline`.
        """
        super().__init__(model, tokenizer, **options)
        self.pool = Pooling(pooling, layer, normalize)
        self.pool.check(model.config)
        self.pooling, self.layer, self.normalize = self.pool
        self.width = model.config.hidden_size
        self._runner = self._make_runner(self._vectors, 4 * self.width)
        self._column_model: keras.Model | None = None
        self._loss: Any = None
        self._loss_arguments: tuple = ()

    def _vectors(self, batch):
        if keras.backend.backend() == "tensorflow":
            return {"vectors": self.pool.compute(self.model, batch)}

        def predict(*values):
            columns = {name: x[:, None] for name, x in zip(batch, values, strict=True)}
            return predict_on_batch(self._trained_model, columns)[:, 0]

        vectors = tf.numpy_function(predict, list(batch.values()), tf.float32)
        return {"vectors": tf.ensure_shape(vectors, (None, self.width))}

    @classmethod
    def from_preset(  # type: ignore[override]
        cls, preset: str | PretrainedFiles, **options: Any
    ) -> "SentenceEncoder":
        """Create a pipeline; see `pipelines.TextPipeline` for the options.

        Options that are None or missing default to the settings saved with the model by
        sentence-transformers or `run_sentence_encoder.py`.
        """
        model_files = checkpoints.resolve(preset)
        path = model_files.checkpoint
        given = {name: value for name, value in options.items() if value is not None}
        if stored := SentenceEmbeddingConfig.load(model_files.folder):
            names = ("pooling", "layer", "normalize", "max_seq_length")
            defaults = {name: getattr(stored, name) for name in names}
        else:
            defaults = sentence_transformers_options(path, given.get("pooling"))
        used = [f"{name}={value}" for name, value in defaults.items() if name not in given]
        if used:
            console.info("from the settings in %s: %s", path, ", ".join(used))
        return super().from_preset(model_files, **{**defaults, **given})

    @property
    def _trained_model(self):
        if self._column_model is None:
            with self._strategy.scope():
                self._column_model = ColumnModel(self.model, self.pool)
        return self._column_model

    @with_columns(**_TABLE)
    def fit(
        self,
        texts: Any,
        scores: Any = None,
        loss: str | None = None,
        validation_data: Any = None,
        validation_split: float = 0.0,
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        learning_rate: float | None = None,
        callbacks: Any = None,
        temperature: float = 0.05,
        symmetric: bool = False,
        matryoshka_dims: Sequence[int] = (),
        mini_batch_size: int | None = None,
        shuffle: bool = True,
        **options: Any,
    ) -> keras.callbacks.History:
        """Train the model with `keras.Model.fit` and a loss of sentence-transformers.

        Args:
          texts: list of pairs, or of triplets (text, similar text, different text); a tuple of two
            or three lists; or a table with columns such as "sentence1" and "sentence2" or "anchor",
            "positive" and "negative", and optionally "score": a dict of lists, a DataFrame, a
            `datasets.Dataset` or a `tf.data.Dataset` of dicts.
          scores: list with the similarity of each pair, a number; None if all pairs are similar.
          loss: one of
            "contrastive" (MultipleNegativesRankingLoss): find the second text of each example among
              the second and third texts of the batch, over all devices; the default without scores;
            "cosent" (CoSENTLoss): rank pairs by their scores; the default with scores;
            "cosine" (CosineSimilarityLoss): match cosines to scores from -1 to 1;
            "triplet" (TripletLoss): place the third text farther away than the second.
          validation_data: (texts, scores), texts or a table. Adds "val_loss" to the history after
            each epoch, and with scores "val_spearman" and "val_pearson".
          validation_split: fraction of the texts to validate on, from the end of the list.
          epochs: number of passes over the texts.
          batch_size: number of pairs or triplets per step, over all devices.
          learning_rate: the peak learning rate, None for 5e-5; see `compile` for the schedule.
          callbacks: list of Keras callbacks.
          temperature: divisor of the cosines in "contrastive" and "cosent".
          symmetric: whether "contrastive" also finds the first text given the second.
          matryoshka_dims: train on the sum of the losses of the vectors truncated to these lengths,
            which may include the full length.
          mini_batch_size: number of pairs or triplets to compute at a time, so that large batches
            fit in memory (GradCache); the results are the same, and a step takes about a third
            longer. None for the whole batch.
          shuffle: whether to reshuffle the texts in each epoch.
          **options: other arguments of `keras.Model.fit`, such as `verbose`.

        Raises:
          UserError: if an argument is invalid.
        """
        config = self._check_fit(
            options, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
            validation_split=validation_split, shuffle=shuffle,
        )  # fmt: skip
        data = self._check_data(texts, scores, ("texts", "scores"))
        if validation_split:
            data, validation_data = split_columns(data, (), validation_split, validation_data)
        elif validation_data is not None:
            values = (validation_data, None)
            if scores is not None:
                is_pair = isinstance(validation_data, (tuple, list)) and len(validation_data) == 2
                values = validation_data if is_pair else (validation_data, [])
            validation_data = self._check_data(values[0], values[1], ["validation_data"] * 2)
        *columns, _ = data
        arguments = (
            loss, len(columns), scores is not None, temperature, symmetric, tuple(matryoshka_dims),
            self.width,
        )  # fmt: skip
        if mini_batch_size is not None:
            if keras.backend.backend() != "tensorflow":
                raise UserError("`mini_batch_size` requires the TensorFlow backend of Keras")
            BatchConfig(mini_batch_size).validate()
        if mini_batch_size != self._trained_model.mini_batch_size:
            self._trained_model.mini_batch_size, self._loss_arguments = mini_batch_size, ()
        if arguments != self._loss_arguments:  # else the compiled step can be reused
            self._loss, self._loss_arguments, self._fit_key = make_loss(*arguments), arguments, ()
            if self._trained_model.compiled:
                optimizer = self._trained_model.optimizer
                # With float16, Keras has wrapped the optimizer.
                self._compile(getattr(optimizer, "inner_optimizer", optimizer))
        callbacks = keras.tree.flatten(callbacks or [])
        validation = None
        if validation_data is not None:
            validation = self._dataset(validation_data, batch_size)
            if scores is not None:
                callbacks.insert(0, AddScores(lambda: self._correlations(*validation_data)))
        dataset = self._dataset(data, batch_size, shuffle)
        return self._fit(dataset, validation, config, callbacks, options)

    @with_columns(**_TABLE)
    def evaluate(self, texts: Any, scores: Any) -> dict[str, float]:
        """Return a dict of the Spearman and Pearson correlations between cosines and scores."""
        data = self._check_data(texts, scores, ("texts", "scores"))
        return self._correlations(*data)

    def evaluate_search(
        self, queries: Any, documents: Any, relevant: Sequence[Iterable[int]], k: int = 10
    ) -> dict[str, float]:
        """Return a dict of recall@k, MRR@k and nDCG@k of a search by cosine.

        Args:
          queries: list of str.
          documents: list of str.
          relevant: for each query, the indices of its relevant documents.
          k: number of documents that are found for each query.
        """
        query_vectors, vectors = (l2_normalize(self.encode(x)) for x in (queries, documents))
        return search_scores(query_vectors, vectors, relevant, k)

    def _check_data(self, texts, scores, arguments):
        columns = check_columns(texts, arguments[0], (2, 3))
        if scores is None:
            return [*columns, [0.0] * len(columns[0])]
        if len(columns) != 2:
            raise UserError(
                f"`{arguments[1]}`: found {len(columns)} columns of texts, expected pairs"
            )
        return [*columns, check_numbers(scores, arguments[1], len(columns[0]))]

    def _correlations(self, first, second, scores):
        return correlations(*(l2_normalize(self.encode(x)) for x in (first, second)), scores)

    def _default_compile_arguments(self):
        return {"loss": self._loss}

    def _dataset(self, data, batch_size, shuffle=False):
        """Return a dataset of batches of inputs (B, C, S) and scores (B,)."""
        *columns, scores = data
        num_columns = len(columns)
        rows = []
        for column in columns:
            texts = (Text(i, text, None) for i, text in enumerate(column))
            rows.append([x.input_ids for x in self._encode(texts)])

        def encode(*values):
            *ids, scores = values
            # Concatenate the columns to pad them to the same length.
            ids = tf.concat(ids, 0)
            mask = tf.cast(tf.sequence_mask(ids.row_lengths()), tf.int32)
            ids = ids.to_tensor()
            batch = {"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}
            batch = pad_batch(batch, self._strategy, self.max_seq_length)
            shape = (num_columns, -1, tf.shape(batch["input_ids"])[1])
            inputs = {
                name: tf.transpose(tf.reshape(x, shape), (1, 0, 2)) for name, x in batch.items()
            }
            return inputs, scores

        columns = (*map(ragged, rows), tf.constant(scores, tf.float32))
        return self._batches(columns, encode, batch_size, shuffle)

    def encode(self, sentences: Iterable[str]) -> np.ndarray:
        """Return the vectors of an iterable of str as float32 (B, H)."""
        rows = [vector for _, vector in self.stream(sentences)]
        return np.array(rows, "float32").reshape(-1, self.width)

    def predict(self, texts: str | Iterable[str]) -> np.ndarray:
        """Return the vectors of texts, float32 (B, H), or of a single text, float32 (H,)."""
        return self.encode([texts])[0] if isinstance(texts, str) else self.encode(texts)

    def _write_preset(self, folder):
        config = self.model.config
        num_layers = self.layer % config.num_hidden_layers + 1
        unused = [f"bert/encoder/layer_{i}/" for i in range(num_layers, config.num_hidden_layers)]
        tensors = {
            name: value
            for name, value in checkpoints.tensors(self.model).items()
            if not name.startswith(tuple(unused))
        }
        config = BertConfig.from_dict({**config.to_dict(), "num_hidden_layers": num_layers})
        modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
        pooling = {setting: self.pooling == name for name, setting in POOLINGS.items()}
        values = {
            "modules.json": [
                {"idx": i, "name": str(i), "path": path, "type": f"{_MODULES}.{name}"}
                for i, (name, path) in enumerate(modules[: 3 if self.normalize else 2])
            ],
            "sentence_bert_config.json": {
                "max_seq_length": self.max_seq_length,
                "do_lower_case": False,
            },
            "1_Pooling/config.json": {"word_embedding_dimension": self.width, **pooling},
        }
        write_pretrained(folder, tensors, config, self.tokenizer)
        for name, value in values.items():
            files.write_text(os.path.join(folder, name), json.dumps(value, indent=2) + "\n")

    def _servable(self, serving_config):
        return sentence_embedding_servable(
            self.model, self.pool, self.max_seq_length, self.tokenizer, serving_config
        )

    def stream(
        self, sentences: Iterable[str], description: str = "reading sentences"
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each sentence and its vector (H,), reading the sentences lazily."""
        rows = enumerate(check_collection(sentences))
        texts = (Text(index, sentence, None) for index, sentence in rows)
        for encoded, arrays in self._runner.run(self._encode(texts), description, "sentences"):
            yield encoded.text.text_a, arrays["vectors"]


def pretrained_servable(preset, serving_config, max_seq_length=None):
    """Return the `Servable` of a pre-trained model; `max_seq_length` defaults to its setting."""
    encoder = SentenceEncoder.from_preset(preset, max_seq_length=max_seq_length)
    return encoder._servable(serving_config)


SPEC = TaskSpec(
    name="sentence_embedding",
    config_class=SentenceEmbeddingConfig,
    read=read,
    make_model=make_model,
    make_servable=trained_servable,
    pretrained_servable=pretrained_servable,
)
