"""Sentence embedding: losses, predictions and metrics."""

import functools

import numpy as np
from keras import ops

from bert_tf.tasks.sentence_embedding.losses import make_loss
from bert_tf.tasks.sentence_embedding.options import SINGLE_LOSSES
from bert_tf.tasks.sentence_embedding.search import l2_normalize, search_scores
from bert_tf.training.objective import Objective
from bert_tf.training.results import METRICS

# Options of the loss.
LOSS_OPTIONS = ("loss", "temperature", "symmetric", "matryoshka_dims", "mini_batch_size")

# Number of results in the search metrics, such as recall@10.
_K = 10

# Metrics of pairs with scores, and of others.
_SCORED, _SEARCH = ("spearman", "pearson"), tuple(f"{x}@{_K}" for x in ("mrr", "ndcg", "recall"))


class SentenceEmbeddingObjective(Objective):
    """Trains sentence vectors by comparing the texts of an example or of a batch."""

    loss_names = ("sentence_loss",)

    def __init__(self, model, options, width, data_format, is_dev_scored, is_training=True):
        """Create the objective for `SentenceEmbeddingData` and the `width` of a vector.

        `data_format` is (number of texts, whether they have scores).
        """
        self.model = model
        self.model.mini_batch_size = options.mini_batch_size
        names = _SCORED if is_dev_scored else _SEARCH
        self.metric_names = tuple(f"eval_{name}" for name in names)
        self._is_scored = is_dev_scored
        self.key = {name: getattr(options, name) for name in LOSS_OPTIONS}
        self.key |= {"num_texts": data_format[0], "has_scores": data_format[1]}
        self.compares_replicas = is_training and options.loss not in SINGLE_LOSSES
        self._make_loss = functools.partial(make_loss, options, width, *data_format)
        if is_training:  # else the data may not match the loss
            self._make_loss()

    def losses(self, outputs, batch, denominators, training=True):
        losses = self._make_loss()(batch["label_value"], outputs, batch["text_ids"])
        losses *= self.example_weights(batch)
        return {"sentence_loss": ops.sum(losses) / denominators["examples"]}

    def keras_targets(self, batch, denominators):
        return batch["label_value"], self.example_weights(batch) / denominators["examples"]

    def predictions(self, outputs, batch):
        return {"vectors": outputs, **{name: batch[name] for name in ("label_value", "text_ids")}}

    def metrics(self, predictions):
        vectors = l2_normalize(predictions["vectors"])
        if self._is_scored:
            cosines = (vectors[:, 0] * vectors[:, 1]).sum(-1)
            scores = {x: float(METRICS[x](predictions["label_value"], cosines)) for x in _SCORED}
        else:
            scores = _search(vectors, predictions["text_ids"])
        return {f"eval_{name}": value for name, value in scores.items()}


def _search(vectors, text_ids):
    """Evaluate the search for each second text among all distinct ones, given the first text."""
    documents = vectors[:, 1:].reshape(-1, vectors.shape[-1])
    document_ids, rows = np.unique(text_ids[:, 1:], return_index=True)
    query_ids, query_rows = np.unique(text_ids[:, 0], return_index=True)
    relevant = [set() for _ in query_ids]
    queries = np.searchsorted(query_ids, text_ids[:, 0])
    answers = np.searchsorted(document_ids, text_ids[:, 1])
    for query, document in zip(queries, answers, strict=True):
        relevant[query].add(document)
    return search_scores(vectors[query_rows, 0], documents[rows], relevant, _K)
