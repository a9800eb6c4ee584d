"""run_classifier.py on small sets: short batches, class weights, seeds, numbers, teachers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_metrics import made
from test_run_classifier import SMALL, model, run, table  # noqa: F401
from test_scripts import results
from test_tasks import write
from test_training import assert_same, config, mirrored

import bert_tf
from bert_tf import tasks, training
from bert_tf.data import input_pipeline, records
from bert_tf.tasks import classification

S = 24


def labelled(folder, count=40):
    """Records of texts of 2 to 20 tokens, most of them short."""
    rng = np.random.default_rng(0)
    path = str(folder / "train.tf_record")
    with records.writing([path], records.CLASSIFICATION) as write:
        for i in range(count):
            real = int(rng.integers(2, 9)) if i % 13 else 20
            ids = np.zeros(S, "int64")
            ids[:real] = rng.integers(1, 30, real)
            mask = (ids > 0).astype("int64")
            values = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * mask}
            write({**values, "label_ids": int(rng.integers(2)), "is_real_example": 1})
    return path


def data_of(kind, path, multiple, **more):
    return kind([path], records.CLASSIFICATION, {"S": S}, 4, length_multiple=multiple, **more)


def test_batches_are_as_long_as_their_longest_text(tmp_path):
    path = labelled(tmp_path)
    pairs = zip(
        data_of(input_pipeline.TrainingInput, path, None, seed=3).batches().take(12),
        data_of(input_pipeline.TrainingInput, path, 8, seed=3).batches().take(12),
        strict=True,
    )
    lengths = set()
    for whole, short in pairs:
        length = short["input_ids"].shape[1]
        longest = int(tf.reduce_max(tf.reduce_sum(whole["input_mask"], 1)))
        assert longest <= length < longest + 8 and length % 8 == 0
        lengths.add(length)
        assert not tf.reduce_any(whole["input_mask"][:, length:] > 0)
        for name in ("input_ids", "input_mask", "segment_ids"):
            np.testing.assert_array_equal(short[name], whole[name][:, :length])
        np.testing.assert_array_equal(short["label_ids"], whole["label_ids"])
    assert lengths == {8, 24}
    # The mask of another's making may begin late or have gaps; nothing that is real is cut off.
    batch = {"input_ids": tf.constant([[0, 5, 0, 6, 0, 0]]), "label_ids": tf.constant([1])}
    batch["input_mask"] = batch["segment_ids"] = tf.constant([[0, 1, 0, 1, 0, 0]])
    schema = records.CLASSIFICATION
    assert records.trim(batch, schema, 1)["input_ids"].numpy().tolist() == [[0, 5, 0, 6]]
    batch["input_mask"] *= 0
    assert records.trim(batch, schema, 1)["input_ids"].shape == (1, 1)


def test_how_far_batches_are_padded():
    strategy = training.make_strategy(distribution_strategy="one_device")
    found = [training.length_multiple(strategy, xla, n) for xla in (False, True) for n in (128, 70)]
    assert found == [8, 8, 32, 24]
    tpu = tf.distribute.TPUStrategy.__new__(tf.distribute.TPUStrategy)
    assert training.length_multiple(tpu, False, 128) is None


def test_short_batches_make_the_same_steps(tmp_path):
    """Without dropout, whose masks would be others: the same weights and results.

    On two replicas and in parts, too.
    """
    path = labelled(tmp_path)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    small = {**config().to_dict(), **still, "max_position_embeddings": S}
    small = bert_tf.BertConfig.from_dict(small)
    one = training.make_strategy(distribution_strategy="one_device")
    found = {}
    for name, multiple, strategy, parts in (
        ("whole", None, one, 1),
        ("short", 8, mirrored(2), 2),
    ):
        keras.utils.set_random_seed(5)
        folder = str(tmp_path / name)
        trainer = training.Trainer(lambda: tasks.ClassificationTask(small, 2), strategy, folder)
        # The one dropout that is there whatever the config says.
        (dropout,) = (layer for layer in trainer.model.layers if hasattr(layer, "rate"))
        dropout.rate = 0.0
        rate = bert_tf.optimization.linear_warmup_decay(1e-3, 12, 2)
        trainer.fit(
            data_of(input_pipeline.TrainingInput, path, multiple, seed=0),
            bert_tf.optimization.AdamWeightDecay(rate),
            12,
            training.TrainConfig(gradient_accumulation_steps=parts),
        )
        found[name] = trainer.evaluate(data_of(input_pipeline.EvaluationInput, path, multiple))
    assert_same(tmp_path / "whole", tmp_path / "short", atol=1e-5)
    assert found["short"] == pytest.approx(found["whole"], abs=1e-5)


def weighted(kind, labels, wanted, *of_examples):
    examples = [classification.Example("", "a", None, label) for label in of_examples]
    return tasks.classification.class_weights(wanted, examples, labels, kind)


def test_class_weights():
    found = weighted("classification", ("x", "y"), ["balanced"], "x", "x", "x", "y")
    assert found == pytest.approx((4 / 6, 2.0))
    found = weighted("multi_label", ("x", "y"), ["balanced"], ("x",), ("x", "y"), ("x",), ())
    assert found == pytest.approx((1 / 3, 3.0))
    assert weighted("classification", ("x", "y"), ["2", ".5"], "x") == (2.0, 0.5)
    for kind, wanted, message in (
        ("regression", ["balanced"], "a regression has no classes"),
        ("classification", ["balanced"], "no example of training has the label 'y'"),
        ("classification", ["1"], "2 numbers not below 0 for the labels x, y, .* found 1"),
        ("classification", ["1", "-1"], "found 1,-1"),
        ("classification", ["1", "nan"], "found 1,nan"),
        ("classification", ["1", "much"], "found 1,much"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            weighted(kind, ("x", "y"), wanted, "x")
    with pytest.raises(bert_tf.UserError, match="all examples of training have the label 'x'"):
        weighted("multi_label", ("x", "y"), ["balanced"], ("x",), ("x", "y"))


@pytest.mark.parametrize("kind", ["classification", "multi_label"])
def test_class_weights_are_in_the_loss_of_training_alone(kind):
    task, batch = made(kind, 3)
    batch = {name: tf.constant(value) for name, value in batch.items()}
    outputs = task.model(batch, training=False)
    plain = task.predictions(outputs, batch)["loss"].numpy()
    weights = np.array([0.5, 1.0, 4.0])
    task.class_weights = weights
    np.testing.assert_array_equal(task.predictions(outputs, batch)["loss"], plain)
    found = task.losses(outputs, batch, task.loss_weights(batch))[task.loss_names[0]]
    labels, logits = batch[task.label_name].numpy(), outputs["logits"].numpy()
    if kind == "classification":
        expected = np.mean(weights[labels] * plain)
    else:
        there, not_there = np.log1p(np.exp(-logits)), np.log1p(np.exp(logits))
        expected = np.mean(labels * weights * there + (1 - labels) * not_there)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", tasks.TASK_CLASSES)
def test_a_teachers_answers_are_in_the_loss(kind):
    """By the formulas; the softened answers of a student that equals its teacher have no slope."""
    task, batch = made(kind, 1 if kind == "regression" else 3)
    task.distillation = tasks.DistillationConfig(weight=0.25, temperature=2.0)
    task.loss_names = (*task.loss_names, "teacher_loss")
    batch = {name: tf.constant(value) for name, value in batch.items()}
    outputs = task.model(batch, training=False)
    logits = outputs["logits"].numpy()
    rng = np.random.default_rng(1)
    theirs = rng.normal(size=logits.shape).astype("float32")

    def soft(z):
        z = z / 2.0
        if kind == "multi_label":
            return 1 / (1 + np.exp(-z))
        return np.exp(z) / np.exp(z).sum(-1, keepdims=True)

    batch["teacher_logits"] = tf.constant(theirs)
    expected = {
        "classification": lambda: -4 * np.sum(soft(theirs) * np.log(soft(logits)), -1),
        "multi_label": lambda: -4 * np.mean(
            soft(theirs) * np.log(soft(logits)) + (1 - soft(theirs)) * np.log(1 - soft(logits)), -1
        ),
        "regression": lambda: (theirs[:, 0] - logits[:, 0]) ** 2,
    }[kind]()  # fmt: skip
    found = task.losses(outputs, batch, task.loss_weights(batch))
    plain = task.predictions(outputs, batch)["loss"]
    assert list(found) == list(task.loss_names)
    np.testing.assert_allclose(found["teacher_loss"], 0.25 * np.mean(expected), rtol=1e-4)
    np.testing.assert_allclose(found[task.loss_names[0]], 0.75 * np.mean(plain), rtol=1e-4)
    # All from the teacher: what the labels say is not even reported.
    task = tasks.TASK_CLASSES[kind](
        config(), logits.shape[1], distillation=tasks.DistillationConfig()
    )
    found = task.losses(outputs, batch, task.loss_weights(batch))
    assert list(found) == list(task.loss_names) == ["teacher_loss"]


def test_a_student_learns_what_its_teacher_says(run, tmp_path):  # noqa: F811
    """The teacher was taught the contrary of the labels that the student is given."""
    rows = [("a b", "x"), ("b a", "x"), ("c d", "y"), ("d c", "y")] * 4
    turned = {"x": "y", "y": "x"}
    text = "text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in rows)
    contrary = "text\tlabel\n" + "".join(f"{a}\t{turned[b]}\n" for a, b in rows)
    write(tmp_path, train__tsv=text, dev__tsv=contrary, contrary__tsv=contrary)
    learn = ["--num_train_epochs=60", "--learning_rate=3e-3", *model(tmp_path), *SMALL]
    teacher, out = tmp_path / "teacher", tmp_path / "out"
    run(
        "run_classifier", f"--train_file={tmp_path}/contrary.tsv", "--labels=y,x", "--do_train",
        f"--output_dir={teacher}", *learn, "--max_seq_length=7",
    )  # fmt: skip
    flags = [f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train", "--do_eval",
             f"--teacher_dir={teacher}", f"--output_dir={out}", *learn]  # fmt: skip
    said = run("run_classifier", *flags)
    assert "asking the teacher" in said and "teacher_loss" in said
    assert float(results(out / "eval_results.txt")["eval_accuracy"]) == 1.0
    assert not (out / "teacher.tf_record").exists()
    # Its answers are kept with the features, until it is another one.
    said = run("run_classifier", *flags)
    assert "asking the teacher" not in said
    said = run("run_classifier", *flags, "--output_dir=" + str(tmp_path / "labels"),
               "--teacher_weight=0", "--teacher_temperature=2")  # fmt: skip
    assert float(results(tmp_path / "labels/eval_results.txt")["eval_accuracy"]) == 0.0
    (teacher / "vocab.txt").write_text((teacher / "vocab.txt").read_text() + "more\n")
    said = run("run_classifier", *flags)
    assert "teacher changed since" in said and "asking the teacher" in said
    for more, message in (
        (["--labels=x,y,z"], "the labels of the model in .*: x, y, here: x, y, z"),
        ([f"--teacher_dir={tmp_path}"], "it has no classifier.json"),
        (["--teacher_dir=", "--teacher_weight=0.5"], "--teacher_weight wants --teacher_dir"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            run("run_classifier", *flags, *more)


def test_seeds(run, tmp_path):  # noqa: F811
    text = "text\tlabel\n" + "a b\tx\nb a\tx\nc d\ty\nd c\ty\n" * 4
    write(tmp_path, train__tsv=text, dev__tsv=text, test__tsv="text\na b\n")
    flags = [
        f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train", "--do_eval", "--do_predict",
        "--num_train_epochs=3", "--learning_rate=1e-3", *model(tmp_path), *SMALL,
    ]  # fmt: skip
    out = tmp_path / "out"
    said = run("run_classifier", *flags, "--num_seeds=2", "--seed=4", f"--output_dir={out}")
    assert "run 2 of 2: seed 5" in said
    rows = table(out / "eval_seeds.tsv")
    assert rows[0] == ["seed", "eval_accuracy", "eval_loss", "global_step", "loss"]
    assert [row[0] for row in rows[1:]] == ["4", "5", "mean", "std", "min", "max"]
    losses = np.float64([row[2] for row in rows[1:3]])
    assert losses[0] != losses[1]
    expected = [losses.mean(), losses.std(ddof=1), losses.min(), losses.max()]
    np.testing.assert_allclose(np.float64([row[2] for row in rows[3:]]), expected)
    for seed, loss in zip((4, 5), losses, strict=True):
        assert float(results(out / f"seed_{seed}/eval_results.txt")["eval_loss"]) == loss
        assert (out / f"seed_{seed}/test_predictions.tsv").exists()
        assert (out / f"seed_{seed}/classifier.json").exists()
    # One of them by itself is the same run, to the bit.
    run("run_classifier", *flags, "--seed=5", f"--output_dir={tmp_path}/alone")
    assert_same(out / "seed_5", tmp_path / "alone", atol=0)
    # The same command again trains nothing.
    said = run("run_classifier", *flags, "--num_seeds=2", "--seed=4", f"--output_dir={out}")
    assert said.count("training: nothing to do") == 2
    assert table(out / "eval_seeds.tsv") == rows
    # Where one model is wanted, the error says where they are.
    with pytest.raises(bert_tf.UserError, match="none but those of its folders seed_4, seed_5"):
        run("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/export")
    with pytest.raises(bert_tf.UserError, match="--glue_submission wants one run's answers"):
        run(
            "run_classifier", "--task_name=cola", "--do_predict", "--glue_submission=x",
            "--num_seeds=2", *model(tmp_path), *SMALL,
        )  # fmt: skip


def test_flags_reach_the_training(run, tmp_path):  # noqa: F811
    """What all examples of training weigh nothing for is not learnt; padding is asked for."""
    text = "text\tlabel\n" + "a\tx\nb\ty\n" * 4
    write(tmp_path, train__tsv=text, dev__tsv=text)
    flags = [f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train", "--do_eval",
             "--num_train_epochs=20", "--learning_rate=3e-3", *model(tmp_path), *SMALL]  # fmt: skip
    out = tmp_path / "out"
    said = run("run_classifier", *flags, "--class_weights=0,1", f"--output_dir={out}")
    assert "class weights: x 0, y 1" in said
    report = results(out / "eval_results.txt")
    assert float(report["eval_accuracy"]) == 0.5
    seen = []

    def spy(data, *arguments, **more):
        seen.append(more.get("length_multiple", arguments[-1]))
        return real(data, *arguments, **more)

    real = input_pipeline.TrainingInput.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(input_pipeline.TrainingInput, "__init__", spy)
        for more in ([], ["--pad_to_max_length"]):
            run("run_classifier", *flags, *more, f"--output_dir={out}")
    assert seen == [8, None]
    with pytest.raises(bert_tf.UserError, match="a --teacher_weight below 1 is needed"):
        run("run_classifier", *flags, "--class_weights=1,2", f"--teacher_dir={out}")


def test_batches_of_other_lengths_are_not_traced_anew(tmp_path):
    path = labelled(tmp_path, 120)
    small = bert_tf.BertConfig.from_dict({**config().to_dict(), "max_position_embeddings": S})
    for name, strategy in (("one", "one_device"), ("two", None)):
        strategy = (
            training.make_strategy(distribution_strategy=strategy) if strategy else mirrored(2)
        )
        trainer = training.Trainer(
            lambda: tasks.ClassificationTask(small, 2), strategy, str(tmp_path / name)
        )
        data = data_of(input_pipeline.EvaluationInput, path, 1)
        lengths = [batch["input_ids"].shape[1] for batch in data.batches()]
        assert len(set(lengths)) > 4
        trainer.evaluate(data)
        assert trainer._predict_step.experimental_get_tracing_count() <= 4


def test_flags_without_effect_are_named(run, tmp_path):  # noqa: F811
    write(tmp_path, train__tsv="text\tlabel\na\tx\nb\ty\n", dev__tsv="text\tlabel\na\tx\n")
    data = [f"--data_dir={tmp_path}", "--task_name=tsv", f"--output_dir={tmp_path}/out"]
    run("run_classifier", *data, "--do_train", *model(tmp_path), *SMALL, "--train_batch_size=2")
    said = run("run_classifier", *data, "--do_eval", "--class_weights=balanced")
    assert "--class_weights has no effect without --do_train" in said
