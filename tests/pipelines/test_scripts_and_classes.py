"""Classes and scripts use each other's folders, and give equal metrics and answers."""

import pytest

import bert_tf
from tests.common import read_results, read_table
from tests.pipelines.classifier_helpers import LABELS, TEXTS
from tests.squad_helpers import dataset, question

pytest.importorskip("tensorflow_text")

WORDS = [text.split() for text in TEXTS]
TAGS = [["B-L" if word in "ab" else "O" for word in words] for words in WORDS]
ENDINGS = [*zip("abcdefghijab", "babababababa", strict=True)]
ANSWERS = [(words[0], 0) for words in WORDS]
CLASSIFICATION = ["--task_type=classification", "--text_columns=text", "--label_column=label"]


def rows(*columns):
    return "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True))


# By class: its script, flags, the text of the file, options and the arguments of `evaluate`.
CASES = {
    "TextClassifier": (
        "run_classifier", [*CLASSIFICATION, "--dev_file"],
        "text\tlabel\n" + rows(TEXTS, LABELS), {"labels": ["neg", "pos"]}, (TEXTS, LABELS),
    ),
    "TokenClassification": (
        "run_ner", ["--dev_file"],
        "\n".join(map(rows, WORDS, TAGS)), {"labels": ["O", "B-L", "I-L"]}, (WORDS, TAGS),
    ),
    "QuestionAnswering": (
        "run_squad", ["--predict_file"], None, {"max_query_length": 4, "doc_stride": 4},
        (["a"] * 12, TEXTS, ANSWERS),
    ),
    "MultipleChoice": (
        "run_multiple_choice", ["--dev_file"],
        "context\tending0\tending1\tlabel\n"
        + rows(TEXTS, *zip(*ENDINGS, strict=True), "010101010101"),
        {}, (TEXTS, [list(x) for x in ENDINGS], [0, 1] * 6),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_metrics_are_those_of_the_script(name, encoder_folder, run_script, tmp_path):
    script, flags, text, options, data = CASES[name]
    pipeline = getattr(bert_tf, name).from_preset(encoder_folder, max_seq_length=16, **options)
    pipeline.fit(*data, epochs=1, learning_rate=1e-3, verbose=0)
    pipeline.save_to_preset(tmp_path / "saved")
    path = tmp_path / "dev.tsv"
    if text is None:
        answers = zip(TEXTS, ANSWERS, strict=True)
        qas = [(x, [question(str(i), "a", x, y)]) for i, (x, (y, _)) in enumerate(answers)]
        dataset(path, qas)
    else:
        path.write_text(text)
    *flags, file_flag = flags
    run_script(
        script, *flags, f"{file_flag}={path}", "--do_eval", f"--output_dir={tmp_path}/saved",
        "--distribution_strategy=one_device",
    )  # fmt: skip
    found = read_results(tmp_path / "saved" / "eval_results.txt")
    scores = pipeline.evaluate(*data)
    expected = {x.removeprefix("eval_"): float(y) for x, y in found.items() if x != "global_step"}
    assert scores == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "columns"),
    [
        (["--numeric_columns=age,price"], ["age", "price"]),
        (["--numeric_columns=age", "--numeric_as=text"], ["age"]),
        (["--long_documents=windows", "--doc_stride=3", "--max_seq_length=8"], []),
    ],
)
def test_models_of_the_script(encoder_folder, run_script, tmp_path, flags, columns):
    """Numeric columns and windows: the class evaluates, predicts and trains the script's model."""
    table = {
        "text": [text * 3 for text in TEXTS], "age": list(range(12)),
        "price": [i / 4 for i in range(12)], "label": LABELS,
    }  # fmt: skip
    lines = "\t".join(table) + "\n" + rows(*(map(str, x) for x in table.values()))
    (tmp_path / "rows.tsv").write_text(lines)
    files = [f"--{split}_file={tmp_path}/rows.tsv" for split in ("train", "dev", "test")]
    run_script(
        "run_classifier", *CLASSIFICATION, *files, f"--output_dir={tmp_path}/out",
        f"--vocab_file={encoder_folder}/vocab.txt", "--do_train", "--do_eval", "--do_predict",
        f"--bert_config_file={encoder_folder}/bert_config.json", "--learning_rate=1e-2",
        "--train_batch_size=4", "--distribution_strategy=one_device", "--max_seq_length=16", *flags,
    )  # fmt: skip
    classifier = bert_tf.TextClassifier.from_preset(tmp_path / "out")
    assert list(classifier.config.numeric_names) == columns
    found = read_results(tmp_path / "out" / "eval_results.txt")
    scores = classifier.evaluate(table)
    assert scores["loss"] == pytest.approx(float(found["eval_loss"]), abs=1e-5)
    answers = classifier.predict({name: x for name, x in table.items() if name != "label"})
    predictions = read_table(tmp_path / "out" / "test_predictions.tsv")[1:]
    assert [x["label"] for x in answers] == [row[1] for row in predictions]
    history = classifier.fit(table, epochs=2, learning_rate=1e-3, validation_data=table, verbose=0)
    assert history.history["val_loss"][1] == pytest.approx(classifier.evaluate(table)["loss"])
    assert history.history["val_loss"][1] != scores["loss"]
    classifier.save_to_preset(tmp_path / "saved")
    loaded = bert_tf.TextClassifier.from_preset(tmp_path / "saved")
    assert loaded.predict(table) == classifier.predict(table)
