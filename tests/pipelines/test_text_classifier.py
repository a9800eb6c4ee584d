"""`TextClassifier`: fit on strings, predictions, presets, export."""

import copy
import pickle

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.tasks.registry import load_config
from bert_tf.tokenization.packing import pack_pair
from tests.common import write_hugging_face
from tests.pipelines.classifier_helpers import LABELS, PAIRS, TEXTS, captured_fit, make
from tests.pipelines.conftest import run_pipeline_test


@pytest.fixture(scope="module")
def trained(encoder_folder):
    """The classifier after `fit`, its history, and the learning rate of each step."""
    classifier, rates = make(encoder_folder), []
    model = classifier.model
    recorder = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda _, logs: rates.append(float(model.optimizer.learning_rate))
    )
    history = classifier.fit(
        TEXTS * 4, LABELS * 4, validation_data=(TEXTS[:3], [1, 0, 1]), epochs=2, batch_size=5,
        learning_rate=1e-2, callbacks=[recorder], class_weight={"pos": 1.5}, verbose=0,
    )  # fmt: skip
    return classifier, history.history, rates


def test_fit(trained):
    classifier, history, rates = trained
    assert isinstance(classifier.model, bert_tf.BertClassifier)
    assert {"accuracy", "loss", "val_accuracy", "val_loss", "val_f1_macro"} <= set(history)
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    # The rate rises over the first tenth of 20 steps and then decays.
    rate = bert_tf.LinearWarmupDecay(1e-2, num_train_steps=20, num_warmup_steps=2)
    np.testing.assert_allclose(rates, [rate(step) for step in range(20)], rtol=1e-6)
    results, part = (classifier.evaluate(TEXTS[:n], LABELS[:n]) for n in (12, 3))
    assert results["accuracy"] == 1.0 and results["loss"] < 0.6
    assert history["val_loss"][-1] == pytest.approx(part["loss"])
    for answer, label in zip(classifier.predict(TEXTS), LABELS, strict=True):
        probabilities = answer["probabilities"]
        assert list(probabilities) == ["neg", "pos"] and max(probabilities.values()) > 0.5
        assert answer["label"] == label == max(probabilities, key=probabilities.get)
    classifier.evaluate(PAIRS, LABELS[:4])
    assert classifier.config.num_texts == 1


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


def test_forms_of_answers(trained, encoder_folder):
    """Arrays for scikit-learn, the best labels, the threshold, and a ranking."""
    classifier = trained[0]
    answers, array = classifier.predict(TEXTS, top_k=1), classifier.predict_proba(TEXTS)
    assert array.dtype == "float32" and array.shape == (12, 2)
    assert classifier.predict_proba([]).shape == (0, 2)
    np.testing.assert_allclose(classifier.predict_proba(TEXTS[0]), array[0], atol=1e-6)
    for answer, row in zip(answers, array, strict=True):
        label, probability = ("neg", "pos")[row.argmax()], float(row.max())
        assert answer == {"label": label, "probabilities": {label: pytest.approx(probability)}}
    several = make(encoder_folder, labels=["x", "y"], task_type="multi_label")
    assert several.predict("a b", threshold=0.0)["labels"] == ["x", "y"]
    assert several.predict("a b", threshold=1.0)["labels"] == []
    scorer = make(encoder_folder, labels=None, task_type="regression")
    scores = scorer.predict_proba([("a", text) for text in TEXTS[:3]])
    order = np.argsort(-scores)[:2]
    assert scorer.rank("a", TEXTS[:3], top_k=2) == [
        {"corpus_id": i, "score": pytest.approx(scores[i], abs=1e-6)} for i in order
    ]
    for argument, call in {
        "threshold": lambda: classifier.predict(TEXTS, threshold=0.3),
        "threshold=50": lambda: several.predict(TEXTS, threshold=50),
        "top_k=0": lambda: classifier.predict(TEXTS, top_k=0),
        "top_k": lambda: scorer.predict(TEXTS, top_k=1),
        "documents": lambda: scorer.rank("a", "b c"),
        "label": lambda: classifier.rank("a", TEXTS),
        "save": lambda: classifier.save("x.keras"),
    }.items():
        with pytest.raises(bert_tf.UserError, match=f"^`{argument}`"):
            call()


@pytest.mark.slow
def test_copies_keep_what_was_compiled(encoder_folder):
    classifier = make(encoder_folder)
    assert copy.deepcopy(classifier)._is_random
    classifier.compile("adam", metrics=["mae"], run_eagerly=True)
    classifier.fit(TEXTS[:2], LABELS[:2], epochs=1, verbose=0)
    expected = classifier.predict(TEXTS[:2])
    for other in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):
        assert other.predict(TEXTS[:2]) == expected
        other.fit(TEXTS[:2], LABELS[:2], epochs=1, verbose=0)
        assert isinstance(other.model.optimizer, keras.optimizers.Adam)
        assert other.model.optimizer.iterations.numpy() == 2
    assert classifier.predict(TEXTS[:2]) == expected


