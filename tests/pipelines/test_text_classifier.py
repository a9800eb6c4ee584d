"""`TextClassifier`: fit on strings, predictions, presets, export, and its errors."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints, serving, tasks
from bert_tf.tasks.classification.examples import NumericFeature
from bert_tf.tasks.classification.labels import LabelEncoder
from bert_tf.tokenization.packing import pack_pair
from tests.pipelines.conftest import run_pipeline_test
from tests.training.training_helpers import mirrored

pytest.importorskip("tensorflow_text")

TEXTS = ["a b", "c d e", "a", "c", "b a a d e f g h i", "c d"] * 2
LABELS = ["pos", "neg"] * 6
PAIRS = [("a b", "c"), ("c", "d e f"), ("a", ""), ("e", "a")]


def make(folder, labels=("neg", "pos"), **options):
    keras.utils.set_random_seed(0)
    return bert_tf.TextClassifier.from_preset(folder, labels=labels, **options)


class Recorder(keras.callbacks.Callback):
    """Keeps the learning rate and the lengths of each training step."""

    def __init__(self):
        super().__init__()
        self.rates = []

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


@pytest.fixture(scope="module")
def trained(encoder_folder):
    """The classifier after `fit`, its history and the callback."""
    classifier, recorder = make(encoder_folder), Recorder()
    classifier.compile(run_eagerly=True)  # few steps, which tracing would make slower
    history = classifier.fit(
        TEXTS * 4,
        LABELS * 4,
        validation_data=(TEXTS[:3], [1, 0, 1]),
        epochs=3,
        batch_size=5,
        learning_rate=1e-2,
        callbacks=[recorder],
        class_weight={"pos": 1.5},
        verbose=0,
    )
    return classifier, history, recorder


def test_fit(trained):
    classifier, history, recorder = trained
    assert isinstance(classifier.model, bert_tf.BertClassifier)
    assert {"accuracy", "loss", "val_accuracy", "val_loss"} <= set(history.history)
    assert history.history["loss"][-1] < 0.8 * history.history["loss"][0]
    # The rate rises over the first tenth of 30 steps and decays after that.
    rate = bert_tf.LinearWarmupDecay(1e-2, num_train_steps=30, num_warmup_steps=3)
    np.testing.assert_allclose(recorder.rates, [rate(step) for step in range(30)], rtol=1e-6)
    results = classifier.evaluate(TEXTS, LABELS, verbose=0)
    assert results["accuracy"] == 1.0 and results["loss"] < 0.6
    assert [answer["label"] for answer in classifier.predict(TEXTS)] == LABELS


def test_fit_leaves_out_padding(encoder_folder, monkeypatch):
    """In what it compiles: without XLA, and not in a model that is exported later."""
    seen = []

    def record(model, *_, **__):
        seen.append(model.skip_padding)

    monkeypatch.setattr(keras.Model, "fit", record)
    monkeypatch.setattr(keras.Model, "evaluate", record)
    classifier = make(encoder_folder)
    classifier.fit(TEXTS, LABELS)
    classifier.evaluate(TEXTS, LABELS)
    classifier.compile(jit_compile=True)
    classifier.fit(TEXTS, LABELS)
    assert seen == [True, True, False]
    assert not classifier.model.skip_padding


def test_answers(trained):
    classifier = trained[0]
    rows = [("a b", ""), ("c d e", "")]
    batch = classifier.tokenizer([a for a, _ in rows])
    probabilities = tf.nn.softmax(classifier.model(batch)["logits"]).numpy()
    answers = classifier.predict(rows)
    assert answers == classifier.predict(np.array(["a b", "c d e"]))
    for answer, expected in zip(answers, probabilities, strict=True):
        assert list(answer["probabilities"]) == ["neg", "pos"]
        np.testing.assert_allclose(list(answer["probabilities"].values()), expected, atol=1e-5)
        assert answer["label"] == ["neg", "pos"][expected.argmax()]


def test_presets_and_export(trained, tmp_path, caplog):
    classifier = trained[0]
    expected = classifier.predict(TEXTS)
    config = run_pipeline_test(classifier, {"text": TEXTS}, tmp_path).config
    assert config.labels == ("neg", "pos")
    assert config.num_texts == 1 and config.max_seq_length == 32
    checkpoint = str(tmp_path / "saved" / "model.ckpt-30")
    assert bert_tf.TextClassifier.from_preset(checkpoint).predict(TEXTS) == expected
    reordered = bert_tf.TextClassifier.from_preset(tmp_path / "saved", labels=["pos", "neg"])
    assert [x["label"] for x in reordered.predict(TEXTS)] == [x["label"] for x in expected]
    assert "random" not in caplog.text
    reordered.save_to_preset(tmp_path / "saved", overwrite=True)
    assert tasks.load_config(str(tmp_path / "saved"))[1].labels == ("pos", "neg")


def test_keras_file(trained, tmp_path):
    model = trained[0].model
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    batch = trained[0].tokenizer(TEXTS)
    np.testing.assert_array_equal(loaded(batch)["logits"], model(batch)["logits"])


@pytest.mark.slow
def test_scripts_read_the_folder(trained, run_script, tmp_path):
    classifier = trained[0]
    classifier.save_to_preset(tmp_path / "saved")
    rows = [f"{text}\t{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    flags = [f"--vocab_file={tmp_path}/saved/vocab.txt", "--distribution_strategy=one_device",
             f"--bert_config_file={tmp_path}/saved/bert_config.json", "--task_type=classification",
             "--text_columns=text", "--label_column=label",
             f"--train_file={tmp_path}/train.tsv", f"--dev_file={tmp_path}/dev.tsv"]  # fmt: skip
    run_script(
        "run_classifier.py", *flags, "--do_eval", "--do_train", "--learning_rate=0",
        f"--init_checkpoint={tmp_path}/saved", f"--output_dir={tmp_path}/run",
        "--num_train_epochs=1", "--max_seq_length=32", "--train_batch_size=4",
    )  # fmt: skip
    assert "eval_accuracy = 1.0" in (tmp_path / "run" / "eval_results.txt").read_text()
    other = bert_tf.TextClassifier.from_preset(tmp_path / "run")
    assert other.predict(TEXTS) == classifier.predict(TEXTS)
    run_script(
        "export_model.py", f"--model_dir={tmp_path}/saved", f"--export_dir={tmp_path}/served"
    )
    answers = serving.Predictor(str(tmp_path / "served"))([{"text": text} for text in TEXTS])
    assert [answer["label"] for answer in answers] == LABELS


def captured_fit(classifier, *arguments, **options):
    """Return the batches and the validation batches that `fit` gives to Keras."""
    captured = {}

    def fit(dataset, validation_data=None, **_):
        captured["train"], captured["validation"] = dataset, validation_data
        return keras.callbacks.History()

    classifier.model.fit = fit
    classifier.fit(*arguments, **options)
    del classifier.model.fit
    return captured["train"], captured["validation"]


def test_bucketed_batches_have_texts_of_similar_length(encoder_folder, monkeypatch):
    classifier = make(encoder_folder)
    monkeypatch.setattr(classifier, "tokenizer", lambda texts: {"texts": texts})
    monkeypatch.setattr(classifier, "_pad", lambda batch: batch)
    texts = ["a" * (7 * i % 64 + 1) for i in range(64)]
    labels = [len(text) % 2 for text in texts]
    batches, _ = captured_fit(
        classifier, texts, labels, batch_size=4, class_weight={"pos": 2.0}, bucket_by_length=True
    )
    assert batches.cardinality() == 16
    seen, spread = [], 0
    for batch, targets, weights in batches:
        lengths = [len(text) for text in batch["texts"].numpy()]
        assert targets.numpy().tolist() == [x % 2 for x in lengths]
        assert weights.numpy().tolist() == [1.0 + x % 2 for x in lengths]
        spread += max(lengths) - min(lengths)
        seen.append(lengths)
    assert sorted(x for lengths in seen for x in lengths) == list(range(1, 65))
    assert spread / 16 < 25  # 39 without sorting
    assert seen != sorted(seen)
    again = [[len(x) for x in batch["texts"].numpy()] for batch, *_ in batches]
    assert again != seen  # another epoch


@pytest.mark.slow
def test_batches_of_pairs(encoder_folder, tmp_path):
    classifier = make(encoder_folder, max_seq_length=12)
    python = bert_tf.FullTokenizer(str(encoder_folder / "vocab.txt"))
    data = (PAIRS, ["pos", "neg", 1, 0])
    batches, validation = captured_fit(
        classifier, *data, validation_split=0.25, shuffle=False, sample_weight=[1, 2, 3, 4],
        class_weight={0: 0.5}, batch_size=2,
    )  # fmt: skip
    seen = []
    for batch, targets, weights in batches:
        assert batch["input_ids"].shape[1] == 8
        seen += zip(
            batch["input_ids"].numpy().tolist(), targets.numpy(), weights.numpy(), strict=True
        )
    for (ids, target, weight), (a, b), expected in zip(
        seen, PAIRS[:3], [(1, 1), (0, 1), (1, 3)], strict=True
    ):
        row = pack_pair(python.encode(a), python.encode(b), python, 8)
        assert ids == row["input_ids"]
        assert (target, weight) == expected
    ((_, targets, weights),) = validation
    assert targets.numpy() == [0] and weights.numpy() == [4]  # without class weights
    assert classifier.config.num_texts == 2
    assert {tuple(x) for x, *_ in seen} == {
        tuple(x)
        for batch, *_ in captured_fit(classifier, PAIRS[:3], [1, 0, 1])[0]
        for x in batch["input_ids"].numpy().tolist()
    }


@pytest.mark.parametrize(
    ("dtype", "labels"),
    [
        ("string", ["pos", "neg"]),
        pytest.param("int64", [1, 0], marks=pytest.mark.slow),
        pytest.param("int32", [[1], [0]], marks=pytest.mark.slow),
    ],
)
def test_datasets(encoder_folder, dtype, labels):
    classifier = make(encoder_folder)
    dataset = tf.data.Dataset.from_tensor_slices(((["a", "b"], ["c", "d"]), tf.constant(labels)))
    assert dataset.element_spec[1].dtype == dtype or dtype == "int64"
    batches, validation = captured_fit(
        classifier, dataset.batch(2), class_weight={"pos": 3.0}, validation_data=dataset.batch(1)
    )
    ((batch, targets, weights),) = batches
    assert targets.numpy().tolist() == [1, 0] and weights.numpy().tolist() == [3.0, 1.0]
    expected = classifier.tokenizer(["a", "b"], ["c", "d"])["input_ids"]
    np.testing.assert_array_equal(batch["input_ids"][:, :5], expected)
    assert [targets.numpy().tolist() for _, targets in validation] == [[1], [0]]
    assert classifier.config.num_texts == 2


@pytest.mark.slow
def test_regression_and_multi_label(encoder_folder, tmp_path):
    """One eager step each: the task's loss, and answers that survive saving."""
    cases = {
        "regression": (None, [0.5, -1.0], [0.5, -1.0], {"score", "logits"}),
        "multi_label": (["x", "y", "z"], [["x", "z"], []], [[1, 0, 1], [0, 0, 0]],
                        {"labels", "probabilities"}),
    }  # fmt: skip
    for task_type, (names, labels, targets, keys) in cases.items():
        classifier = make(encoder_folder, labels=names, task_type=task_type)
        logits = classifier.model(classifier.tokenizer(TEXTS[:2]))["logits"]
        task_class = tasks.TASK_CLASSES[task_type]
        batch = {task_class.label_name: tf.constant(targets, tf.float32)}
        task = task_class(classifier.config.bert_config, classifier.config.num_outputs)
        losses = task._example_losses({"logits": logits}, batch)
        classifier.compile(run_eagerly=True)
        results = classifier.evaluate(TEXTS[:2], np.array(targets), verbose=0)
        np.testing.assert_allclose(results["loss"], np.mean(losses), rtol=1e-5)
        history = classifier.fit(TEXTS[:2], labels, epochs=1, learning_rate=1e-2, verbose=0)
        assert set(history.history) == set(results) > {"loss"}
        assert set(classifier.predict(TEXTS[:2])[0]) == keys
        (tmp_path / task_type).mkdir()
        loaded = run_pipeline_test(classifier, {"text": TEXTS[:2]}, tmp_path / task_type)
        assert loaded.config.task_type == task_type


