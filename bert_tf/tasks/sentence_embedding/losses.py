"""Model and losses of sentence embedding, as in sentence-transformers (arXiv:1908.10084)."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf.errors import UserError
from bert_tf.modeling.base import CALL_ARGUMENTS, EncoderModel
from bert_tf.modeling.models import first_position
from bert_tf.tasks.sentence_embedding.search import MIN_NORM
from bert_tf.tokenization.settings import INPUTS


class Pooling(NamedTuple):
    """A pooling method; see `SentenceEncoder` for the fields."""

    pooling: str
    layer: int
    normalize: bool
    truncate_dim: int | None = None

    def compute(self, model, batch, **options):
        """Return the sentence vectors, float32 (B, H); `model` is called like a `BertModel`."""
        if self.pooling == "cls" and self.layer == -1:
            x = model(batch, positions=first_position(batch), **options)["sequence_output"]
        else:
            x = model(batch, **options)["all_encoder_layers"][self.layer]
        x = ops.cast(x, "float32")
        mask = ops.expand_dims(ops.cast(batch["input_mask"], "float32"), 2)
        vectors = [_pool(name, x, mask) for name in self.pooling.split(",")]
        x = ops.concatenate(vectors, -1) if len(vectors) > 1 else vectors[0]
        if self.normalize:
            x = x / ops.maximum(ops.norm(x, axis=-1, keepdims=True), MIN_NORM)
        return x[:, : self.truncate_dim] if self.truncate_dim else x

    def add_to_onnx(self, graph, inputs):
        """Add `compute` to an `OnnxGraph`; return the vectors."""
        x = graph.encode(inputs, graph.first if self.pooling == "cls" else None, self.layer)
        mask = graph.op("Unsqueeze", graph.cast(inputs["input_mask"], "float32"), [2])
        vectors = [_add_pooling(graph, name, x, mask) for name in self.pooling.split(",")]
        x = graph.op("Concat", *vectors, axis=1)
        if self.normalize:
            norm = graph.op("Max", graph.op("ReduceL2", x, [1]), np.float32(MIN_NORM))
            x = graph.op("Div", x, norm)
        return graph.op("Slice", x, [0], [self.truncate_dim], [1]) if self.truncate_dim else x


def _pool(name, x, mask):
    if name == "cls":
        return x[:, 0]
    if name == "max":
        return ops.max(x - (1.0 - mask) * 1e30, axis=1)
    weights = mask
    if name == "weightedmean":
        weights = mask * ops.cumsum(mask, axis=1)
    elif name == "lasttoken":
        is_last = ops.equal(ops.cumsum(mask, axis=1), ops.sum(mask, axis=1, keepdims=True))
        weights = mask * ops.cast(is_last, "float32")
    total = ops.sum(weights, axis=1)
    return ops.sum(x * weights, axis=1) / (ops.sqrt(total) if "sqrt" in name else total)


def _add_pooling(graph, name, x, mask):
    """Add `_pool` to an `OnnxGraph`."""
    op = graph.op
    if name == "cls":
        return op("Gather", x, 0, axis=1)
    if name == "max":
        padding = op("Mul", op("Sub", np.float32(1), mask), np.float32(1e30))
        return op("ReduceMax", op("Sub", x, padding), [1], keepdims=0)
    weights, numbers = mask, op("CumSum", mask, 1)
    if name == "weightedmean":
        weights = op("Mul", mask, numbers)
    elif name == "lasttoken":
        is_last = op("Equal", numbers, op("ReduceSum", mask, [1]))
        weights = op("Mul", mask, graph.cast(is_last, "float32"))
    total = op("ReduceSum", weights, [1], keepdims=0)
    x = op("ReduceSum", op("Mul", x, weights), [1], keepdims=0)
    return op("Div", x, op("Sqrt", total) if "sqrt" in name else total)


# The margin of the triplet loss, the default of sentence-transformers.
_MARGIN = 5.0


@keras.saving.register_keras_serializable("bert_tf", "ColumnModel")  # as in saved files
class SentenceEmbeddingModel(EncoderModel, keras.Model):
    """Computes the vectors (B, C, H) of inputs (B, C, S) with C texts per example."""

    # A checkpoint may lack the weights of the pooler.
    uses_pooler = False

    def __init__(self, bert, pooling):
        super().__init__(name="bert_sentence_encoder", dtype=bert.dtype_policy)
        self.bert, self.pooling = bert, pooling
        self.mini_batch_size = None
        self._register_call_context_args(*CALL_ARGUMENTS)
        self.build(dict.fromkeys(INPUTS, (None, None, None)))

    def get_config(self):
        bert = keras.saving.serialize_keras_object(self.bert)
        return {"bert": bert, "pooling": list(self.pooling)}

    @classmethod
    def from_config(cls, config):
        bert = keras.saving.deserialize_keras_object(config["bert"])
        return cls(bert, Pooling(*config["pooling"]))

    # Keras passes a context argument such as `skip_padding` only if `call` names it.
    def call(self, inputs, training=None, skip_padding=None, **options):
        """Return the vectors; ignore extra `inputs`, and pass `options` to `BertModel`."""
        inputs = {name: inputs[name] for name in INPUTS}
        options["training"] = training
        options["skip_padding"] = self.skip_padding if skip_padding is None else skip_padding
        if training and self.mini_batch_size:
            return self._compute_in_parts(inputs, options)
        return self._compute_columns(inputs, options)

    def _compute_columns(self, inputs, options):
        shape = ops.shape(inputs["input_ids"])
        batch = {name: ops.reshape(x, (-1, shape[2])) for name, x in inputs.items()}
        vectors = self.pooling.compute(self.bert, batch, **options)
        return ops.reshape(vectors, (*shape[:2], vectors.shape[-1]))

    def _compute_in_parts(self, inputs, options):
        """Compute vectors in parts; recompute them for gradients (GradCache, arXiv:2101.06983)."""
        seeds = [x.value for x in self.bert.variables if x.path.endswith("seed_generator_state")]
        inputs = {name: tf.convert_to_tensor(x) for name, x in inputs.items()}
        count = tf.shape(inputs["input_ids"])[0]
        num_parts = (count + self.mini_batch_size - 1) // self.mini_batch_size
        # Repeat the last example to fill the last part; the copies get no gradient.
        rows = tf.minimum(tf.range(num_parts * self.mini_batch_size), count - 1)
        rows = tf.reshape(rows, (num_parts, self.mini_batch_size))

        def compute(part):
            batch = {name: tf.gather(x, part) for name, x in inputs.items()}
            return self._compute_columns(batch, options)

        @tf.custom_gradient
        def vectors_of(rows):
            states = [tf.identity(seed) for seed in seeds]
            vectors = tf.map_fn(
                compute, rows, fn_output_signature=tf.float32, parallel_iterations=1
            )

            def gradients(upstream, variables):
                for seed, state in zip(seeds, states, strict=True):
                    seed.assign(state)  # repeat the same dropout

                def add(totals, values):
                    part, gradient = values
                    with tf.GradientTape() as tape:
                        vectors = compute(part)
                    part_gradients = tape.gradient(vectors, variables, gradient, "zero")
                    return [a + b for a, b in zip(totals, part_gradients, strict=True)]

                totals = [tf.zeros_like(x) for x in variables]
                return None, tf.foldl(add, (rows, upstream), totals, parallel_iterations=1)

            return vectors, gradients

        vectors = vectors_of(rows)
        return tf.reshape(vectors, (-1, *vectors.shape[2:]))[:count]


def contrastive(options, _, vectors, text_ids=None):
    """Return the cross entropy (B,) of finding each example's second text, given the first.

    The candidates are the second texts and the third texts (hard negatives) of all examples on all
    replicas (arXiv:1705.00652, section 4.4). With `text_ids` (B, C), equal for equal texts, those
    that repeat a right answer are left out: the text, its partners, and copies of both.
    """
    columns = ops.unstack(ops.normalize(vectors), axis=1)
    own = ops.arange(ops.shape(vectors)[0])
    everything, offset = _gather_replicas(columns)
    own += offset
    if text_ids is not None:
        ids = ops.unstack(text_ids, axis=1)
        all_ids, _ = _gather_replicas(ids)

    def find(query, answer, candidates):
        vectors = ops.concatenate([everything[i] for i in candidates])
        logits = ops.matmul(columns[query], ops.transpose(vectors)) / options.temperature
        if text_ids is not None:
            candidate_ids = ops.concatenate([all_ids[i] for i in candidates])
            # A hard negative has no partner.
            partners = [all_ids[query if i == answer else i] for i in candidates]
            is_right = ops.equal(ops.concatenate(partners), ids[query][:, None])
            for column in (query, answer):
                is_right |= ops.equal(candidate_ids, ids[column][:, None])
            is_right &= ops.not_equal(ops.arange(ops.shape(candidate_ids)[0]), own[:, None])
            logits = ops.where(is_right, -1e9, logits)
        return keras.losses.sparse_categorical_crossentropy(own, logits, from_logits=True)

    losses = find(0, 1, range(1, len(columns)))
    if options.symmetric:
        losses = (losses + find(1, 0, [0])) / 2
    return losses


def _gather_replicas(tensors):
    """Gather tensors (B, ...) from all replicas; return them and the offset of this replica's."""
    replica = None
    if keras.backend.backend() == "tensorflow":
        replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return tensors, 0
    sizes = replica.all_gather(tf.shape(tensors[0])[:1], 0)
    offset = tf.reduce_sum(sizes[: replica.replica_id_in_sync_group])
    return [replica.all_gather(x, 0) for x in tensors], offset