def test_batches(encoder_folder, caplog):
    """Weights, the split for validation, steps per epoch, and batches of similar lengths."""
    classifier = make(encoder_folder, max_seq_length=12)
    tokenizer = bert_tf.FullTokenizer(str(encoder_folder / "vocab.txt"))
    options = {"sample_weight": [1, 2, 3, 4], "class_weight": {0: 0.5}, "validation_split": 0.25}
    first, second = captured_fit(
        classifier, PAIRS, LABELS[:4], shuffle=False, batch_size=2, **options
    )
    assert first["label_ids"] + second["label_ids"] == [1, 0, 1]
    assert first["sample_weight"] + second["sample_weight"] == [1, 2, 3]
    for ids, (a, b) in zip(first["input_ids"] + second["input_ids"], PAIRS[:3], strict=True):
        assert ids == pack_pair(tokenizer.encode(a), tokenizer.encode(b), tokenizer, 8)["input_ids"]
    assert classifier.config.num_texts == 2
    assert classifier.model.objective.class_weights == (0.5, 1.0)
    shuffled = captured_fit(classifier, TEXTS, LABELS, batch_size=4, steps_per_epoch=7)
    assert "`texts`: found single texts, but the model was trained on pairs" in caplog.text
    assert len(shuffled) == 7
    ids = [row for batch in shuffled[:3] for row in batch["input_ids"]]
    again = [row for batch in shuffled[3:6] for row in batch["input_ids"]]
    ids, again = ([[x for x in row if x] for row in rows] for rows in (ids, again))
    assert ids != again and sorted(ids) == sorted(again)

    classifier = make(encoder_folder)
    texts = [" ".join("a" * (7 * i % 29 + 1)) for i in range(64)]
    options = {"batch_size": 4, "bucket_by_length": False}
    plain, bucketed = (
        sum(len(x["input_ids"][0]) for x in captured_fit(classifier, texts, [0] * 64, **more))
        for more in (options, {**options, "bucket_by_length": True})
    )
    assert bucketed < 0.9 * plain


def test_a_new_regression_head_starts_at_the_mean(encoder_folder, caplog):
    classifier = make(encoder_folder, labels=None, task_type="regression")
    classifier.compile("sgd", "mse", run_eagerly=True)
    classifier.evaluate(TEXTS[:2], [7.0, 8.0])
    for scores in ([40.0, -32.0], [30.0, 50.0]):  # the second call continues with a trained head
        captured_fit(classifier, TEXTS[:2], scores)
        np.testing.assert_allclose(checkpoints.weights(classifier.model)["output_bias"], [4.0])
    assert caplog.text.count("standard deviation of 36;") == 1


@pytest.mark.parametrize(
    ("task_type", "kind"),
    [("classification", "Categorical"),
     pytest.param("multi_label", "Binary", marks=pytest.mark.slow)],
)  # fmt: skip
def test_losses_and_metrics_of_keras(encoder_folder, tmp_path, task_type, kind):
    """They get rows of 0 and 1 and, unless they take logits, probabilities."""
    classifier = make(encoder_folder, task_type=task_type)
    rows = np.eye(2)[[1, 0] * 6]
    probabilities = classifier.predict_proba(TEXTS)
    own_loss = classifier.evaluate(TEXTS, rows)["loss"]

    prefix = kind.lower()
    named_metrics = {
        "AUC": keras.metrics.AUC(),
        "mae": keras.metrics.MeanAbsoluteError(),
        f"{prefix}_accuracy": getattr(keras.metrics, f"{kind}Accuracy")(),
    }
    metric_objects = [
        keras.metrics.F1Score("macro", 0.5), keras.metrics.Precision(thresholds=[0.3, 0.7]),
        keras.metrics.RecallAtPrecision(0.4), keras.metrics.PrecisionAtRecall(0.4),
        keras.metrics.SensitivityAtSpecificity(0.4), keras.metrics.KLDivergence(),
    ]  # fmt: skip
    metric_function = keras.losses.binary_focal_crossentropy
    expected_metrics = {
        name: np.array(metric(rows, probabilities))
        for name, metric in (named_metrics | {x.name: x for x in metric_objects}).items()
    }
    expected_metrics[metric_function.__name__] = np.mean(metric_function(rows, probabilities))

    cross_entropy = getattr(keras.losses, f"{kind}Crossentropy")
    focal = getattr(keras.losses, f"{kind}FocalCrossentropy")
    binary = keras.losses.BinaryCrossentropy
    smoothing = {"label_smoothing": 0.1}
    for loss, expected in (
        (None, own_loss), (f"{prefix}_crossentropy", own_loss), ("CE", own_loss),
        (cross_entropy(**smoothing), cross_entropy(**smoothing)),
        (cross_entropy(from_logits=True, **smoothing), cross_entropy(**smoothing)),
        (f"{prefix}_focal_crossentropy", focal()), (focal(from_logits=True), focal()),
        ("kl_divergence", keras.metrics.KLDivergence()),
        ("binary_crossentropy", binary()), (binary(from_logits=True), binary()),
    ):  # fmt: skip
        for metric in metric_objects:
            metric.reset_state()
        compiled = classifier if loss is None else classifier.model
        metrics = [*named_metrics, *metric_objects, metric_function]
        compiled.compile("sgd", loss, metrics=metrics, run_eagerly=True)
        results = classifier.evaluate(TEXTS, rows, verbose=0)
        if callable(expected):
            expected = float(expected(rows, probabilities))
        for name, value in {"loss": expected, **expected_metrics}.items():
            assert results[name] == pytest.approx(value, rel=1e-4), (loss, name)
    if task_type == "multi_label":
        with pytest.raises(bert_tf.UserError, match=r"^`class_weight`"):
            classifier.fit(TEXTS, rows, class_weight={"pos": 2.0})
    classifier.model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_compile_config() == classifier.model.get_compile_config()