@pytest.mark.slow
def test_own_optimizer_and_loss(encoder_folder):
    classifier = make(encoder_folder)
    classifier.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    optimizer = classifier.model.optimizer
    classifier.fit(TEXTS[:2], LABELS[:2], epochs=1, verbose=0)
    assert classifier.model.optimizer is optimizer and optimizer.iterations.numpy() == 1
    with pytest.raises(bert_tf.UserError, match=r"`learning_rate`.*`compile`"):
        classifier.fit(TEXTS[:2], LABELS[:2], learning_rate=1e-3)
    # An optimizer that was compiled with Keras counts too.
    classifier = make(encoder_folder)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.model.compile("sgd", loss, run_eagerly=True)
    classifier.fit(TEXTS[:2], LABELS[:2], epochs=1, verbose=0)
    assert isinstance(classifier.model.optimizer, keras.optimizers.SGD)


@pytest.mark.slow
def test_one_trace_covers_all_lengths(encoder_folder):
    classifier, traced = make(encoder_folder), []
    train_step = classifier.model.train_step

    def count(*arguments):
        traced.append(arguments)
        return train_step(*arguments)

    classifier.model.train_step = count
    classifier.fit(TEXTS, LABELS, epochs=2, batch_size=1, verbose=0)  # lengths 8 and 16
    # TensorFlow traces a function twice if the first call makes variables.
    assert len(traced) <= 2


