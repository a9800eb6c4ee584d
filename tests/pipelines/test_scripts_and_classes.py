"""A class uses the folder of its script, and gives equal metrics and answers."""

import dataclasses

import pytest

import bert_tf
from tests.common import read_results, read_table
from tests.pipelines.classifier_helpers import LABELS, TEXTS

CLASSIFICATION = ["--task_type=classification", "--text_columns=text", "--label_column=label"]


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
    """Numeric columns and windows: the class evaluates and predicts the script's model."""
    table = {
        "text": [text * 3 for text in TEXTS], "age": list(range(12)),
        "price": [i / 4 for i in range(12)], "label": LABELS,
    }  # fmt: skip
    rows = [list(table), *zip(*table.values(), strict=True)]
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    (tmp_path / "rows.tsv").write_text(text)
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
    if features := classifier.config.numeric_features:
        # The class resumes the run with the scale of the run, also if its own model has another.
        scaled = tuple(x._replace(deviation=9.0) for x in features)
        classifier.config = dataclasses.replace(classifier.config, numeric_features=scaled)
        classifier.fit(table, epochs=4, batch_size=4, output_dir=f"{tmp_path}/out")
        assert classifier.config.numeric_features == features
