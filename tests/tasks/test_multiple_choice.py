"""Multiple choice: reading, a run from files to a SavedModel, equality with transformers."""

import random

import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.data.tables import open_table
from bert_tf.tasks.multiple_choice.options import MultipleChoiceData
from bert_tf.tasks.multiple_choice.task import examples_of_table
from bert_tf.tokenization.settings import INPUTS
from tests.common import features, read_table, write_files
from tests.modeling.conftest import load_with_transformers, run_with_transformers
from tests.tasks.conftest import make_run, run_task_test
from tests.tasks.task_helpers import SMALL, small_config

HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
)


def write_swag(path, count, seed, with_label=True):
    """Write a file in SWAG's format, where the right ending has an "e"; return the labels."""
    rng = random.Random(seed)
    labels = [rng.randrange(4) for _ in range(count)]
    lines = [HEADER]
    for i, label in enumerate(labels):
        endings = [" ".join(rng.choices("abcd", k=rng.randint(1, 3))) for _ in range(4)]
        endings[label] += " e"
        lines.append(f'{i},v{i},{i},"f, g",f,g,gold,{",".join(endings)},{label}')
    if not with_label:
        lines = [line.rpartition(",")[0] for line in lines]
    path.write_text("\n".join(lines), encoding="utf-8-sig")
    return labels


MODEL = {**SMALL, "initializer_range": 0.2, "max_position_embeddings": 16}


@pytest.mark.slow
def test_from_files_to_a_saved_model(run_script, tmp_path):
    """A run trains on a file in SWAG's format, evaluates, predicts and is exported."""
    write_swag(tmp_path / "train.csv", 64, 0)
    write_swag(tmp_path / "val.csv", 21, 1)
    labels = write_swag(tmp_path / "test.csv", 6, 2, with_label=False)
    out = tmp_path / "out"
    train = ["--num_train_epochs=12", "--learning_rate=5e-3", "--train_batch_size=16",
             "--max_seq_length=14", "--do_lower_case=false"]  # fmt: skip
    examples = examples_of_table(open_table(f"{tmp_path}/test.csv"), MultipleChoiceData(), False)
    log, _, _ = run_task_test(
        make_run(run_script, "run_multiple_choice", tmp_path, **MODEL), run_script, tmp_path,
        [f"--data_dir={tmp_path}"], train,
        results={"eval_accuracy", "eval_loss", "global_step", "loss"},
        above={"eval_accuracy": 0.9, "global_step": 47},
        rows=[{"context": x.context, "endings": list(x.endings)} for x in examples],
        output="probabilities",
    )  # fmt: skip
    assert "startphrase; endings ending0, ending1, ending2, ending3" in log
    header, *rows = read_table(out / "test_predictions.tsv")
    assert header == ["id", "prediction", "ending0", "ending1", "ending2", "ending3"]
    assert [row[0] for row in rows] == [str(i) for i in range(6)]
    assert sum(row[1] == str(label) for row, label in zip(rows, labels, strict=True)) >= 5


def test_equals_transformers(transformers, tmp_path):
    """The bias in transformers' head adds the same value to all choices of an example."""
    bias, model = 3.0, bert_tf.BertMultipleChoice(small_config(initializer_range=0.5))
    tensors = checkpoints.tensors(model)
    folder = str(tmp_path / "model")
    written = checkpoints.write_hugging_face(folder, tensors, model.config)
    assert written == "BertForMultipleChoice"
    other = load_with_transformers(transformers, folder, written)
    batch = {name: x.reshape(2, 3, 8) for name, x in features(6).items() if name in INPUTS}
    other.classifier.bias.data.fill_(bias)
    expected = run_with_transformers(other, batch)["logits"]
    np.testing.assert_allclose(model(batch)["logits"] + bias, expected, atol=1e-4, rtol=0)
    other.save_pretrained(tmp_path / "transformers")
    loaded = bert_tf.BertMultipleChoice.from_preset(str(tmp_path / "transformers"))
    np.testing.assert_allclose(loaded(batch)["logits"] + bias, expected, atol=1e-4, rtol=0)


def test_any_columns_in_any_number(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_bytes('q\tp\tyes\tno\tkey\tname\r\n"a\tb\tc\td\t1\tx\r\n\r\n'.encode("utf-8-sig"))
    config = MultipleChoiceData(
        context_columns=("q", "p"), ending_columns=("yes", "no"), label_column="key",
        id_column="name",
    )  # fmt: skip
    (example,) = examples_of_table(open_table(str(path)), config)
    assert example.names == ("yes", "no")
    assert (example.context, example.endings) == ('"a b', ("c", "d"))
    assert (example.label, example.id, example.where) == (1, "x", f"{path}, line 2")
    (tmp_path / "a.jsonl").write_text('{"context": "a", "endings": ["b", "c"]}\n')
    path = tmp_path / "a.jsonl"
    (example,) = examples_of_table(open_table(str(path)), MultipleChoiceData(), False)
    assert example.names == ("endings[0]", "endings[1]")


ROWS = "context,ending1,ending0,ending2,label\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (ROWS + "a,b,c,d,3\n", r"bad\.csv, line 2: .*'3'.* 0, 1, 2"),
        (ROWS + "a,b,c,d,0\na,b,,d,0\n", "line 3: ending0"),
        (ROWS + " ,b,c,d,0\n", "line 2: context"),
        (ROWS + "a,b,c,d\n", "line 2: .* 4 .* 5"),
        (ROWS, r"bad\.csv"),
        ("context,ending0,label\n", "line 1: .*ending0.*`ending_columns`"),
        ("context,ending0,ending2,label\n", "line 1: .*ending0, ending2.*`ending_columns`"),
        ("context,ending0,ending1\n", "line 1: .*`label_column`"),
        ("context,ending0,ending1,label,label\n", "line 1: .*label"),
    ],
)
def test_errors_name_the_line_and_the_column(tmp_path, text, named):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(bert_tf.UserError, match=named):
        examples_of_table(open_table(str(tmp_path / "bad.csv")), MultipleChoiceData())


def test_bad_rows_are_left_out_and_counted(tmp_path, caplog):
    write_files(tmp_path, some__csv=ROWS + "a,b,c,d,9\na,b,c,d,2\na,b,,d,0\n")
    config = MultipleChoiceData(skip_bad_rows=True)
    (example,) = examples_of_table(open_table(str(tmp_path / "some.csv")), config)
    assert example.names == ("ending0", "ending1", "ending2")
    assert (example.endings, example.label, example.id) == (("c", "b", "d"), 2, "1")
    assert "bad rows skipped: 2, the first: " in caplog.text