@pytest.mark.slow
def test_on_two_replicas(encoder_folder):
    losses = []
    for scope in (mirrored(2).scope(), tf.distribute.get_strategy().scope()):
        with scope:
            classifier = make(encoder_folder)
        for layer in classifier.model.layers:
            if isinstance(layer, bert_tf.modeling.Dropout):
                layer.rate = 0.0  # replicas draw different masks
        history = classifier.fit(
            TEXTS, LABELS, epochs=2, batch_size=4, shuffle=False, learning_rate=1e-3, verbose=0
        )
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert len(classifier.predict(TEXTS)) == len(TEXTS)


def test_new_head_is_reported(encoder_folder, caplog):
    caplog.set_level("INFO", "bert_tf")
    classifier = make(encoder_folder)
    assert "the head is randomly initialized" in caplog.text
    assert "output_weights" in caplog.text
    classifier.predict(["a"])
    assert "randomly initialized head; train it with `fit`" in caplog.text


def test_hugging_face_folder(encoder_folder, tmp_path):
    config = bert_tf.BertConfig.from_json_file(str(encoder_folder / "bert_config.json"))
    tensors = {
        name: variable.numpy()
        for name, variable in checkpoints.weights(bert_tf.BertClassifier(config, 2)).items()
    }
    checkpoints.write_hugging_face(
        str(tmp_path / "hf"), tensors, config, str(encoder_folder / "vocab.txt"), False,
        ["x", "y"], task_type="multi_label",
    )  # fmt: skip
    classifier = bert_tf.TextClassifier.from_preset(tmp_path / "hf")
    assert classifier.config.labels == ("x", "y")
    assert classifier.config.task_type == "multi_label" and not classifier.config.do_lower_case
    assert not classifier._is_random
    assert set(classifier.predict(["a"])[0]["probabilities"]) == {"x", "y"}


