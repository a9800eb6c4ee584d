"""Token classification: features, losses and metrics.

The tag of a word is predicted at its first WordPiece (BERT paper, section 5.3). A sentence that
does not fit into one sequence is split into overlapping windows, and each word is tagged in the
window with the most context around it.
"""

import itertools

import numpy as np
from keras import ops

from bert_tf.data import records
from bert_tf.data.features import Features
from bert_tf.tasks.token_classification.schemes import convert_tags
from bert_tf.tasks.token_classification.scoring import SpanCounts
from bert_tf.tokenization.packing import SlidingWindows, pack_pair
from bert_tf.tokenization.settings import UNK
from bert_tf.training import results
from bert_tf.training.objective import Objective, argmax

# Values of `word_starts` for a token: no word to tag starts here; a word starts; a sentence starts.
NOT_WORD_START, WORD_START, SENTENCE_START = 0, 1, 2


def make_features(sentences, tokenizer, config):
    """Return the `Features` of `Sentence`s."""
    documents = []
    for sentence in sentences:
        if not config.document_context or sentence.leading_lines or not documents:
            documents.append([])
        documents[-1].append(sentence)
    tags = config.tags
    return Features.of_examples(
        documents, records.TOKEN_CLASSIFICATION, convert_documents, tokenizer, config,
        data=([s.words, s.tags, bool(s.leading_lines)] for s in sentences),
        axes={"S": config.max_seq_length},
        num_labels=len(tags.names),
        options={"config": config},
        fingerprint={
            "tags": list(tags),
            "doc_stride": config.doc_stride,
            "document_context": config.document_context,
        },
    )  # fmt: skip


def encode_words(document, tags, tokenizer):
    """Tokenize a document; return lists of token ids, tag ids and `word_starts`."""
    tag_to_id = {name: number for number, name in enumerate(tags.names)}
    ids, tag_ids, starts = [], [], []
    for sentence in document:
        sentence_tags = tags.convert(sentence) if sentence.tags is not None else None
        for i, pieces in enumerate(tokenizer.encode_batch(sentence.words)):
            # A word needs a tag even if the tokenizer removes all of its characters.
            pieces = pieces or [tokenizer.vocab[UNK]]
            more = len(pieces) - 1
            ids += pieces
            tag_ids += [tag_to_id[sentence_tags[i]] if sentence_tags else 0] + [0] * more
            starts += [WORD_START if i else SENTENCE_START] + [NOT_WORD_START] * more
    return ids, tag_ids, starts


def convert_documents(documents, tokenizer, config, lengths):
    """Yield each window as a dict for `records.TOKEN_CLASSIFICATION`.

    A word is tagged in only one window.
    """
    for document in documents:
        ids, tag_ids, starts = encode_words(document, config.tags, tokenizer)
        windows = SlidingWindows(len(ids), config.window_size, config.stride)
        for index, (first, length) in enumerate(windows.spans):
            tokens = range(first, first + length)
            padding = [0] * (config.window_size - length)
            word_starts = [
                starts[i] if windows.is_max_context(index, i) else NOT_WORD_START for i in tokens
            ]
            window_tags = (tag_ids[i] if word_starts[i - first] else 0 for i in tokens)
            yield {
                **pack_pair(ids[first : first + length], [], tokenizer, config.max_seq_length),
                "tag_ids": [0, *window_tags, 0, *padding],
                "word_starts": [0, *word_starts, 0, *padding],
            }