def cosine(options, scores, vectors, text_ids):
    """Return the squared differences (B,) of cosines and scores."""
    return ops.square(_cosines(vectors) - ops.cast(scores, "float32"))


def cosent(options, scores, vectors, text_ids):
    """Return the CoSENT loss (Su 2022) of ranking pairs by their scores, repeated to (B,).

    It is log(1 + sum of exp((cos_i - cos_j) / temperature)) over all i, j with score_i < score_j.
    """
    own = [_cosines(vectors) / options.temperature, ops.cast(scores, "float32")]
    (cosines, scores), _ = _gather_replicas(own)
    differences = cosines[:, None] - cosines[None, :]
    is_wrong_order = scores[:, None] < scores[None, :]
    differences = ops.reshape(ops.where(is_wrong_order, differences, -1e12), (-1,))
    loss = ops.logsumexp(ops.concatenate([ops.zeros((1,)), differences]))
    return ops.broadcast_to(loss, ops.shape(vectors)[:1])


def triplet(config, _, vectors, text_ids):
    """Return the triplet loss (B,) with Euclidean distances."""
    anchor, positive, negative = ops.unstack(vectors, axis=1)
    return ops.relu(_distance(anchor, positive) - _distance(anchor, negative) + _MARGIN)


def _distance(a, b):
    # The gradient of the square root is infinite at 0.
    return ops.sqrt(ops.maximum(ops.sum(ops.square(a - b), -1), 1e-12))