def test_one_output_is_a_score(transformers, encoder_folder, tmp_path):
    """A cross-encoder: as in transformers a regression, where no file says what it is."""
    import torch

    keras.utils.set_random_seed(0)
    config = bert_tf.BertConfig.from_json_file(str(encoder_folder / "bert_config.json"))
    model = bert_tf.BertClassifier(config, 1)
    vocab_file, folder = str(encoder_folder / "vocab.txt"), str(tmp_path / "hf")
    checkpoints.write_hugging_face(folder, checkpoints.tensors(model), config, vocab_file)
    assert "problem_type" not in (tmp_path / "hf" / "config.json").read_text()
    classifier = bert_tf.TextClassifier.from_preset(folder)
    assert classifier.config.task_type == "regression"
    scores = [answer["score"] for answer in classifier.predict(PAIRS)]

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    for (a, b), score in zip(PAIRS, scores, strict=True):
        inputs = tokenizer(a, b or None, return_tensors="pt")
        with torch.no_grad():
            np.testing.assert_allclose(score, peer(**inputs).logits[0, 0], atol=1e-5)
    inputs["labels"] = torch.tensor([1.0])
    peer(**inputs)
    assert peer.config.problem_type == "regression"  # what transformers makes of one output

    # The head of a choice has one output too.
    checkpoints.write_hugging_face(
        str(tmp_path / "choice"), checkpoints.tensors(bert_tf.BertMultipleChoice(config)), config,
        vocab_file,
    )  # fmt: skip
    with pytest.raises(bert_tf.UserError, match="`labels`: expected at least two"):
        bert_tf.TextClassifier.from_preset(tmp_path / "choice")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": None}, "`labels` must be given"),
        ({"labels": "ab"}, "`labels`: .* single str"),
        ({"labels": ["a"]}, "`labels`: expected at least two"),
        ({"labels": ["a", "a"]}, "`labels`: a label occurs twice"),
        ({"task_type": "regression"}, "`labels` cannot be combined with `task_type=regression`"),
        ({"task_type": "tagging"}, "`task_type=tagging`: expected one of classification"),
        ({"max_seq_length": 33}, "`max_seq_length=33` exceeds"),
        ({"preset": "uncased"}, "`preset`: uncased is neither a published model"),
    ],
)
def test_wrong_presets(encoder_folder, arguments, message):
    options = {"preset": encoder_folder, "labels": ["a", "b"], **arguments}
    with pytest.raises(bert_tf.UserError, match=message):
        bert_tf.TextClassifier.from_preset(**options)


