"""The task configuration next to the weights, and its options, for every objective."""

import dataclasses
import json
import os

import pytest

import bert_tf
from bert_tf.configs.task_names import TASK_CONFIG_FILES
from bert_tf.data.columns import Layout
from bert_tf.io import files
from bert_tf.tasks.classification.glue import custom_dataset
from bert_tf.tasks.classification.options import (
    ClassificationConfig,
    ClassificationData,
    NumericFeature,
)
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from bert_tf.tasks.registry import TASKS, load_config
from bert_tf.tasks.token_classification.options import Tags
from bert_tf.tokenization.vocabulary import check_vocabulary
from tests.common import TINY, tiny, write_vocab

TAGS = Tags(("O", "B-PER", "I-PER"), "iob2", "iobes")

# For each task: attributes that differ from the defaults, a fixed attribute with a new value, and
# an option that a resumed run may change.
CASES = {
    "sentence_embedding": (
        {"max_seq_length": 8, "pooling": "max", "layer": 0, "normalize": True},
        ("pooling", "cls"),
        ("max_seq_length", 10),
    ),
    "classification": (
        {"max_seq_length": 8, "labels": ("x", "y"), "num_texts": 1,
         "numeric_features": (NumericFeature("price", 1.5, 0.5),)},
        ("labels", ("y", "x")),
        ("max_seq_length", 10),
    ),
    "question_answering": (
        {"max_seq_length": 12, "doc_stride": 3, "max_query_length": 4, "n_best_size": 5},
        ("do_lower_case", False),
        ("null_score_diff_threshold", -1.5),
    ),
    "token_classification": (
        {"do_lower_case": True, "max_seq_length": 8, "doc_stride": 2, "tags": TAGS},
        ("tags", TAGS._replace(scheme="iobes")),
        ("document_context", True),
    ),
    "multiple_choice": ({"max_seq_length": 8}, ("do_lower_case", False), ("max_seq_length", 10)),
}  # fmt: skip


def test_every_task_is_tested():
    assert list(CASES) == [name for name, spec in TASKS.items() if spec.config_class.FILE]


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """Return (class, `TaskConfig`, a fixed attribute, an option), see `CASES`."""
    attributes, fixed, option = CASES[request.param]
    spec = TASKS[request.param]
    (tmp_path / "model").mkdir()
    vocab_file = str(write_vocab(tmp_path / "model"))
    return spec, spec.config_class(TINY, vocab_file, **attributes), fixed, option


def script_of(spec):
    return TASK_CONFIG_FILES[spec.config_class.FILE]


@pytest.fixture
def run(tmp_path):
    return str(tmp_path / "run")


def test_save_and_load(case, run, tmp_path):
    spec, config, _, _ = case
    assert spec.config_class.load(run) is None
    config.save(run)
    assert sorted(os.listdir(run)) == sorted([spec.config_class.FILE, files.CONFIG, "vocab.txt"])
    loaded_spec, loaded = load_config(run)
    assert loaded_spec is spec
    vocab_file = os.path.join(run, "vocab.txt")
    assert loaded == dataclasses.replace(config, vocab_file=vocab_file)
    assert files.read_text(vocab_file) == files.read_text(config.vocab_file)


def test_folders_of_other_tasks(case, run):
    spec, config, _, _ = case
    config.save(run)
    for other in map(TASKS.get, CASES):
        if other is spec:
            other.config_class.check_folder(run)
        else:
            message = rf"`output_dir`: .*{spec.config_class.FILE} .*{script_of(spec)} .* {run}"
            with pytest.raises(bert_tf.UserError, match=message):
                other.config_class.check_folder(run)


@pytest.mark.parametrize("text", ["[]", "{}", "{", '{"labels": ["x"]}', ""])
def test_damaged_files_are_named(case, run, text):
    spec, config, _, _ = case
    config.save(run)
    path = os.path.join(run, spec.config_class.FILE)
    files.write_text(path, text)
    with pytest.raises(bert_tf.UserError, match=f"{path}[:,] .*{script_of(spec)}"):
        load_config(run)


def test_a_resumed_run_has_the_same_model(case, run, tmp_path):
    _, config, (name, value), _ = case
    config.check_resume(run)  # a new run
    config.save(run)
    config.check_resume(run)
    (tmp_path / "other.txt").write_text("[PAD]\n")
    changes = {
        "bert_config": tiny(vocab_size=51),
        "vocab_file": str(tmp_path / "other.txt"),
        "do_lower_case": not config.do_lower_case,
        name: value,
    }
    for name, value in changes.items():
        shown = "scheme" if name == "tags" else name
        with pytest.raises(bert_tf.UserError, match=rf"`output_dir`: .* {shown}\b.* {run}"):
            dataclasses.replace(config, **{name: value}).check_resume(run)


def test_changed_options_are_saved(case, run):
    spec, config, _, (name, value) = case
    path = os.path.join(run, spec.config_class.FILE)
    config.save_changes(run)
    saved_at = os.stat(path).st_mtime_ns
    config.save_changes(run)
    assert os.stat(path).st_mtime_ns == saved_at
    dataclasses.replace(config, **{name: value}).save_changes(run)
    assert getattr(load_config(run)[1], name) == value