@pytest.mark.parametrize(
    "case",
    ["keras", "lora", *(pytest.param(x, marks=pytest.mark.slow)
                        for x in ("optimizer", "mixed_float16", "mixed_bfloat16"))],
)  # fmt: skip
def test_ways_to_train(encoder_folder, case):
    """Own optimizers and losses, low-rank adapters and low precision reduce the loss."""
    classifier = make(encoder_folder, dtype=case if "mixed" in case else None)
    model, options = classifier.model, {"learning_rate": 1e-2}
    if case == "optimizer":
        classifier.compile(keras.optimizers.Adam(1e-2))
    elif case == "keras":
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-2), lambda *x: 10 * loss(*x))
        options["validation_data"] = (TEXTS, LABELS)
    elif case == "lora":
        model.enable_lora(2)
    frozen = [np.array(x) for x in model.non_trainable_weights]
    assert bool(frozen) == (case == "lora")
    if model.compiled:
        with pytest.raises(bert_tf.UserError, match=r"`learning_rate`.*`compile`"):
            classifier.fit(TEXTS, LABELS, **options)
        del options["learning_rate"]
    optimizer = getattr(model, "optimizer", None)
    fitted = classifier.fit(TEXTS, LABELS, epochs=6, batch_size=3, verbose=0, **options).history
    assert fitted["loss"][-1] < 0.95 * fitted["loss"][0]
    assert case != "keras" or fitted["val_loss"][0] > 2
    if optimizer:
        assert model.optimizer is optimizer and optimizer.iterations.numpy() == 24
    for x, y in zip(frozen, model.non_trainable_weights, strict=True):
        np.testing.assert_array_equal(x, y)


def test_callbacks_and_a_second_fit(encoder_folder):
    """EarlyStopping reads the scores; a second `fit` reuses the step, and trains like a new one.

    `steps_per_execution` does not change the result, whether or not it divides the steps.
    """
    weights, steps = [], []
    for is_new in (True, False):
        classifier = make(encoder_folder)
        for _ in range(2):
            if is_new:
                classifier.compile(steps_per_execution=3)
            classifier.fit(TEXTS, LABELS, epochs=2, batch_size=6, steps_per_epoch=4, verbose=0)
            assert classifier.model.optimizer.iterations == 8
            steps.append(classifier.model.train_function)
        weights.append(classifier.model.get_weights())
    assert steps[0] is not steps[1] and steps[2] is steps[3]
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)
    evaluations = []
    for count in (1, 3):
        classifier.compile(metrics=["mae"], steps_per_execution=count)
        evaluations.append(classifier.evaluate(TEXTS[:7], LABELS[:7], batch_size=2, verbose=0))
    assert evaluations[0] == evaluations[1]
    classifier.compile()
    # Frozen weights compile a new step.
    classifier.model.get_layer("bert").trainable = False
    stop = keras.callbacks.EarlyStopping("val_loss", min_delta=9)
    history = classifier.fit(
        TEXTS, LABELS, validation_split=0.5, epochs=9, batch_size=6, callbacks=stop, verbose=0
    )
    assert history.epoch == [0, 1] and classifier.model.train_function not in steps