DATASET = tf.data.Dataset.from_tensor_slices((["a", "b"], ["pos", "neg"]))
# Its labels have the shape (None, None).
UNKNOWN_COLUMNS = tf.data.Dataset.from_generator(
    lambda: [(["a"], [["pos", "neg"]])],
    output_signature=(tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.string)),
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a b", ["pos"]), "`texts`: expected a list of texts.*single str"),
        ((["a", 3], ["pos", "neg"]), "`texts`: .*item 1 is 3"),
        (([("a", "b", "c")], ["pos"]), "`texts`: .*item 0"),
        (([], []), "`texts` is empty"),
        ((["a"],), "`labels` must be given"),
        ((["a", "b"], ["pos"]), "`texts` and `labels` .*2 and 1"),
        ((["a", "b"], "ab"), "`labels`: .*single str"),
        ((["a", "b"], ["pos", "bad"]), "`labels`: item 1 is 'bad', not one of the labels neg, pos"),
        ((["a", "b"], ["pos", 2]), "`labels`: item 1 is 2"),
        ((["a"], ["pos"], (["a"],)), "`validation_data`: expected"),
        ((["a"], ["pos"], (tf.data.Dataset.range(1), ["a"])), "`validation_data`: expected"),
        ((["a"], ["pos"], (["a"], ["x"])), "`validation_data`: item 0 is 'x'"),
        ((["a"], ["pos"], None, 0.5), "`validation_split=0.5`"),
        ((DATASET,), r"`texts`: expected batches of texts; call its method `batch"),
        ((DATASET.batch(2), ["pos"]), "`labels` cannot be combined with a dataset"),
        ((DATASET.batch(2).map(lambda x, y: x),), "`texts`: expected a dataset of"),
        ((DATASET.batch(2).map(lambda x, y: (tf.strings.length(x), y)),), "must be strings"),
        ((DATASET.batch(2).map(lambda x, y: (x, 0.5)),), "`texts`: the labels of the dataset"),
        ((UNKNOWN_COLUMNS,), r"`texts`: the labels of the dataset have the shape \(None, None\)"),
        ((DATASET.batch(2).repeat(),), "the number of batches .*`steps_per_epoch`"),
    ],
)
def test_wrong_data(encoder_folder, arguments, message):
    with pytest.raises(bert_tf.UserError, match=message):
        make(encoder_folder).fit(*arguments, verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learning_rate": float("nan")}, "`learning_rate=nan`: expected a finite number"),
        ({"learning_rate": -1}, "`learning_rate=-1`: expected a finite number of at least 0"),
        ({"learning_rate": "1e-3"}, "`learning_rate='1e-3'`: expected a finite number"),
        ({"batch_size": 0}, "`batch_size=0`: expected an integer between 1 and 1048576"),
        ({"batch_size": 1.5}, "`batch_size=1.5`: expected an integer"),
        ({"epochs": 0}, "`epochs=0`: expected an integer of at least 1"),
        ({"epochs": True}, "`epochs=True`: expected an integer"),
        ({"validation_split": float("nan")}, "`validation_split=nan`: expected a finite number"),
        ({"shuffle": "no"}, "`shuffle='no'`: expected true or false"),
        ({"steps_per_epoch": -1}, "`steps_per_epoch=-1`: expected an integer of at least 1"),
    ],
)
def test_wrong_arguments_of_fit(encoder_folder, arguments, message):
    with pytest.raises(bert_tf.UserError, match=f"^{message}"):
        make(encoder_folder).fit(TEXTS, LABELS, verbose=0, **arguments)


def test_wrong_batch_sizes_of_evaluate_and_predict(encoder_folder):
    classifier = make(encoder_folder)
    for run in (lambda: classifier.predict(TEXTS, 0), lambda: classifier.evaluate(["a"], [0], -1)):
        with pytest.raises(bert_tf.UserError, match=r"^`batch_size="):
            run()


