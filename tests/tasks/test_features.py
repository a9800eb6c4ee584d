"""Features: when files are reused, in several processes, of scripts and classes, soft labels."""

import csv
import dataclasses
import json
import types

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data import features as features_module
from bert_tf.io import files, processes
from bert_tf.tasks.classification.examples import Example, make_features
from bert_tf.tasks.classification.options import ClassificationConfig
from tests.common import TINY, WORDS, write_vocab
from tests.squad_helpers import letters
from tests.tasks.conftest import make_run
from tests.tasks.task_helpers import SMALL, first_batch

A, B = (Example("", text, None, label) for text, label in (("a b", "x"), ("c", "y")))


@pytest.fixture
def cache(tmp_path):
    """Return a function that makes the `FeatureCache` of two examples, with changes."""

    def make(examples=(A, B), words=WORDS, settings=None, **options):
        vocab = str(write_vocab(tmp_path, words))
        tokenizer = bert_tf.FullTokenizer(vocab, **{"do_lower_case": True, **(settings or {})})
        options = {"labels": ("x", "y"), "max_seq_length": 6, "num_texts": 1, **options}
        config = ClassificationConfig(TINY, "", **options)
        features = make_features(list(examples), tokenizer, config)
        return features_module.FeatureCache(f"{tmp_path}/train.tf_record", features)

    return make


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_seq_length": 7, "labels": ("y", "x")}, "max_seq_length, labels changed"),
        ({"examples": (A, B, A)}, "data, examples changed"),
        ({"examples": (A, dataclasses.replace(B, label="x"))}, "data changed"),
        ({"examples": [dataclasses.replace(A, weight=2.0)] * 2}, "data, schema changed"),
        ({"examples": (A, dataclasses.replace(B, label=(0.5, 0.5)))}, "data, schema changed"),
        ({"words": [*WORDS, "z"]}, "vocabulary changed"),
        ({"settings": {"do_lower_case": False}}, "do_lower_case changed"),
        ({"settings": {"strip_accents": False}}, "strip_accents changed"),
        ({"examples": [dataclasses.replace(x, label=(x.label,)) for x in (A, B)],
          "task_type": "multi_label"}, "data, task_type, schema changed"),
        ({"task_type": "regression", "labels": (), "examples": [dataclasses.replace(A, label=1.0)]},
         "data, examples, labels, task_type, schema changed"),
        ({"long_documents": "windows"}, "windows, schema changed"),
    ],
)  # fmt: skip
def test_files_are_rebuilt_after_changes(cache, changes, reason):
    assert "does not exist" in cache().stale_reason
    cache().rebuild()
    assert cache().stale_reason is None
    changed = cache(**changes)
    assert changed.stale_reason.startswith(reason)
    changed.rebuild()
    again = cache(**changes)
    assert changed.stale_reason is again.stale_reason is None
    assert again.features.counts == changed.features.counts
    assert cache().stale_reason


def test_changed_files_are_rebuilt(cache, tmp_path, monkeypatch):
    path, metadata = tmp_path / "train.tf_record", tmp_path / "train.tf_record.json"
    cache().rebuild()
    data, text = path.read_bytes(), metadata.read_text()
    for file, content, reason in (
        (path, data + data, "the file was changed"),
        (metadata, b"[1", f"{metadata} cannot be read"),
        (metadata, None, f"its metadata file, {metadata}, is missing"),
    ):
        file.unlink() if content is None else file.write_bytes(content)
        stale = cache()
        assert stale.stale_reason.startswith(reason)
        stale.rebuild()
        assert (path.read_bytes(), metadata.read_text()) == (data, text)

    # A run is killed between the two files, and another process rebuilds them.
    waiting = cache(max_seq_length=7)
    with monkeypatch.context() as patch:
        patch.delattr(files, "write_text")
        with pytest.raises(AttributeError):
            waiting.rebuild()
    assert "the file was changed" in cache().stale_reason
    waiting.check()
    assert waiting.stale_reason.startswith("max_seq_length changed")
    cache(max_seq_length=7).rebuild()
    waiting.check()
    assert waiting.stale_reason is None and waiting.features.counts["records"] == 2


def test_two_processes_make_the_same_features(cache):
    examples = [dataclasses.replace(A, text_a="a " * (i % 9)) for i in range(600)]
    one, two = (cache(examples).features for _ in range(2))
    two.num_processes = 2
    assert one.in_memory("x") == two.in_memory("x") and one.counts == two.counts
    assert one.counts["records"] == 600 and one.counts["longest"] == 10


