"""SQuAD: files to questions, questions to the release's windows."""

import hashlib
import json

import pytest

import bert_tf
from bert_tf.tasks.question_answering import features, reading


@pytest.fixture(scope="module")
def tokenizer(shared):
    return bert_tf.FullTokenizer(str(shared / "data" / "uncased_vocab.txt"))


GOLDEN = {"v1": "data/xquad/dev.json", "v2": "golden/squad/v2_dev.json"}


def golden(shared, version):
    """The manifest of a case of the release, and the `WindowConfig` of it."""
    manifest = json.loads((shared / "golden" / "squad" / version / "manifest.json").read_text())
    names = ("max_seq_length", "doc_stride", "max_query_length")
    return manifest, features.WindowConfig(**{name: manifest[name] for name in names})


def described(window, tokenizer, cut, unique_id, example_index):
    """A window as the release's InputFeatures, in the order of the golden digests."""
    values = window.values(tokenizer.vocab, cut.max_seq_length, unique_id)
    ids = values["input_ids"][: sum(values["input_mask"])]
    places = range(window.offset, window.offset + window.length)
    return [
        unique_id,
        example_index,
        window.index,
        values["input_ids"],
        values["input_mask"],
        values["segment_ids"],
        window.start_position,
        window.end_position,
        window.is_impossible,
        tokenizer.convert_ids_to_tokens(ids),
        [(place, window.context.word_of[window.token_at(place)]) for place in places],
        [(place, window.is_max_context(place)) for place in places],
    ]


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_features_are_the_release_s(shared, tokenizer, version, is_training):
    manifest, cut = golden(shared, version)
    sha, unique_id, example_index = hashlib.sha256(), features.FIRST_ID, 0
    source = reading.JsonSource(str(shared / GOLDEN[version]), "train_file")
    for paragraph in source.paragraphs():
        for _, windows, _ in features.FeatureConverter(tokenizer, cut, is_training)(paragraph):
            for window in windows:
                row = described(window, tokenizer, cut, unique_id, example_index)
                sha.update(json.dumps(row).encode())
                unique_id += 1
            example_index += 1
    kind = "train" if is_training else "eval"
    assert unique_id - features.FIRST_ID == manifest[f"{kind}_features"]
    assert sha.hexdigest() == manifest[f"{kind}_sha256"]