def test_fit_stops_if_the_loss_is_not_finite(encoder_folder):
    """With the sentence of the scripts; the weights cannot be used any more."""
    classifier = make(encoder_folder)
    classifier.compile(keras.optimizers.SGD(1e30), run_eagerly=True)
    message = r"^loss is (nan|inf) at step [23]; load the model again, .*`learning_rate` may help$"
    with pytest.raises(bert_tf.UserError, match=message):
        classifier.fit(TEXTS, LABELS, batch_size=4, verbose=0)


def test_weights_of_a_dataset_with_a_column_each(encoder_folder):
    """Weights (B, 1) and labels (B, 1) give weights (B,), not (B, B)."""
    labels, weights = tf.constant([["pos"], ["neg"]]), tf.constant([[2.0], [3.0]])
    dataset = tf.data.Dataset.from_tensor_slices((["a", "b"], labels, weights)).batch(2)
    for options, expected in (({}, [2.0, 3.0]), ({"class_weight": {"pos": 5.0}}, [10.0, 3.0])):
        ((_, targets, found),), _ = captured_fit(make(encoder_folder), dataset, **options)
        assert targets.numpy().tolist() == [1, 0] and found.numpy().tolist() == expected
    wide = dataset.map(lambda x, y, w: (x, y, tf.tile(w, [1, 2])))
    with pytest.raises(bert_tf.UserError, match=r"`texts`: the sample weights .* \(None, 2\)"):
        make(encoder_folder).fit(wide)


def test_a_tuple_of_one_text_is_no_pair(encoder_folder):
    classifier = make(encoder_folder)
    dataset = tf.data.Dataset.from_tensor_slices(((["a", "b"],), ["pos", "neg"])).batch(2)
    ((batch, *_),), _ = captured_fit(classifier, dataset)
    np.testing.assert_array_equal(
        batch["input_ids"][:, :3], classifier.tokenizer(["a", "b"])["input_ids"]
    )
    assert classifier.config.num_texts == 1


def test_labels_of_a_dataset_are_not_ignored(encoder_folder):
    classifier = make(encoder_folder)
    with pytest.raises(bert_tf.UserError, match="`labels` cannot be combined with a dataset"):
        classifier.evaluate(DATASET.batch(2), ["pos", "neg"])


class Frame:
    """What is used of a DataFrame."""

    def __init__(self, **columns):
        self._values, self.columns = np.array(list(columns.values()), object).T, list(columns)

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name):
        return self._values[:, self.columns.index(name)]

    def to_numpy(self):
        return self._values


@pytest.mark.parametrize("is_stand_in", [True, False])
def test_data_frames(encoder_folder, is_stand_in):
    frame, classifier = Frame, make(encoder_folder)
    if not is_stand_in:
        pandas = pytest.importorskip("pandas")
        frame = lambda **columns: pandas.DataFrame(columns)  # noqa: E731
    one, two = frame(x=["a", "b"]), frame(x=["a", "b"], y=["c", "d"])
    assert classifier.predict(one) == classifier.predict(["a", "b"])
    assert classifier.predict(two) == classifier.predict([("a", "c"), ("b", "d")])
    ((_, targets),), _ = captured_fit(classifier, one, frame(label=["pos", "neg"]), epochs=1)
    assert sorted(targets.numpy()) == [0, 1] and classifier.config.num_texts == 1
    with pytest.raises(bert_tf.UserError, match=r"`texts`: expected .*item 0 is array"):
        classifier.predict(frame(x=["a"], y=["b"], z=["c"]))


def test_two_lists_are_pairs_and_keys_are_not_texts(encoder_folder):
    classifier = make(encoder_folder)
    expected = classifier.predict([("a", "c"), ("b", "d")])
    assert classifier.predict((["a", "b"], ["c", "d"])) == expected
    assert classifier.predict([["a", "c"], ["b", "d"]]) == expected
    assert classifier.predict(tuple(np.array(["a", "b"]))) == classifier.predict(["a", "b"])
    with pytest.raises(bert_tf.UserError, match=r"`texts\[0\]` and `texts\[1\]` must .*2 and 1"):
        classifier.predict((["a", "b"], ["c"]))
    for keyed in ({"a"}, {"a": 1}.keys()):
        with pytest.raises(bert_tf.UserError, match=r"`texts`: expected a list of texts.* found a"):
            classifier.predict(keyed)
    with pytest.raises(bert_tf.UserError, match=r"`texts`: a column text or .* found a"):
        classifier.predict({"a": 1})


