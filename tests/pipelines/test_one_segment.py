"""Models with one segment id accept single texts; pairs of texts raise an error."""

import pytest

import bert_tf
from tests.common import QUICK_RUN, WITHOUT_DROPOUT, WORDS, tiny, write_files
from tests.pipelines.conftest import write_release_folder

pytest.importorskip("tensorflow_text")

PAIRS, LABELS = [("a b", "c"), ("c", "d")] * 2, ["x", "y"] * 2
CONFIG = tiny(
    vocab_size=len(WORDS), type_vocab_size=1, max_position_embeddings=32, **WITHOUT_DROPOUT
)


def test_pairs_are_an_error(run_script, tmp_path):
    (tmp_path / "model").mkdir()
    folder = str(write_release_folder(tmp_path / "model", CONFIG))
    classifier = bert_tf.TextClassifier.from_preset(folder, labels=["x", "y"], max_seq_length=16)
    classifier.compile(run_eagerly=True)
    vectors = bert_tf.TokenVectors.from_preset(folder, max_seq_length=16)
    data = write_files(tmp_path, train__tsv="text_a\ttext_b\tlabel\na b\tc\tx\nc\td\ty\n")
    flags = f"--task_name=tsv --data_dir={data} --output_dir={tmp_path}/out --model={folder}"
    for call in (
        lambda: classifier.fit(PAIRS, LABELS),
        lambda: classifier.fit(["a", "b"], ["x", "y"], validation_data=(PAIRS, LABELS)),
        lambda: classifier.evaluate(PAIRS, LABELS),
        lambda: classifier.predict(PAIRS),
        lambda: bert_tf.QuestionAnswering.from_preset(folder, max_seq_length=16),
        lambda: vectors.predict(["a", "a ||| b"]),
        lambda: bert_tf.MultipleChoice.from_preset(folder),
        lambda: run_script("run_classifier", *flags.split(), "--do_train", *QUICK_RUN),
    ):
        with pytest.raises(bert_tf.UserError, match=r"^the model has 1 segment id .* single texts"):
            call()
    assert len(classifier.predict(["a", ("b", "")])) == 2
    assert not list((tmp_path / "out").glob("*"))