def test_numbers_are_normalized_as_when_the_run_began(run, tmp_path):
    vocab_file = str(write_vocab(tmp_path))
    features = (NumericFeature("price", 1.5, 0.5),)
    config = ClassificationConfig(TINY, vocab_file, labels=("x", "y"), numeric_features=features)
    assert config.with_values_of_run(run) is config
    config.save(run)
    changed = dataclasses.replace(config, numeric_features=(NumericFeature("price", 9.0, 1.0),))
    assert changed.with_values_of_run(run).numeric_features == features
    renamed = dataclasses.replace(config, numeric_features=(NumericFeature("age", 9.0, 1.0),))
    assert renamed.with_values_of_run(run) is renamed


def test_options_are_resolved(case):
    """Arguments win over recorded options, which win over defaults."""
    spec, config, _, (option, value) = case
    options_class = spec.config_class
    default = {"question_answering": 384}.get(spec.name, 128)
    assert options_class().with_trained().max_seq_length == default
    given = options_class(max_seq_length=default).with_trained(config)
    assert given.max_seq_length == default
    assert given == dataclasses.replace(config, max_seq_length=default)
    changed = dataclasses.replace(config, **{option: value})
    assert getattr(options_class().with_trained(changed), option) == value


def test_options_are_checked_with_those_of_the_trained_model():
    trained = QuestionAnsweringConfig(TINY, max_seq_length=12, max_query_length=4)
    assert QuestionAnsweringConfig(max_seq_length=9).with_trained(trained).max_query_length == 4
    with pytest.raises(bert_tf.UserError, match=r"`max_seq_length=7`: expected more than"):
        QuestionAnsweringConfig(max_seq_length=7).with_trained(trained)


def test_options_that_require_others():
    stored = ClassificationConfig(TINY, long_documents="windows", window_pooling="max", num_texts=1)
    for values in ({"window_pooling": "max"}, {"doc_stride": 3}):
        options = ClassificationConfig(**values)  # the trained model may use windows
        resolved = options.with_trained(stored)
        assert (resolved.window_pooling, resolved.max_windows) == ("max", 16)
        for refused in (
            options.with_trained,
            lambda values=values: ClassificationConfig(TINY, **values),
        ):
            with pytest.raises(bert_tf.UserError, match=r"` requires `long_documents=windows`"):
                refused()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClassificationData(tfds_name="a", tfds_splits=tuple("abcd")),
         "`tfds_splits`: found 4"),
        (lambda: custom_dataset("regression", None, Layout(label=("a", "b"))),
         "`label_column`.* regres"),
        (lambda: custom_dataset("multi_label", ("x",), Layout(label=("a", "b"))),
         "`labels`: found 1 .* 2"),
        (lambda: custom_dataset("regression", ("x",)), "`labels`.*regression"),
        (lambda: custom_dataset(layout=Layout(text=("a", "b", "c"))), "`text_columns`.* 3"),
        # The value `--labels=pos,neg,` has an empty third label.
        (lambda: ClassificationConfig(labels=("pos", "neg", "")), "`labels`: label 2"),
        (lambda: ClassificationConfig(TINY, long_documents="windows", num_texts=2),
         "`long_documents=windows`: .*pairs"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_used(make, message):
    with pytest.raises(bert_tf.UserError, match=message):
        make()


@pytest.mark.parametrize("count", [24, 25, 50, 51])
def test_vocabularies_must_fit_the_model(count, caplog):
    """Fewer than half of the model's 50 entries, or more than all, are an error."""
    vocab = {"a": count - 1}
    if count in (24, 51):
        with pytest.raises(bert_tf.UserError, match=rf"`vocab_file`: found {count} .*v\.txt.* 50"):
            check_vocabulary(vocab, TINY, "v.txt", config_file="c.json")
    else:
        check_vocabulary(vocab, TINY, "v.txt")
        assert ("v.txt has 25 entries" in caplog.text) == (count == 25)


@pytest.mark.parametrize("name", ["config.json", "classifier.json", "tagger.json"])
def test_labels_with_surrogates_or_line_breaks_are_refused(tmp_path, name):
    """JSON can contain surrogates, but terminals and SavedModels cannot."""
    labels = {"labels": ["x", "\ud800"], "names": ["x", "\ud800"], "data_scheme": "none",
              "id2label": {"0": "x", "1": "\ud800"}, "scheme": "none"}  # fmt: skip
    if name == "config.json":
        del labels["labels"], labels["data_scheme"]
    (tmp_path / name).write_text(json.dumps(labels))
    with pytest.raises(bert_tf.UserError, match=r"label 1: .* the lone surrogate"):
        bert_tf.checkpoints.read_metadata(str(tmp_path))
    # Exports have a label per line.
    for label in ("\ud800", "y\n", "y\rz", "y\x0bz", "y\u2028z"):
        with pytest.raises(bert_tf.UserError, match=r"label 1.* (lone surrogate|line break)"):
            ClassificationConfig(TINY, "", labels=("x", label))
