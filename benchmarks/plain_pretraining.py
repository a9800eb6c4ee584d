#!/usr/bin/env python3
"""A plain port of the release's pre-training data code, token by token, with tokens as text.

A baseline for speed and a check of `bert_tf`: the same text, flags and seed give the same file.

    python benchmarks/plain_pretraining.py INPUT VOCABULARY OUTPUT DUPE_FACTOR
"""

import os
import random
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from plain_tokenizer import PlainTokenizer

S, P, MASKED, SHORT, SEED = 128, 20, 0.15, 0.1, 12345


def read(path, tokenizer):
    """Return a list of documents, which are lists of sentences, which are lists of tokens."""
    documents = [[]]
    with tf.io.gfile.GFile(path, "rb") as reader:
        for line in reader:
            text = line.decode("utf-8").strip()
            if not text:
                documents.append([])
            elif tokens := tokenizer.tokenize(text):
                documents[-1].append(tokens)
    return [document for document in documents if document]


def make(documents, words, dupe_factor, rng):
    """Return all instances: dicts of tokens, segments, label, positions and masked tokens."""
    rng.shuffle(documents)
    instances = []
    for _ in range(dupe_factor):
        for number in range(len(documents)):
            instances.extend(document_instances(documents, number, words, rng))
    rng.shuffle(instances)
    return instances


def document_instances(documents, number, words, rng):
    document = documents[number]
    longest = S - 3
    target = rng.randint(2, longest) if rng.random() < SHORT else longest
    instances, chunk, length, i = [], [], 0, 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            cut = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a = [token for sentence in chunk[:cut] for token in sentence]
            b = []
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                for _ in range(10):
                    other = rng.randint(0, len(documents) - 1)
                    if other != number:
                        break
                start = rng.randint(0, len(documents[other]) - 1)
                for sentence in documents[other][start:]:
                    b.extend(sentence)
                    if len(b) >= target - len(a):
                        break
                i -= len(chunk) - cut
            else:
                for sentence in chunk[cut:]:
                    b.extend(sentence)
            truncate(a, b, longest, rng)
            tokens, segments = ["[CLS]"], [0]
            for segment, part in enumerate((a, b)):
                for token in part:
                    tokens.append(token)
                    segments.append(segment)
                tokens.append("[SEP]")
                segments.append(segment)
            tokens, positions, labels = mask(tokens, words, rng)
            instances.append(
                {
                    "tokens": tokens,
                    "segments": segments,
                    "is_random": is_random,
                    "positions": positions,
                    "labels": labels,
                }
            )
            chunk, length = [], 0
        i += 1
    return instances


def truncate(a, b, longest, rng):
    while len(a) + len(b) > longest:
        longer = a if len(a) > len(b) else b
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def mask(tokens, words, rng):
    candidates = []
    for i, token in enumerate(tokens):
        if token == "[CLS]" or token == "[SEP]":
            continue
        candidates.append([i])
    rng.shuffle(candidates)
    masked = list(tokens)
    count = min(P, max(1, round(len(tokens) * MASKED)))
    predictions, covered = [], set()
    for candidate in candidates:
        if len(predictions) >= count:
            break
        if len(predictions) + len(candidate) > count or any(i in covered for i in candidate):
            continue
        for i in candidate:
            covered.add(i)
            if rng.random() < 0.8:
                token = "[MASK]"
            elif rng.random() < 0.5:
                token = tokens[i]
            else:
                token = words[rng.randint(0, len(words) - 1)]
            masked[i] = token
            predictions.append((i, tokens[i]))
    predictions.sort()
    return masked, [i for i, _ in predictions], [label for _, label in predictions]


def write(path, instances, vocab):
    with tf.io.TFRecordWriter(path) as writer:
        for instance in instances:
            ids = to_ids(instance["tokens"], vocab)
            input_mask, segments = [1] * len(ids), list(instance["segments"])
            while len(ids) < S:
                ids.append(0)
                input_mask.append(0)
                segments.append(0)
            positions, labels = list(instance["positions"]), to_ids(instance["labels"], vocab)
            weights = [1.0] * len(labels)
            while len(positions) < P:
                positions.append(0)
                labels.append(0)
                weights.append(0.0)
            features = {
                "input_ids": ids,
                "input_mask": input_mask,
                "segment_ids": segments,
                "masked_lm_positions": positions,
                "masked_lm_ids": labels,
                "masked_lm_weights": weights,
                "next_sentence_labels": [int(instance["is_random"])],
            }
            example = tf.train.Example(
                features=tf.train.Features(
                    feature={name: feature(values) for name, values in features.items()}
                )
            )
            writer.write(example.SerializeToString(deterministic=True))


def to_ids(tokens, vocab):
    ids = []
    for token in tokens:
        ids.append(vocab[token])
    return ids


def feature(values):
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=list(values)))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))


def main(text, vocabulary, output, dupe_factor):
    with open(vocabulary, encoding="utf-8") as reader:
        vocab = {line.strip(): index for index, line in enumerate(reader)}
    documents = read(text, PlainTokenizer(vocab))
    rng = random.Random(SEED)
    instances = make(documents, list(vocab), int(dupe_factor), rng)
    write(output, instances, vocab)
    print(len(instances))


if __name__ == "__main__":
    main(*sys.argv[1:])