def _cosines(vectors):
    a, b = ops.unstack(ops.normalize(vectors), axis=1)
    return ops.sum(a * b, -1)


# Loss name -> (function, allowed numbers of columns, whether it needs scores).
LOSSES = {
    "contrastive": (contrastive, (2, 3), False),
    "cosent": (cosent, (2,), True),
    "cosine": (cosine, (2,), True),
    "triplet": (triplet, (3,), False),
}


def make_loss(options, width, num_columns, has_scores):
    """Return the loss of a `SentenceEmbeddingData`, whose default depends on the data.

    `width` is the length of a vector. The loss is a function of scores (B,), vectors (B, C, H) and
    the ids of texts (B, C), summed over truncated vectors (Matryoshka representation learning,
    arXiv:2205.13147).
    """
    name = options.loss or ("cosent" if has_scores else "contrastive")
    function, columns, needs_scores = LOSSES[name]
    if num_columns not in columns:
        found = f"found {num_columns} texts per example"
        raise UserError(f"`loss={name}`: {found}, expected {' or '.join(map(str, columns))}")
    if needs_scores != has_scores:
        verb = "requires" if needs_scores else "cannot be combined with"
        raise UserError(f"`loss={name}` {verb} `scores`")
    dims = options.matryoshka_dims
    if any(not 0 < x <= width for x in dims):
        raise UserError(f"`matryoshka_dims={dims}`: expected numbers from 1 to {width}")
    if options.symmetric and function is not contrastive:
        raise UserError(f"`symmetric` has no effect with `loss={name}`")

    def loss(scores, vectors, text_ids):
        sizes = dims or (width,)
        return sum(function(options, scores, vectors[..., :size], text_ids) for size in sizes)

    return loss