def test_validation_options(encoder_folder):
    """They have Keras' meaning; each metric of training is validated."""
    scorer = make(encoder_folder, labels=None, task_type="regression")
    scores = [*range(12)]
    history = scorer.fit(
        TEXTS, scores, validation_data=(TEXTS, scores), validation_steps=2, validation_freq=[2, 3],
        validation_batch_size=3, epochs=4, learning_rate=0.0, verbose=0,
    ).history  # fmt: skip
    expected = scorer.evaluate(TEXTS[:6], scores[:6])
    assert scorer.evaluate(TEXTS, scores, batch_size=3, steps=2, return_dict=True) == expected
    assert {f"val_{x}" for x in history if not x.startswith("val_")} < {*history}
    for name, value in expected.items():
        np.testing.assert_allclose(history[f"val_{name}"], [value] * 2, rtol=1e-6)


def test_hugging_face_folder(encoder_folder, tmp_path):
    config = bert_tf.BertConfig.from_json_file(str(encoder_folder / "bert_config.json"))
    write_hugging_face(
        tmp_path / "hf", bert_tf.BertClassifier(config, 2), labels=["x", "y"],
        task_type="multi_label", do_lower_case=False,
    )  # fmt: skip
    classifier = bert_tf.TextClassifier.from_preset(tmp_path / "hf")
    assert classifier.config.labels == ("x", "y") and not classifier._is_random
    assert classifier.config.task_type == "multi_label" and not classifier.config.do_lower_case
    assert set(classifier.predict(["a"])[0]["probabilities"]) == {"x", "y"}
    path = tmp_path / "hf" / "config.json"
    path.write_text(path.read_text().replace('"0": "x"', '"2": "x"'))
    with pytest.raises(bert_tf.UserError, match="ids 2, 1 in id2label"):
        bert_tf.TextClassifier.from_preset(tmp_path / "hf")


def test_one_output_is_a_score(transformers, encoder_folder, tmp_path):
    """A cross-encoder without task metadata is a regression, as in transformers."""
    import torch

    keras.utils.set_random_seed(0)
    config = bert_tf.BertConfig.from_json_file(str(encoder_folder / "bert_config.json"))
    folder = write_hugging_face(tmp_path / "hf", bert_tf.BertClassifier(config, 1))
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

    # A multiple-choice head has one output too.
    write_hugging_face(tmp_path / "choice", bert_tf.BertMultipleChoice(config))
    with pytest.raises(bert_tf.UserError, match=r"`labels`: found .*, expected at least two"):
        bert_tf.TextClassifier.from_preset(tmp_path / "choice")


@pytest.mark.parametrize(
    "names", [("contradiction", "neutral", "entailment"), ("entailment", "not_entailment")]
)
def test_zero_shot(transformers, encoder_folder, tmp_path, names):
    config = bert_tf.BertConfig.from_json_file(str(encoder_folder / "bert_config.json"))
    model = bert_tf.BertClassifier(config, len(names))
    weights = checkpoints.weights(model)["output_weights"]
    weights.assign(np.random.default_rng(0).normal(size=weights.shape))
    folder = write_hugging_face(tmp_path / "hf", model, labels=names)
    peer = transformers.pipeline("zero-shot-classification", folder)
    classifier = bert_tf.TextClassifier.from_preset(folder)
    for labels, several in ((["a b", "d"], False), ("a b, d", True), (["a"], False)):
        answer = classifier.zero_shot(TEXTS[:2], labels, "c {}.", several)[1]
        other = peer(TEXTS[1], labels, hypothesis_template="c {}.", multi_label=several)
        expected = dict(zip(other["labels"], other["scores"], strict=True))
        assert answer["probabilities"] == pytest.approx(expected, abs=1e-4)
        assert [*answer["probabilities"]] == [*expected]
        assert answer["label"] == other["labels"][0]
    with pytest.raises(bert_tf.UserError, match=r"`zero_shot`.*neg, pos"):
        make(encoder_folder).zero_shot(TEXTS, labels)
    for given in ({"candidate_labels": ["a", "a"]}, {"candidate_labels": []},
                  {"hypothesis_template": "b", "candidate_labels": "a"}):  # fmt: skip
        with pytest.raises(bert_tf.UserError, match=f"^`{next(iter(given))}`: (label 1|found no)"):
            classifier.zero_shot(TEXTS, **given)


def test_fit_stops_if_the_loss_is_not_finite(encoder_folder):
    """The error is the scripts' sentence, and the weights are unusable."""
    classifier = make(encoder_folder)
    classifier.compile(keras.optimizers.SGD(1e30), run_eagerly=True)
    message = r"^loss is (nan|inf) at step [23]; load the model again, .*`learning_rate` may help$"
    with pytest.raises(bert_tf.UserError, match=message):
        classifier.fit(TEXTS, LABELS, batch_size=4, verbose=0)
