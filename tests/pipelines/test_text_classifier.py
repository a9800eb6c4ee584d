"""`TextClassifier`: fit on strings, predictions, presets, export."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints, serving
from bert_tf.tasks.classification.task import TASK_CLASSES
from bert_tf.tasks.registry import load_config
from bert_tf.tokenization.packing import pack_pair
from tests.pipelines.classifier_helpers import (
    LABELS,
    PAIRS,
    TEXTS,
    captured_fit,
    make,
    make_quick,
    no_history,
)
from tests.pipelines.conftest import run_pipeline_test
from tests.training.training_helpers import mirrored

pytest.importorskip("tensorflow_text")


class Recorder(keras.callbacks.Callback):
    """Records the learning rate and the sequence length of each training step."""

    def __init__(self):
        super().__init__()
        self.rates = []

    def on_train_batch_begin(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate))


@pytest.fixture(scope="module")
def trained(encoder_folder):
    """The classifier after `fit`, its history, and the callback."""
    classifier, recorder = make(encoder_folder), Recorder()
    classifier.compile(run_eagerly=True)  # eager, since tracing takes longer than a few steps
    history = classifier.fit(
        TEXTS * 4,
        LABELS * 4,
        validation_data=(TEXTS[:3], [1, 0, 1]),
        epochs=2,
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
    # The rate rises over the first tenth of 20 steps and then decays.
    rate = bert_tf.LinearWarmupDecay(1e-2, num_train_steps=20, num_warmup_steps=2)
    np.testing.assert_allclose(recorder.rates, [rate(step) for step in range(20)], rtol=1e-6)
    results = classifier.evaluate(TEXTS, LABELS, verbose=0)
    assert results["accuracy"] == 1.0 and results["loss"] < 0.6
    assert [answer["label"] for answer in classifier.predict(TEXTS)] == LABELS


def test_fit_leaves_out_padding(encoder_folder, monkeypatch):
    """Compiled steps skip padding, except with XLA; the model's attribute stays False."""
    seen = []

    def record(model, *_, **__):
        seen.append(model.skip_padding)
        return no_history()

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
    checkpoint = str(tmp_path / "saved" / "model.ckpt-20")
    assert bert_tf.TextClassifier.from_preset(checkpoint).predict(TEXTS) == expected
    reordered = bert_tf.TextClassifier.from_preset(tmp_path / "saved", labels=["pos", "neg"])
    assert [x["label"] for x in reordered.predict(TEXTS)] == [x["label"] for x in expected]
    assert "random" not in caplog.text
    reordered.save_to_preset(tmp_path / "saved", overwrite=True)
    assert load_config(str(tmp_path / "saved"))[1].labels == ("pos", "neg")


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


def test_bucketed_batches_have_texts_of_similar_length(encoder_folder, monkeypatch):
    classifier = make(encoder_folder)
    monkeypatch.setattr(classifier, "tokenizer", lambda texts: {"texts": texts})
    monkeypatch.setattr(classifier, "_pad", lambda batch: batch)
    monkeypatch.setattr(classifier, "_log_truncated", lambda *_: None)
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
    assert again != seen  # the next epoch


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


def test_a_new_regression_head_starts_at_the_mean(encoder_folder):
    classifier = make_quick(encoder_folder, labels=None, task_type="regression")
    for scores in ([3.0, 5.0], [30.0, 50.0]):  # the second call continues with a trained head
        captured_fit(classifier, TEXTS[:2], scores)
        bias = bert_tf.checkpoints.weights(classifier.model)["output_bias"]
        np.testing.assert_allclose(bias, [4.0])


@pytest.mark.slow
def test_regression_and_multi_label(encoder_folder, tmp_path):
    """One eager step has the task's loss, and the answers survive saving."""
    cases = {
        "regression": (None, [0.5, -1.0], [0.5, -1.0], {"score", "logits"}),
        "multi_label": (["x", "y", "z"], [["x", "z"], []], [[1, 0, 1], [0, 0, 0]],
                        {"labels", "probabilities"}),
    }  # fmt: skip
    for task_type, (names, labels, targets, keys) in cases.items():
        classifier = make(encoder_folder, labels=names, task_type=task_type)
        logits = classifier.model(classifier.tokenizer(TEXTS[:2]))["logits"]
        task_class = TASK_CLASSES[task_type]
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
    # An optimizer compiled with Keras is used too.
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
    """A cross-encoder without task metadata is a regression, as in transformers."""
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
    assert peer.config.problem_type == "regression"  # transformers treats one output as a score

    # A multiple-choice head has one output too.
    checkpoints.write_hugging_face(
        str(tmp_path / "choice"), checkpoints.tensors(bert_tf.BertMultipleChoice(config)), config,
        vocab_file,
    )  # fmt: skip
    with pytest.raises(bert_tf.UserError, match=r"`labels`: found .*, expected at least two"):
        bert_tf.TextClassifier.from_preset(tmp_path / "choice")


def test_fit_stops_if_the_loss_is_not_finite(encoder_folder):
    """The error is the scripts' sentence, and the weights are unusable."""
    classifier = make_quick(encoder_folder)
    classifier.compile(keras.optimizers.SGD(1e30), run_eagerly=True)
    message = r"^loss is (nan|inf) at step [23]; load the model again, .*`learning_rate` may help$"
    with pytest.raises(bert_tf.UserError, match=message):
        classifier.fit(TEXTS, LABELS, batch_size=4, verbose=0)


@pytest.mark.slow
def test_a_second_fit_reuses_the_compiled_step(encoder_folder):
    """The reused step trains like a newly compiled one."""
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
    # Frozen weights or a different number of steps compile a new step.
    classifier.model.get_layer("bert").trainable = False
    for epochs in (2, 1):
        classifier.fit(TEXTS, LABELS, epochs=epochs, batch_size=6, verbose=0)
        assert classifier.model.train_function not in steps
        steps.append(classifier.model.train_function)
