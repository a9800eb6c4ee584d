"""Models with one segment id accept single texts; pairs of texts raise an error."""

import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.tasks.multiple_choice.options import MultipleChoiceConfig
from tests.common import QUICK_RUN, WITHOUT_DROPOUT, WORDS, tiny, write_files
from tests.pipelines.conftest import write_release_folder

pytest.importorskip("tensorflow_text")

PAIRS, LABELS = [("a b", "c"), ("c", "d")] * 2, ["x", "y"] * 2
CONFIG = tiny(
    vocab_size=len(WORDS), type_vocab_size=1, max_position_embeddings=32, **WITHOUT_DROPOUT
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(write_release_folder(tmp_path_factory.mktemp("one_segment"), CONFIG))


def expect_refusal():
    return pytest.raises(bert_tf.UserError, match=r"^the model has 1 segment id .* single texts")


def test_text_classifier(folder):
    classifier = bert_tf.TextClassifier.from_preset(folder, labels=["x", "y"], max_seq_length=16)
    classifier.compile(run_eagerly=True)
    texts = tuple(map(tf.constant, zip(*PAIRS, strict=True)))
    dataset = tf.data.Dataset.from_tensors((texts, tf.constant(LABELS)))
    for call in (
        lambda: classifier.fit(PAIRS, LABELS),
        lambda: classifier.fit(dataset),
        lambda: classifier.fit(["a", "b"], ["x", "y"], validation_data=(PAIRS, LABELS)),
        lambda: classifier.evaluate(PAIRS, LABELS),
        lambda: classifier.predict(PAIRS),
    ):
        with expect_refusal():
            call()
    assert len(classifier.predict(["a", ("b", "")])) == 2
    with expect_refusal():
        classifier.predict(PAIRS)


def test_other_pipelines(folder):
    with expect_refusal():
        bert_tf.QuestionAnswering.from_preset(folder, max_seq_length=16, max_query_length=4)
    vectors = bert_tf.TokenVectors.from_preset(folder, max_seq_length=16)
    with expect_refusal():
        vectors.predict(["a", "a ||| b"])


def test_exports_and_scripts(folder, run_script, tmp_path):
    config = ClassificationConfig.from_pretrained(
        CONFIG, "", True, labels=("x", "y"), max_seq_length=16
    )
    assert config.num_texts == 1
    with expect_refusal():
        MultipleChoiceConfig.from_pretrained(CONFIG, "", True, max_seq_length=16)
    data = write_files(tmp_path, train__tsv="text_a\ttext_b\tlabel\na b\tc\tx\nc\td\ty\n")
    output_dir = tmp_path / "out"
    with expect_refusal():
        run_script(
            "run_classifier", "--task_name=tsv", f"--data_dir={data}", f"--output_dir={output_dir}",
            f"--model={folder}", "--do_train", *QUICK_RUN,
        )  # fmt: skip
    assert not list(output_dir.glob("*"))