# The class, the script, the name of its training file and the text in it.
RUNS = {
    "classification": (
        bert_tf.TextClassifier, "run_classifier --task_name=csv", "train.csv",
        "label,text_a,text_b\nx,a b,c d e f g h i\n y ,\u00c9 a!,b\nx,d d,e\n",
    ),
    "numbers": (
        bert_tf.TextClassifier,
        "run_classifier --task_name=csv --numeric_columns=n --long_documents=windows", "train.csv",
        "text,label,n\na b c d e f g h i,x,1\nb,y,3\n",
    ),
    "several labels": (
        bert_tf.TextClassifier, "run_classifier --task_name=csv --task_type=multi_label",
        "train.csv", 'text,label\na b,"x,y"\nb,\nc,y\n',
    ),
    "multiple_choice": (
        bert_tf.MultipleChoice, "run_multiple_choice", "train.csv",
        "context,ending0,ending1,label\na b,c,d d d d d d,1\ne,f,g,0\n",
    ),
    "sentence_embedding": (
        bert_tf.SentenceEncoder, "run_sentence_encoder", "train.csv",
        "sentence1,sentence2,score\na b,c,0.5\nd e f g h i j,\u00e9 d,1\n",
    ),
    "token_classification": (
        bert_tf.TokenClassification, "run_ner", "train.txt",
        "a B-X\nb I-X\n\nabc O\n\u00e9! B-X\nd B-X\ne O\nf O\ng O",
    ),
    "question_answering": (
        bert_tf.QuestionAnswering,
        "run_squad --max_query_length=2 --doc_stride=1 --version_2_with_negative", "train.json",
        None,
    ),
}  # fmt: skip


def columns_of(path):
    """Return the columns of a training file, as for `fit`."""
    text = path.read_text()
    if path.suffix == ".csv":
        names, *rows = csv.reader(text.splitlines())
    elif path.suffix == ".txt":
        sentences = [[line.split() for line in x.splitlines()] for x in text.split("\n\n")]
        names, rows = ("tokens", "tags"), [zip(*x, strict=True) for x in sentences]
    else:
        paragraphs = [x["paragraphs"][0] for x in json.loads(text)["data"]]
        names = "question", "context", "answers"
        rows = [(q["question"], p["context"], [list(x.values()) for x in q["answers"]])
                for p in paragraphs for q in p["qas"]]  # fmt: skip
    return dict(zip(names, zip(*rows, strict=True), strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_a_class_makes_the_records_of_the_script(
    run_script, experiments, tmp_path, monkeypatch, name
):
    pipeline_class, command, file, text = RUNS[name]
    path = tmp_path / file
    path.write_text(text) if text else letters(path, has_negative=True)
    script, *flags = command.split()
    make_run(run_script, script, tmp_path)("--do_train", f"--train_file={path}", *flags)
    (run,) = experiments
    pipeline = pipeline_class(types.SimpleNamespace(), run.data.config)
    columns = [columns_of(path), *[None] * (len(pipeline.arguments) - 1)]
    examples = {"train": pipeline.make_examples(columns, pipeline.arguments, "train")}
    data = pipeline.run_data(examples)

    def features(limit=10**9):
        monkeypatch.setattr(features_module, "_MIN_FOR_PROCESSES", limit)
        return pipeline.features(data, "train")

    written = tf.data.TFRecordDataset(f"{tmp_path}/out/train.tf_record").as_numpy_iterator()
    assert features().in_memory("train") == list(written)

    # Many examples are converted in several processes.
    num_processes = []

    def spy(function, items, count):
        num_processes.append(count)
        return map(function, items)

    monkeypatch.setattr(processes, "map_in_processes", spy)
    monkeypatch.setattr(processes, "cores", lambda: 3)
    for more in (0, 1):
        features(features().num_examples + more).in_memory("train")
    assert num_processes == [3, 1]


SOFT = [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]


def test_labels_may_be_distributions(run_script, experiments, eagerly, tmp_path):
    """Files and lists have the same records; the loss is the softmax cross entropy."""
    (tmp_path / "data.csv").write_text("text,y,x\na,0.75,0.25\nb c,0,1\nd,.5,.5\n")
    model = {**SMALL, "initializer_range": 0.5}
    run = make_run(run_script, "run_classifier", tmp_path, **model)
    run("--do_train", f"--train_file={tmp_path}/data.csv", "--label_column=x,y")
    (run,) = experiments
    batch = first_batch(run.task.features(run.data, "train"))
    np.testing.assert_array_equal(batch["label_values"], SOFT)
    pipeline = bert_tf.TextClassifier(
        bert_tf.TextClassifier.make_model(run.data.config), run.data.config
    )
    texts = ["a", "b c", "d"]
    probabilities = [list(x["probabilities"].values()) for x in pipeline.predict(texts)]
    loss = -np.mean(np.sum(SOFT * np.log(probabilities), -1))
    assert pipeline.evaluate(texts, SOFT)["loss"] == pytest.approx(loss, rel=1e-4)
    labels = pytest.importorskip("pandas").DataFrame(SOFT, columns=["x", "y"])
    pipeline.fit(texts, labels, epochs=10, learning_rate=1e-2, verbose=0)
    assert pipeline.evaluate(texts, SOFT)["loss"] < loss - 0.01
