"""Sentence embedding: model, loss and metrics."""

import numpy as np
import tensorflow as tf

from bert_tf.modeling.models import BertModel
from bert_tf.tasks.sentence_embedding.evaluation import correlations, search_scores
from bert_tf.tasks.sentence_embedding.neighbors import l2_normalize
from bert_tf.tasks.sentence_embedding.pooling import Pooling
from bert_tf.tasks.sentence_embedding.training import ColumnModel, make_loss
from bert_tf.training.task import Task

# Number of results in the search metrics, such as recall@10.
_K = 10


def make_model(config, dtype=None):
    pooling = Pooling(config.pooling, config.layer, config.normalize)
    pooling.check(config.bert_config)
    return ColumnModel(BertModel(config.bert_config, dtype), pooling)


def metric_names(is_scored):
    """Return the names of the metrics: correlations for pairs with scores, else search metrics."""
    names = (
        ("spearman", "pearson") if is_scored else (f"{x}@{_K}" for x in ("mrr", "ndcg", "recall"))
    )
    return tuple(f"eval_{name}" for name in names)


class SentenceEmbeddingTask(Task):
    """Trains sentence vectors by comparing the texts of an example or of a batch."""

    loss_names = ("sentence_loss",)

    def __init__(self, config, train_format, is_dev_scored, dtype=None):
        """Create the model; `train_format` is (number of texts, whether they have scores)."""
        self.model = make_model(config, dtype)
        self.model.mini_batch_size = config.mini_batch_size
        self.metric_names = metric_names(is_dev_scored)
        self._is_scored = is_dev_scored
        self._loss = None
        if train_format:
            self._loss = make_loss(
                config.loss, *train_format, config.temperature, config.symmetric, config.dims,
                config.bert_config.hidden_size,
            )  # fmt: skip
        # Whether the loss of an example depends on the batches of all devices.
        self.compares_replicas = self._loss is not None and self._loss.compares_examples

    def losses(self, outputs, batch, weights):
        losses = self._loss.call(batch["label_value"], outputs)
        return {"sentence_loss": tf.reduce_sum(losses) / weights["examples"]}

    def predictions(self, outputs, batch):
        return {"vectors": outputs, **{name: batch[name] for name in ("label_value", "text_ids")}}

    def metrics(self, predictions):
        vectors = l2_normalize(predictions["vectors"])
        if self._is_scored:
            scores = correlations(vectors[:, 0], vectors[:, 1], predictions["label_value"])
        else:
            scores = _search(vectors, predictions["text_ids"])
        return {f"eval_{name}": value for name, value in scores.items()}


def _search(vectors, text_ids):
    """Evaluate the search for each second text among all distinct ones, given the first text."""
    documents, document_ids = vectors[:, 1:].reshape(-1, vectors.shape[-1]), text_ids[:, 1:]
    document_ids, rows = np.unique(document_ids, return_index=True)
    query_ids, query_rows = np.unique(text_ids[:, 0], return_index=True)
    relevant = [set() for _ in query_ids]
    queries = np.searchsorted(query_ids, text_ids[:, 0])
    answers = np.searchsorted(document_ids, text_ids[:, 1])
    for query, document in zip(queries, answers, strict=True):
        relevant[query].add(document)
    return search_scores(vectors[query_rows, 0], documents[rows], relevant, _K)