class TokenClassificationObjective(Objective):
    """Trains a token classifier on records with the schema `records.TOKEN_CLASSIFICATION`."""

    label_name = "tag_ids"
    loss_names = ("tagging_loss",)
    fit_metric_names = ("accuracy",)

    def __init__(self, model, config, class_weights=None):
        """Create the objective; `class_weights`, by tag, multiply the losses of words."""
        self.model, self.key = model, {"class_weights": class_weights}
        spans = () if config.tags.scheme == "none" else ("eval_precision", "eval_recall", "eval_f1")
        self.metric_names = ("eval_accuracy", *spans, "eval_loss", "loss")
        self._tags, self._length = config.tags, config.max_seq_length
        self.class_weights = class_weights

    def denominators(self, batch):
        return {"words": ops.sum(self._is_word(batch))}

    def _is_word(self, batch):
        """Return 1 at the first token of each word of a real example, float32 (B, S)."""
        is_word = ops.cast(ops.not_equal(batch["word_starts"], NOT_WORD_START), "float32")
        return is_word * self._is_real(batch)[:, None]

    def losses(self, outputs, batch, denominators, training=True):
        losses = self._losses(outputs, batch) * self.example_weights(batch)[:, None]
        losses = losses * self.class_factors(batch) if training else losses
        # A batch may have no words if all are classified in other windows.
        return {"tagging_loss": ops.sum(losses) / ops.maximum(denominators["words"], 1.0)}

    def _losses(self, outputs, batch):
        """Return the loss of each word at its first token, 0 elsewhere, (B, S)."""
        labels, logits = batch["tag_ids"], outputs["logits"]
        losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return ops.where(ops.not_equal(batch["word_starts"], NOT_WORD_START), losses, 0.0)

    def fit_metrics(self, outputs, batch):
        is_correct = ops.equal(argmax(outputs["logits"]), ops.cast(batch["tag_ids"], "int32"))
        return {"accuracy": (is_correct, self._is_word(batch))}

    def keras_targets(self, batch, denominators):
        factors = self._is_word(batch) * self.example_weights(batch)[:, None]
        return batch["tag_ids"], factors / ops.maximum(denominators["words"], 1.0)

    def predictions(self, outputs, batch):
        """Return predicted tags, true tags and word starts (B, max_seq_length), and loss (B,)."""
        predictions = {"loss": ops.sum(self._losses(outputs, batch), -1)}
        values = {name: batch[name] for name in ("tag_ids", "word_starts")}
        values["predicted"] = argmax(outputs["logits"])
        # Pad batches of different lengths, because their predictions are concatenated.
        size, length = ops.shape(batch["tag_ids"])
        padding = ops.zeros((size, self._length - length), "int32")
        for name, value in values.items():
            padded = ops.concatenate([ops.cast(value, "int32"), padding], 1)
            predictions[name] = ops.reshape(padded, (-1, self._length))
        return predictions

    def tags(self, predictions, name="predicted"):
        """Return a list of tags for each sentence; `name` is "predicted" or "tag_ids"."""
        starts = predictions["word_starts"]
        is_word = starts != NOT_WORD_START
        names = [self._tags.names[i] for i in predictions[name][is_word]]
        edges = [*np.flatnonzero(starts[is_word] == SENTENCE_START).tolist(), len(names)]
        return [names[i:j] for i, j in itertools.pairwise(edges)]

    def metrics(self, predictions):
        labels, predicted = self.tags(predictions, "tag_ids"), self.tags(predictions)
        loss = float(predictions["loss"].sum(dtype="float64")) / max(sum(map(len, labels)), 1)
        # The accuracy compares tags in the scheme of the data, as conlleval does.
        words = (
            itertools.chain(*(convert_tags(x, *self._tags[1:]) for x in sentences))
            for sentences in (labels, predicted)
        )
        is_correct = [x == y for x, y in zip(*words, strict=True)]
        scores = ()
        if self._tags.scheme != "none":
            scores = SpanCounts(labels, predicted, self._tags.scheme).precision_recall_f1()
        values = (float(np.mean(is_correct)), *scores, loss, loss)
        return dict(zip(self.metric_names, values, strict=True))

    def report(self, predictions):
        """Return a text table with the metrics of each label."""
        labels, predicted = self.tags(predictions, "tag_ids"), self.tags(predictions)
        if self._tags.scheme != "none":
            return SpanCounts(labels, predicted, self._tags.scheme).report()
        flat = [[*itertools.chain(*sentences)] for sentences in (labels, predicted)]
        ids = {name: i for i, name in enumerate(sorted({*flat[0], *flat[1]}))}
        return results.report(*([ids[name] for name in tags] for tags in flat), [*ids])
