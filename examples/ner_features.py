r"""Find named entities with a BiLSTM on the features of a frozen BERT (BERT paper, table 7).

    python -m examples.ner_features --data_dir=conll2003 --model=cased_L-12_H-768_A-12

DATA_DIR has train.txt and dev.txt in the format of CoNLL-2003. The features are computed once and
kept in memory: 800 MB per layer for CoNLL-2003 and BERT-Base.
"""

import bert_tf  # noqa: I001 - before TensorFlow, for which it sets an environment variable
import keras
import tensorflow as tf
from absl import flags
from bert_tf.cli.flags import FLAGS, run
from bert_tf.configs.model import LAYER_COMBINATIONS
from bert_tf.tasks.token_classification.examples import ColumnFiles, infer_tags
from bert_tf.tasks.token_classification.scoring import SpanCounts

flags.DEFINE_string("data_dir", None, "Folder with train.txt and dev.txt.")
flags.DEFINE_string("model", None, "Name or folder of the model.")
flags.DEFINE_integer("units", 768, "Units of each LSTM, in each direction.")
flags.DEFINE_integer("epochs", 3, "Passes over the training set.")
flags.DEFINE_list("combinations", list(LAYER_COMBINATIONS), "Choices of layers to compare.")
flags.mark_flags_as_required(["data_dir", "model"])


def make_vectors(model, combination):
    """Return a `TokenVectors` with a vector per word, or per layer if a weighted sum is learned."""
    config = bert_tf.checkpoints.resolve(model).bert_config
    layers = {"layer_combination": combination}
    if combination.startswith("weighted_sum"):
        count = 4 if combination == "weighted_sum_last_four" else config.num_hidden_layers
        layers = {"layers": range(-count, 0)}
    return bert_tf.TokenVectors.from_preset(
        model, words="first", max_seq_length=config.max_position_embeddings, **layers
    )


def make_features(vectors, sentences):
    """Return an array (words, layers, width) for each sentence."""
    texts = (" ".join(sentence.words) for sentence in sentences)
    features = []
    for text, sentence in zip(vectors.stream(texts), sentences, strict=True):
        assert text.tokens == list(sentence.words), "a sentence is too long or has empty words"
        features.append(text.values)
    return features


def make_tagger(num_layers, width, num_tags, units):
    inputs = x = keras.Input((None, num_layers, width))
    if num_layers > 1:  # a sum with learned weights, initially the mean
        mean = keras.initializers.Constant(1 / num_layers)
        x = keras.layers.Permute((1, 3, 2))(x)
        x = keras.layers.Dense(1, use_bias=False, kernel_initializer=mean)(x)
    x = keras.layers.Reshape((-1, width))(x)
    x = keras.layers.Masking()(x)  # padding is zero
    for _ in range(2):
        x = keras.layers.Bidirectional(keras.layers.LSTM(units, return_sequences=True))(x)
    return keras.Model(inputs, keras.layers.Dense(num_tags)(x))


def train(data_dir, model, combination, units=768, epochs=3, batch_size=32):
    """Train a tagger; return its precision, recall and F1 on dev.txt."""
    files = ColumnFiles(data_dir)
    splits = {name: files.read(name) for name in ("train", "dev")}
    tags = infer_tags(splits["train"])
    vectors = make_vectors(model, combination)
    features = {name: make_features(vectors, sentences) for name, sentences in splits.items()}
    labels = {name: [tags.convert(x) for x in sentences] for name, sentences in splits.items()}
    shape = features["train"][0].shape[1:]

    def rows():
        for x, y in zip(features["train"], labels["train"], strict=True):
            yield x, [tags.names.index(tag) for tag in y]

    signature = tf.TensorSpec((None, *shape)), tf.TensorSpec((None,), tf.int32)
    dataset = tf.data.Dataset.from_generator(rows, output_signature=signature)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(splits["train"])))
    tagger = make_tagger(*shape, len(tags.names), units)
    tagger.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    tagger.fit(dataset.shuffle(1000).padded_batch(batch_size), epochs=epochs, shuffle=False)
    best = [tagger.predict_on_batch(x[None])[0].argmax(-1) for x in features["dev"]]
    predicted = [[tags.names[i] for i in row] for row in best]
    return SpanCounts(labels["dev"], predicted).precision_recall_f1()


def main():
    for combination in FLAGS.combinations:
        precision, recall, f1 = train(
            FLAGS.data_dir, FLAGS.model, combination, FLAGS.units, FLAGS.epochs
        )
        print(f"{combination:24} F1 {f1:.1%}, precision {precision:.1%}, recall {recall:.1%}")


if __name__ == "__main__":
    run(main)
