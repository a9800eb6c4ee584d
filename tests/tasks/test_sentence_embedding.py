"""Training sentence vectors from files: runs, steps and data."""

import csv
import random

import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints, serving
from bert_tf.data.tables import open_table
from bert_tf.tasks.sentence_embedding.examples import examples_of_table
from bert_tf.tasks.sentence_embedding.objective import SentenceEmbeddingObjective
from bert_tf.tasks.sentence_embedding.options import (
    SentenceEmbeddingConfig,
    SentenceEmbeddingData,
)
from tests.common import read_results, read_table, write_model
from tests.tasks.conftest import make_run
from tests.tasks.task_helpers import SMALL, small_config


def make_rows(count, seed, columns=2):
    """Return texts, each with a reordered copy and unrelated texts."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        words = rng.sample("abcdefghij", 5)
        rows.append([" ".join(rng.sample(words, 5)) for _ in range(2)])
        rows[-1] += [" ".join(rng.sample("abcdefghij", 5)) for _ in range(columns - 2)]
    return rows


def write_rows(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows(
            [header, *rows]
        )


def test_a_run_and_its_folder(run_script, tmp_path):
    """Trains on pairs, then on scores, and evaluates; `SentenceEncoder` loads the folder."""
    write_rows(tmp_path / "train.csv", ["anchor", "positive"], make_rows(64, 0))
    write_rows(tmp_path / "dev.csv", ["anchor", "positive"], make_rows(21, 1))
    pairs = make_rows(7, 2)
    scores = [[*row, i] for i, row in enumerate(pairs)]
    write_rows(tmp_path / "scores.tsv", ["sentence1", "sentence2", "score"], scores)
    run = make_run(run_script, "run_sentence_encoder", tmp_path, **SMALL)
    train = ["--num_train_epochs=10", "--learning_rate=5e-3", "--train_batch_size=16",
             "--max_seq_length=7", "--pooling=max", "--normalize", "--do_lower_case=false",
             "--symmetric", "--matryoshka_dims=4,12", "--mini_batch_size=6"]  # fmt: skip
    log = run(f"--data_dir={tmp_path}", "--do_train", "--do_eval", *train)
    assert "train.csv: anchor + positive, no scores" in log
    out = tmp_path / "out"
    results = read_results(out / "eval_results.txt")
    assert set(results) == {"eval_mrr@10", "eval_ndcg@10", "eval_recall@10", "global_step"}
    assert float(results["eval_mrr@10"]) > 0.5  # 0.17 for random vectors

    run(f"--dev_file={tmp_path}/scores.tsv", f"--test_file={tmp_path}/scores.tsv",
              "--do_eval", "--do_predict")  # fmt: skip
    encoder = bert_tf.SentenceEncoder.from_preset(str(out))
    assert encoder.model.pooling == ("max", -1, True, None)
    first, second = (encoder.encode(list(x)) for x in zip(*pairs, strict=True))
    cosines = np.float32(read_table(out / "test_results.tsv"))[:, 0]
    np.testing.assert_allclose(cosines, (first * second).sum(1), atol=1e-6)
    assert [row[0] for row in read_table(out / "test_predictions.tsv")[1:]] == list("0123456")
    expected = encoder.evaluate(pairs, list(range(7)))["spearman"]
    found = read_results(out / "eval_results.txt")
    assert float(found["eval_spearman"]) == pytest.approx(expected, abs=1e-6)

    run_script("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/export",
               "--nowarm_up")  # fmt: skip
    answers = serving.Predictor(f"{tmp_path}/export")([{"text": row[0]} for row in pairs])
    np.testing.assert_allclose([x["vectors"] for x in answers], first, atol=1e-5)


def test_the_search_counts_equal_texts_once():
    """A text that answers two queries is one document, relevant to both."""
    vectors = np.float32([[[1, 0], [1, 0]], [[0, 1], [1, 0]], [[1, 0], [0, 1]]])
    config = SentenceEmbeddingConfig(small_config(), pooling="mean", normalize=False)
    model, data = bert_tf.SentenceEncoder.make_model(config), SentenceEmbeddingData()
    objective = SentenceEmbeddingObjective(model, data, 4, (2, False), False, is_training=False)
    found = objective.metrics({"vectors": vectors, "text_ids": np.array([[0, 1], [2, 1], [0, 3]])})
    # Query 0 has both documents; query 2 only document 1, which comes second.
    assert found["eval_recall@10"] == 1
    assert found["eval_mrr@10"] == 0.75


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sentence1\tsentence2\tscore\na\tb\tx\n", r"bad\.tsv, line 2: .*'x'"),
        ("sentence1\tsentence2\na\tb\na\t \n", "line 3: sentence2"),
        ("a\tsentence2\n1\t2\n", "line 1: .*`text_columns`"),
        ("anchor\tpositive\tnegative\tscore\na\tb\tc\t1\n", "anchor, positive, negative"),
    ],
)
def test_errors_name_the_line_and_the_column(tmp_path, text, named):
    (tmp_path / "bad.tsv").write_text(text)
    with pytest.raises(bert_tf.UserError, match=named):
        examples_of_table(open_table(str(tmp_path / "bad.tsv")), SentenceEmbeddingData())


def test_values_of_json_are_text(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"q": "a", "p": 12, "score": 0.5}\n{"q": "a", "p": null, "score": 1}\n')
    config = SentenceEmbeddingData(text_columns=("q", "p"), skip_bad_rows=True)
    (example,) = examples_of_table(open_table(str(path)), config)
    assert example == (("a", "12"), 0.5, "0")


@pytest.mark.parametrize("name", ["sentence-transformers", "run"])
def test_a_run_has_the_settings_of_its_model(run_script, experiments, tmp_path, name):
    write_rows(tmp_path / "train.csv", ["anchor", "positive"], make_rows(8, 0))
    write_model(tmp_path, **SMALL)
    config = SentenceEmbeddingConfig(
        small_config(), f"{tmp_path}/vocab.txt", pooling="cls", normalize=True, max_seq_length=8
    )
    model, folder = bert_tf.SentenceEncoder.make_model(config), tmp_path / name
    if name == "run":
        config.save(str(folder))
        checkpoints.write(str(folder / "model.ckpt-1"), checkpoints.tensors(model))
    else:
        bert_tf.SentenceEncoder(model, config).save_to_preset(folder)
    log = run_script(
        "run_sentence_encoder", f"--data_dir={tmp_path}", "--do_train", f"--model={folder}",
        f"--output_dir={tmp_path}/out", "--max_seq_length=7", "--train_batch_size=4",
    )  # fmt: skip
    assert name == "run" or "--max_seq_length=7 overrides the setting" in log
    config = experiments[0].data.config
    assert (config.pooling, config.normalize, config.max_seq_length) == ("cls", True, 7)
