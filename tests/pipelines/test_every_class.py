"""What all classes on strings have in common."""

import concurrent.futures
import importlib

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.modeling import cpu_graph
from bert_tf.modeling.layer_states import named_layers
from tests.common import TINY
from tests.training.training_helpers import mirrored, one_device

TEXTS = ["a b", "c d"]
# For each class: options, arguments of `predict` with a blank text, and with its other texts only.
CLASSES = {
    "TextClassifier": ({"labels": ["x", "y"]}, (["a b", " "],), (["a b"],)),
    "TokenClassification": ({"labels": ["PER"]}, (["a b", " "],), (["a b"],)),
    "QuestionAnswering": (
        {"max_seq_length": 16, "max_query_length": 3},
        (["a", "a"], ["b c", " "]), (["a"], ["b c"]),
    ),
    "SentenceEncoder": ({}, (["a b", " "],), (["a b"],)),
    "TokenVectors": ({}, (["a b", " "],), (["a b"],)),
    "FillMask": ({}, (["a [MASK]", " "],), (["a [MASK]"],)),
    "MultipleChoice": ({}, (["a", " "], [["b", "c"]] * 2), (["a"], [["b", "c"]])),
}  # fmt: skip


def each(*quick):
    """Parametrize a test by class; the default suite runs only the names in `quick`."""
    marks = {name: () if name in quick else pytest.mark.slow for name in CLASSES}
    return pytest.mark.parametrize("name", [pytest.param(x, marks=y) for x, y in marks.items()])


def make(folder, name, **options):
    return getattr(bert_tf, name).from_preset(folder, **{**CLASSES[name][0], **options})


@each("TextClassifier", "MultipleChoice")
def test_blank_texts_are_answered_with_a_warning(encoder_folder, caplog, name):
    """Except by `MultipleChoice`, whose script does not allow them either."""
    pipeline, (_, texts, others) = make(encoder_folder, name), CLASSES[name]
    if name == "MultipleChoice":
        with pytest.raises(bert_tf.UserError, match="`contexts`, item 1: context is empty"):
            pipeline.predict(*texts)
        return
    pipeline.predict(*others)
    assert "blank" not in caplog.text
    answers = pipeline.predict(*texts)
    assert len(answers) == 2
    assert any("blank" in x or "empty" in x for x in caplog.messages)


# Sizes of batches, chunks and caches. Small data are otherwise on one side of each.
SIZES = {
    "bert_tf.training.prediction": ("_CHUNK", "BATCH_TOKENS", "_WINDOW_BYTES"),
    "bert_tf.data.features": ("_CHUNK", "_BATCH"),
    "bert_tf.tokenization.wordpiece": ("MAX_CACHED_WORDS",),
    "bert_tf.tasks.token_classification.examples": ("_CHUNK_SIZE",),
}


def test_results_do_not_depend_on_sizes(encoder_folder, monkeypatch):
    tagger = make(encoder_folder, "TokenClassification")
    texts = ["a b c", "d", "e f", "a", "b c d e f", "g h", "c"]
    data = texts, [[(0, 1, "PER")]] * 7

    def results():
        return tagger.evaluate(*data)["loss"], tagger.predict(texts)

    loss, answers = results()
    for module, names in SIZES.items():
        for name in names:
            monkeypatch.setattr(importlib.import_module(module), name, 3)
            found_loss, found = results()
            assert found_loss == pytest.approx(loss, rel=1e-6), name
            assert found == answers, name


QUANTIZED = [*((x, "int8") for x in CLASSES), *(("TextClassifier", x) for x in ("int4", "float8"))]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), QUANTIZED)
def test_quantized_presets(encoder_folder, tmp_path, name, mode):
    pipeline, (*_, texts) = make(encoder_folder, name, dtype="mixed_bfloat16"), CLASSES[name]
    pipeline.predict(*texts)  # traces that the next lines outdate
    pipeline.quantize(mode)
    if mode != "float8":  # Keras does not combine it with LoRA
        pipeline.enable_lora(2)
    for _, layer in named_layers(pipeline.model):
        if getattr(layer, "lora_enabled", False):
            layer.lora_kernel_b.assign(np.full(layer.lora_kernel_b.shape, 0.3))
    for overwrite in (False, True):
        pipeline.save_to_preset(tmp_path / "saved", overwrite=overwrite)
    loaded = type(pipeline).from_preset(tmp_path / "saved")
    np.testing.assert_equal(loaded.predict(*texts), pipeline.predict(*texts))
    variables = (len(x.model.trainable_variables) for x in (loaded, pipeline))
    assert next(variables) == next(variables)
    assert loaded.model.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.slow
def test_quantized_presets_of_another_model(encoder_folder, tmp_path):
    classifier = make(encoder_folder, "TextClassifier", dtype="mixed_bfloat16")
    folder = str(tmp_path / "saved")
    classifier.quantize("int8")
    classifier.save_to_preset(folder)
    assert type(bert_tf.tasks.registry.load(folder)) is bert_tf.TextClassifier
    make(folder, "TextClassifier", dtype=keras.DTypePolicy("mixed_bfloat16"))
    for call, named in (
        (lambda: make(folder, "TextClassifier", labels=["y", "x"]), "`labels`: .*x, y"),
        (lambda: make(folder, "TextClassifier", dtype="float16"), "`dtype=float16`: .*bfloat16"),
        (lambda: make(folder, "QuestionAnswering"), "=BertSpanLabeler`: .*=BertClassifier"),
        (lambda: bert_tf.checkpoints.warm_start(bert_tf.BertModel(TINY), folder), folder),
    ):
        with pytest.raises(bert_tf.UserError, match=named):
            call()


