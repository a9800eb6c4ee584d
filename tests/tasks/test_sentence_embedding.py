"""Training sentence vectors from files: runs, steps and data."""

import csv
import random

import numpy as np
import pytest

import bert_tf
from bert_tf import serving
from bert_tf.data.tables import open_table
from bert_tf.tasks.registry import load_config
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
    objective = SentenceEmbeddingObjective(
        bert_tf.SentenceEncoder.make_model(config),
        SentenceEmbeddingData(),
        4,
        (2, False),
        False,
        is_training=False,
    )
    found = objective.metrics({"vectors": vectors, "text_ids": np.array([[0, 1], [2, 1], [0, 3]])})
    # Query 0 has both documents; query 2 only document 1, which comes second.
    assert found["eval_recall@10"] == 1
    assert found["eval_mrr@10"] == 0.75


def test_a_single_pair_has_no_correlation():
    config = SentenceEmbeddingConfig(small_config(), pooling="mean", normalize=False)
    objective = SentenceEmbeddingObjective(
        bert_tf.SentenceEncoder.make_model(config),
        SentenceEmbeddingData(),
        4,
        (2, True),
        True,
        is_training=False,
    )
    found = objective.metrics({"vectors": np.ones((1, 2, 4)), "label_value": np.ones(1)})
    np.testing.assert_equal(found, {"eval_spearman": np.nan, "eval_pearson": np.nan})


HEADER = "sentence1\tsentence2\tscore\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (HEADER + "a\tb\tx\n", r"bad\.tsv, line 2: .*'x'"),
        (HEADER + "a\tb\tinf\n", "line 2: .*'inf'"),
        (HEADER + "a\tb\t1\na\t \t1\n", "line 3: sentence2"),
        (HEADER, r"bad\.tsv"),
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


@pytest.mark.slow
def test_the_settings_of_a_sentence_transformers_folder(run_script, tmp_path):
    write_rows(tmp_path / "train.csv", ["anchor", "positive"], make_rows(8, 0))
    write_model(tmp_path, **SMALL)
    config = SentenceEmbeddingConfig(
        small_config(), str(tmp_path / "vocab.txt"), pooling="cls", normalize=True, max_seq_length=8
    )
    bert_tf.SentenceEncoder(bert_tf.SentenceEncoder.make_model(config), config).save_to_preset(
        tmp_path / "hf"
    )
    train = ["run_sentence_encoder", f"--data_dir={tmp_path}", "--do_train",
             "--train_batch_size=4", "--num_train_epochs=1"]  # fmt: skip
    log = run_script(*train, f"--model={tmp_path}/hf", f"--output_dir={tmp_path}/out",
                     "--max_seq_length=7")  # fmt: skip
    assert "--max_seq_length=7 overrides the setting" in log and "normalize=True" in log
    run_script(*train, f"--model={tmp_path}/out", f"--output_dir={tmp_path}/again",
               "--max_seq_length=6")  # fmt: skip
    config = SentenceEmbeddingConfig.load(str(tmp_path / "again"))
    assert (config.pooling, config.normalize, config.max_seq_length) == ("cls", True, 6)
    assert load_config(str(tmp_path / "out"))[0].name == "sentence_embedding"