def test_buckets_that_would_be_ignored(encoder_folder):
    classifier = make(encoder_folder)
    with pytest.raises(bert_tf.UserError, match="`bucket_by_length` cannot be combined with a da"):
        classifier.fit(DATASET.batch(2), bucket_by_length=True)
    with pytest.raises(bert_tf.UserError, match="`bucket_by_length` requires `shuffle`"):
        classifier.fit(["a"], ["pos"], bucket_by_length=True, shuffle=False)


def test_unknown_label_in_a_dataset(encoder_folder):
    classifier = make(encoder_folder)
    classifier.compile("sgd", run_eagerly=True)
    dataset = DATASET.map(lambda x, y: (x, y + "x")).batch(2)
    with pytest.raises(bert_tf.UserError, match=r"`texts`: the dataset has a label .*neg, pos$"):
        classifier.fit(dataset, verbose=0)


def test_wrong_weights(encoder_folder):
    classifier = make(encoder_folder)
    with pytest.raises(bert_tf.UserError, match=r"`class_weight`: 'x': 1.0, not one of"):
        classifier.fit(["a"], ["pos"], class_weight={"x": 1.0})
    with pytest.raises(bert_tf.UserError, match="`texts` and `sample_weight`"):
        classifier.fit(["a"], ["pos"], sample_weight=[1.0, 2.0])
    classifier.config = dataclasses.replace(classifier.config, task_type="multi_label")
    with pytest.raises(bert_tf.UserError, match=r"`class_weight`.*`task_type=multi_label`"):
        classifier.fit(["a"], [["pos"]], class_weight={"x": 1.0})


def test_labels_that_are_numbers():
    encoder = LabelEncoder("classification", ["1", "2", "3"])
    assert encoder.encode([1, "2", np.int64(3)], "labels").tolist() == [0, 1, 2]
    assert encoder.encode_tensor(tf.constant([1, 3]), "labels").numpy().tolist() == [0, 2]
    with pytest.raises(bert_tf.UserError, match="item 0 is 0"):
        encoder.encode([0], "labels")
    encoder = LabelEncoder("multi_label", ["0", "1"])
    assert encoder.encode([[1], [0, 1], np.array([0, 1])], "labels").tolist() == [
        [0, 1], [1, 1], [0, 1],
    ]  # fmt: skip
    encoder = LabelEncoder("multi_label", ["x", "y"])
    assert encoder.encode([["y"], [0, 1], []], "labels").tolist() == [[0, 1], [0, 1], [0, 0]]
    for row in ([0, 2], [0, 1, 1], "x", ["z"]):
        with pytest.raises(bert_tf.UserError, match="`labels`: item 0"):
            encoder.encode([row], "labels")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"long_documents": "windows"}, "`preset`: .* reads long texts in windows"),
        ({"numeric_features": (NumericFeature("age", 1.0, 2.0),)}, "`preset`: .* the numbers age"),
    ],
)
def test_models_with_other_inputs_are_refused(encoder_folder, tmp_path, changes, match):
    classifier = make(encoder_folder)
    classifier.config = dataclasses.replace(classifier.config, **changes)
    classifier.save_to_preset(tmp_path / "saved")
    with pytest.raises(bert_tf.UserError, match=match):
        bert_tf.TextClassifier.from_preset(tmp_path / "saved")