# Arguments of `fit`.
EXAMPLES = [
    ("TextClassifier", (TEXTS, ["x", "y"])),
    ("SentenceEncoder", ([("a", "b"), ("c", "d")],)),
    ("QuestionAnswering", (["a", "c"], TEXTS, [["b", "a", "b"], [("d", 2)]])),
    ("MultipleChoice", (["a", "c"], [["b", "a"], ["a", "d"]], [0, 1])),
    ("TokenClassification", (TEXTS, [[(0, 1, "PER")], []])),
    ("SentenceEncoder", ([("a", "b"), ("c", "d")], [1.0, 0.0])),
]
of_each_class = pytest.mark.parametrize(
    ("name", "data"),
    [EXAMPLES[0], *(pytest.param(*x, marks=pytest.mark.slow) for x in EXAMPLES[1:])],
)


@pytest.mark.slow
def test_threads(encoder_folder, tmp_path):
    """Eight threads fit, predict and export, with the results of one after the other."""
    examples = [*EXAMPLES, ("FillMask", (["a b", "c d"],)), EXAMPLES[0]]

    def work(pipeline, data, texts, folder):
        history = pipeline.fit(*data, epochs=2, batch_size=2, shuffle=False, verbose=0).history
        pipeline.export(folder, warm_up=False)
        return history["loss"], pipeline.predict(*texts)

    results = []
    for count in (8, 1):
        cpu_graph._trace.cache_clear()
        keras.utils.set_random_seed(0)
        arguments = [
            (make(encoder_folder, name), data, CLASSES[name][2], tmp_path / f"{count}_{i}")
            for i, (name, data) in enumerate(examples)
        ]
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            results.append(list(pool.map(work, *zip(*arguments, strict=True))))
    np.testing.assert_equal(*results)


@of_each_class
def test_three_devices_give_the_results_of_one(encoder_folder, name, data):
    """The default batch size does not divide, and there are fewer rows than devices."""
    results = []
    for strategy in (one_device(), mirrored(3)):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            pipeline, other = make(encoder_folder, name), make(encoder_folder, "FillMask")
        scores = [x["score"] for x in other.predict("a [MASK]")]
        results.append([*scores, *pipeline.evaluate(*data).values()])
    np.testing.assert_allclose(*results, atol=1e-6)


@of_each_class
def test_own_metrics_without_and_with_fit(encoder_folder, name, data):
    """`evaluate` before `fit` works, and gives the results of `fit`."""
    pipeline = make(encoder_folder, name)
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="own")]
    if name == "SentenceEncoder":
        metrics = [keras.metrics.MeanMetricWrapper(lambda y, x: x[:, 0, 0], name="own")]
    metrics *= 2 if name == "QuestionAnswering" else 1  # one for each output
    pipeline.compile(metrics=metrics)
    before = pipeline.evaluate(*data)
    assert np.isfinite(list(before.values())).all() and "loss" in before
    form = data if len(data) > 1 else data[0]
    options = {"learning_rate": 0.0, "epochs": 1, "batch_size": 2, "verbose": 0}
    history = pipeline.fit(*data, validation_data=form, **options).history
    for key, value in before.items():
        np.testing.assert_allclose(history[f"val_{key}"], [value], rtol=1e-5)


def test_wrong_arguments_of_methods(encoder_folder, tmp_path):
    classifier = make(encoder_folder, "TextClassifier")
    folder, pattern = tmp_path / "export", tmp_path / "a*"
    for call, named in (
        (lambda: classifier.predict(TEXTS, batch_size=0), "batch_size=0"),
        (lambda: classifier.export(folder, version=-1), "version=-1"),
        (lambda: classifier.export(folder, version=True), "version=True"),
        # TensorFlow would read these as patterns.
        (lambda: classifier.save_to_preset(pattern), "folder"),
        (lambda: classifier.export(pattern), "export_dir"),
        (lambda: classifier.fit(["a"], ["x"], output_dir=pattern, batch_size=1), "output_dir"),
        (lambda: bert_tf.FillMask(encoder_folder), "FillMask.from_preset"),
        (lambda: classifier.fit(TEXTS, ["x", "y"], warmup_ratio=0.1), "warmup_proportion"),
        (lambda: classifier.fit(TEXTS, ["x", "y"], num_epochs=1), "epochs"),
        *(
            (lambda x=x: classifier.fit(TEXTS, ["x", "y"], **x), "compile.*")
            for x in (
                {"optimizer": keras.optimizers.SGD()},
                {"metrics": ["mae"]},
                {"weight_decay": 0.1},
                {"learning_rate": keras.optimizers.schedules.CosineDecay(1e-3, 9)},
            )
        ),
        (lambda: classifier.fit(TEXTS, ["x", "y"], validation_freq=2), "validation_data"),
        (lambda: classifier.evaluate(TEXTS, ["x", "y"], return_dict=False), "return_dict=False"),
    ):
        with pytest.raises(bert_tf.UserError, match=f"`{named}`"):
            call()
    assert not [*tmp_path.iterdir()]
