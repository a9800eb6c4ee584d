"""run_ner.py: from column files to tags, scores and the entities of a text."""

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.token_classification import examples, schemes
from bert_tf.tasks.token_classification import served as serving
from bert_tf.tasks.token_classification.options import Tags, TokenClassificationConfig
from tests.common import read_results, write_vocab
from tests.tasks.conftest import make_run

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghisAB.,'-()\"", "##b", "##c",
         "\u5317"]  # fmt: skip

QUICK_RUN = [
    "--max_seq_length=10", "--train_batch_size=4", "--distribution_strategy=one_device",
    "--learning_rate=1e-2", "--num_train_epochs=6",
]  # fmt: skip

# "A" and "B" are persons, "a" and "b" are places, and adjacent ones form one entity. Other words
# have the tag O. Some sentences need several windows.
_RNG = np.random.default_rng(0)
SENTENCES = [
    "c A d",
    "c d e f g h i c d a b c d",
    *(
        " ".join(_RNG.choice([*"cdefghiABABabab.,()'", "'s"], size))
        for size in range(1, 15)
        for _ in "123"
    ),
]


def tags_of(words):
    labels = ("PER" if word in "AB" else "LOC" if word in "ab" else "" for word in words)
    return [f"I-{label}" if label else "O" for label in labels]


def columns(sentences, tag=tags_of):
    lines = []
    for i, text in enumerate(sentences):
        if i % 3 == 0:
            lines += ["-DOCSTART- -X- O", ""]
        words = text.split()
        lines += [f"{word} x {t}" for word, t in zip(words, tag(words), strict=True)]
        lines.append("")
    return "\n".join(lines)


def predicted_tags(folder):
    """Return the tags of each sentence in test_predictions.txt."""
    blocks = (folder / "test_predictions.txt").read_text().strip().split("\n\n")
    return [[line.split()[-1] for line in block.split("\n")] for block in blocks]


# Texts and their words. The tests of tasks have a text for every character.
CHUNKS = {
    "c A B, d (a) 'A's.": "c|A|B|,|d|(|a|)|'|A|'s|.",
    "A's' 's s a'b 'c": "A|'s|'|'s|s|a'b|'|c",
    "a\u5317\u5317b, a.b. ..a..": "a|\u5317|\u5317|b|,|a.b|.|.|.|a|.|.",
    "": "",
}


@pytest.fixture
def run(run_script, tmp_path):
    """A function that runs run_ner.py, see `make_run`."""
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text(columns(SENTENCES))
    changes = {"initializer_range": 0.2, "vocab_size": len(WORDS), "num_hidden_layers": 1}
    return make_run(run_script, "run_ner", tmp_path, QUICK_RUN, words=WORDS, **changes)


@pytest.mark.slow
def test_entities_from_training_to_tags(run, tmp_path):
    """The scores and the written tags agree."""
    out = tmp_path / "out"
    log = run("--do_train", "--do_eval", "--do_predict", f"--data_dir={tmp_path}", "--report",
              "--output_scheme=iob1")  # fmt: skip
    assert "tag scheme of the data: iob1; the model learns iob2: O, B-LOC, I-LOC" in log
    results = read_results(out / "eval_results.txt")
    assert float(results["eval_f1"]) > 0.5  # 0 at first
    # The test set is the development set with one more column.
    lines = (out / "test_predictions.txt").read_text().split("\n")[:-1]
    assert [line.rpartition(" ")[0] for line in lines] == columns(SENTENCES).split("\n")
    pairs = [line.split()[2:] for line in lines if line and not line.startswith("-DOC")]
    accuracy = sum(true == tag for true, tag in pairs) / len(pairs)
    assert float(results["eval_accuracy"]) == pytest.approx(accuracy)
    row = (out / "eval_report.txt").read_text().split("\n")[-2].split()
    assert row[:4] == ["all", *(f"{float(results[f'eval_{name}']):.4f}"
                                for name in ("precision", "recall", "f1"))]  # fmt: skip

    with pytest.raises(bert_tf.UserError, match=r"--learn_scheme=iobes.* iob2"):
        run("--do_predict", "--learn_scheme=iobes", f"--data_dir={tmp_path}")

    before = predicted_tags(out)
    # Prediction uses the options of the training, and writes the same spans in another scheme.
    run("--do_predict", f"--test_file={tmp_path}/test.txt", "--output_scheme=iobes")
    again = predicted_tags(out)
    assert again == [schemes.convert_tags(tags, "iob1", "iobes") for tags in before]
    assert any("S-PER" in tags for tags in again)


def test_documents_must_be_marked(run, tmp_path):
    (tmp_path / "train.txt").write_text("a O\n")
    with pytest.raises(bert_tf.UserError, match=r"--document_context: .*train\.txt"):
        run("--do_train", f"--data_dir={tmp_path}", "--document_context")


def test_words_of_a_text(tmp_path):
    tags, vocab_file = Tags(("X",), "none", "none"), str(write_vocab(tmp_path, WORDS))
    config = TokenClassificationConfig(vocab_file=vocab_file, tags=tags, do_lower_case=False)
    rows = [("", text, ()) for text in CHUNKS]
    for _, (text, *edges, _) in examples._split_texts(rows, config):
        assert "|".join(text[i:j] for i, j in zip(*edges, strict=True)) == CHUNKS[text]


def test_tags_begin_spans_as_in_python():
    rng = np.random.default_rng(0)
    for scheme in ("iob1", "iob2", "iobes", "io", "none"):
        names = schemes.tag_names(["X", "Y"], scheme)
        tags = rng.integers(0, len(names), 400)
        text_of = np.sort(rng.integers(0, 60, 400))
        table = serving._TagTable(Tags(names, scheme, scheme))
        begins = table.begins(tf.constant(tags, tf.int32), tf.constant(text_of, tf.int32)).numpy()
        for text in range(60):
            row = np.flatnonzero(text_of == text)
            sentence = [names[i] for i in tags[row]]
            spans = schemes.spans_from_tags(sentence, scheme)
            assert np.flatnonzero(begins[row]).tolist() == [span.start for span in spans]