class Batches(keras.utils.PyDataset):
    """Two batches of texts and label indices."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        part = slice(6 * index, 6 * index + 6)
        return np.array(TEXTS[part]), np.array([1, 0] * 3)


def test_forms_of_the_arguments(encoder_folder):
    """All forms of the same texts and labels give the same loss and the same answers."""
    pd = pytest.importorskip("pandas")
    classifier = make(encoder_folder)
    ids = np.array([1, 0] * 6)
    results = [
        classifier.evaluate(texts, labels, verbose=0)["loss"]
        for texts, labels in (
            (TEXTS, LABELS), (tf.constant(TEXTS), tf.constant(ids)),
            (pd.Series(TEXTS), ids[:, None]),
            (pd.DataFrame({"text": TEXTS}), pd.DataFrame({"label": LABELS})), (Batches(), None),
            (tf.data.Dataset.from_tensor_slices((TEXTS, np.eye(2)[ids])).batch(6), None),
        )
    ]  # fmt: skip
    results += [
        classifier.evaluate(x=TEXTS, y=LABELS, verbose=0, return_dict=True)["loss"],
        classifier.evaluate(TEXTS, LABELS, verbose=0, return_dict=False)[0],
    ]
    np.testing.assert_allclose(results, results[0], rtol=1e-5)
    expected = classifier.predict(TEXTS)
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(5)
    for texts in (
        np.array(TEXTS), tf.constant(TEXTS), pd.DataFrame({"text": TEXTS}), pd.Series(TEXTS),
        Batches(), dataset, dataset.map(lambda x, _: x),
    ):  # fmt: skip
        assert classifier.predict(x=texts, verbose=0) == expected
    assert classifier.predict(TEXTS[1]) == expected[1]
    pairs = classifier.predict([("a", "b"), ("c", "d")])
    columns = tf.data.Dataset.from_tensor_slices((["a", "c"], ["b", "d"]))
    columns = columns.map(lambda a, b: ((a, b), 0)).batch(2)
    for texts in ((["a", "c"], ["b", "d"]), pd.DataFrame([["a", "b"], ["c", "d"]]), columns):
        assert classifier.predict(texts) == pairs
    history = classifier.fit(x=Batches(), validation_data=Batches(), epochs=2, verbose=0)
    assert len(history.history["val_loss"]) == 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, 1]] * 12, "numbers 0 and one 1"),
        ([[0, 1, 0]] * 12, "expected a label, or 2 numbers 0 and one 1"),
        ([0.5] * 12, "not one of the labels"),
        ([2.0] * 12, "not one of the labels"),
        ([None] * 12, "not one of the labels"),
        ([float("nan")] * 12, "not one of the labels"),
    ],
)
def test_wrong_forms_of_labels(encoder_folder, labels, message):
    with pytest.raises(bert_tf.UserError, match=f"`labels`: item 0 is .*{message}"):
        make(encoder_folder).evaluate(TEXTS, labels)


def test_balanced_weights_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.utils")
    labels = np.array(["x", "y", "y", "z", "y", "x", "y"])
    encoder = LabelEncoder("classification", ["w", "x", "y", "z"])
    weights = encoder.label_weights("balanced", encoder.encode(labels, "labels"))
    expected = sklearn.compute_class_weight("balanced", classes=np.unique(labels), y=labels)
    np.testing.assert_allclose(weights, [1, *expected], rtol=1e-6)
    for wrong, targets, message in (
        ("balanced", None, "requires lists"),
        ("even", [0], "expected a dict"),
        ([1, 2], [0], "expected a dict"),
    ):
        with pytest.raises(bert_tf.UserError, match=f"`class_weight.*{message}"):
            encoder.label_weights(wrong, targets)


def test_losses_are_of_logits(encoder_folder):
    losses = []
    for loss in (None, "sparse_categorical_crossentropy", "categorical_crossentropy",
                 keras.losses.SparseCategoricalCrossentropy(from_logits=True)):  # fmt: skip
        classifier = make(encoder_folder)
        classifier.compile("sgd", loss, metrics=["accuracy"])
        losses.append(classifier.evaluate(TEXTS, LABELS, verbose=0)["loss"])
    np.testing.assert_allclose(losses, losses[0], rtol=1e-6)
    for loss in (keras.losses.SparseCategoricalCrossentropy(), "binary_crossentropy"):
        with pytest.raises(bert_tf.UserError, match=r"from_logits=True|`loss=binary_crossentropy`"):
            classifier.compile("sgd", loss)


@pytest.mark.slow
def test_a_second_fit_reuses_the_compiled_step(encoder_folder):
    """It makes the steps of a newly compiled one."""
    weights, steps = [], []
    for is_new in (True, False):
        classifier = make(encoder_folder)
        for _ in range(2):
            if is_new:
                classifier.compile()
            classifier.fit(TEXTS, LABELS, epochs=2, batch_size=6, shuffle=False, verbose=0)
            steps.append(classifier.model.train_function)
        weights.append(classifier.model.get_weights())
    assert steps[0] is not steps[1] and steps[2] is steps[3]
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)
    # With frozen weights or other steps it is compiled.
    classifier.model.get_layer("bert").trainable = False
    for epochs in (2, 1):
        classifier.fit(TEXTS, LABELS, epochs=epochs, batch_size=6, verbose=0)
        assert classifier.model.train_function not in steps
        steps.append(classifier.model.train_function)


def test_number_of_classes(encoder_folder):
    assert make(encoder_folder, None, num_classes=3).config.labels == ("0", "1", "2")
    with pytest.raises(bert_tf.UserError, match="`labels` and `num_classes` cannot"):
        make(encoder_folder, num_classes=2)
