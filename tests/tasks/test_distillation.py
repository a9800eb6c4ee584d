"""A student learns from the logits of its teacher."""

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import tasks
from tests.common import QUICK_RUN, read_results, write_files, write_model
from tests.tasks.task_helpers import SMALL, make_task_and_batch, small_config


@pytest.mark.parametrize("task_type", tasks.TASK_CLASSES)
def test_loss(task_type):
    """The loss follows the formulas in Hinton et al."""
    task, batch = make_task_and_batch(task_type, 1 if task_type == "regression" else 3)
    task.distillation = tasks.DistillationConfig(weight=0.25, temperature=2.0)
    task.loss_names = (*task.loss_names, "teacher_loss")
    outputs = task.model(batch, training=False)
    logits = outputs["logits"].numpy()
    teacher = np.random.default_rng(1).normal(size=logits.shape).astype("float32")

    def soft(z):
        z = z / 2.0
        if task_type == "multi_label":
            return 1 / (1 + np.exp(-z))
        return np.exp(z) / np.exp(z).sum(-1, keepdims=True)

    batch["teacher_logits"] = tf.constant(teacher)
    if task_type == "classification":
        expected = -4 * np.sum(soft(teacher) * np.log(soft(logits)), -1)
    elif task_type == "multi_label":
        of_ones = soft(teacher) * np.log(soft(logits))
        of_zeros = (1 - soft(teacher)) * np.log(1 - soft(logits))
        expected = -4 * np.mean(of_ones + of_zeros, -1)
    else:
        expected = (teacher[:, 0] - logits[:, 0]) ** 2
    losses = task.losses(outputs, batch, task.loss_weights(batch))
    label_losses = task.predictions(outputs, batch)["loss"]
    assert list(losses) == list(task.loss_names)
    np.testing.assert_allclose(losses["teacher_loss"], 0.25 * np.mean(expected), rtol=1e-4)
    np.testing.assert_allclose(losses[task.loss_names[0]], 0.75 * np.mean(label_losses), rtol=1e-4)
    # If the teacher's share is 1, the loss of the labels is not reported.
    task = tasks.TASK_CLASSES[task_type](
        small_config(), logits.shape[1], distillation=tasks.DistillationConfig()
    )
    losses = task.losses(outputs, batch, task.loss_weights(batch))
    assert list(losses) == list(task.loss_names) == ["teacher_loss"]


@pytest.fixture
def teacher(run_script, tmp_path):
    """Train a teacher on inverted labels; return the student's flags."""
    rows = [("a b", "x"), ("b a", "x"), ("c d", "y"), ("d c", "y")] * 4
    opposite = {"x": "y", "y": "x"}
    text = "text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in rows)
    swapped = "text\tlabel\n" + "".join(f"{a}\t{opposite[b]}\n" for a, b in rows)
    write_files(tmp_path, train__tsv=text, dev__tsv=swapped, swapped__tsv=swapped)
    flags = ["--do_train", "--num_train_epochs=40", "--learning_rate=5e-3",
             *write_model(tmp_path, **SMALL), *QUICK_RUN]  # fmt: skip
    # Its label order and sequence length differ from the student's.
    run_script(
        "run_classifier", *flags, f"--train_file={tmp_path}/swapped.tsv", "--labels=y,x",
        f"--output_dir={tmp_path}/teacher", "--max_seq_length=7",
    )  # fmt: skip
    return [*flags, f"--data_dir={tmp_path}", "--task_name=tsv", "--do_eval",
            f"--teacher_dir={tmp_path}/teacher", f"--output_dir={tmp_path}/out"]  # fmt: skip


@pytest.mark.slow
def test_records_have_the_logits_of_the_teacher(run_script, teacher, tmp_path, request):
    experiments = request.getfixturevalue("experiments")  # the teacher is trained
    log = run_script("run_classifier", *teacher)
    assert "teacher to compute its logits" in log
    (batch,) = experiments[0]._batches("train", 16).batches()
    # In the order of the student's labels, which the teacher has inverted.
    answers = np.argmax(batch["teacher_logits"], -1)
    np.testing.assert_array_equal(answers, 1 - batch["label_ids"])
    assert not list((tmp_path / "out").glob("teacher.tf_record*"))
    for flags, message in (
        (["--labels=x,y,z"], "--teacher_dir.* labels .*x, y, .*x, y, z"),
        ([f"--teacher_dir={tmp_path}"], r"--teacher_dir.*classifier\.json"),
        (["--teacher_dir=", "--teacher_weight=0.5"], "--teacher_weight.*--teacher_dir"),
        ([f"--teacher_dir={tmp_path}/out/"], "--teacher_dir"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            run_script("run_classifier", *teacher, *flags)

    # The logits are reused until the teacher changes.
    assert "reusing" in run_script("run_classifier", *teacher)
    with open(tmp_path / "teacher/vocab.txt", "a") as file:
        file.write("more\n")
    student = experiments[-1]
    changed = student.data.make_teacher(tasks.TASKS["classification"], student.config)
    features = student.data.features(
        "train", student.paths["train"], student.model.tokenizer, changed
    )
    assert features.stale_reason.startswith("teacher changed")


@pytest.mark.slow
def test_logits_of_another_dtype_are_not_reused(run_script, teacher):
    quick = ["--num_train_epochs=1"]
    run_script("run_classifier", *teacher, *quick)
    log = run_script("run_classifier", *teacher, *quick, "--dtype=bfloat16")
    assert "train.tf_record: teacher changed" in log
    assert "reusing" in run_script("run_classifier", *teacher, *quick, "--dtype=bfloat16")


@pytest.mark.slow
def test_a_student_learns_the_answers_of_its_teacher(run_script, tmp_path, teacher):
    log = run_script("run_classifier", *teacher)
    assert "teacher_loss" in log
    assert float(read_results(tmp_path / "out/eval_results.txt")["eval_accuracy"]) == 1.0
    assert "compute its logits" not in run_script("run_classifier", *teacher)
    flags = [f"--output_dir={tmp_path}/labels", "--teacher_weight=0", "--teacher_temperature=2"]
    run_script("run_classifier", *teacher, *flags)
    assert float(read_results(tmp_path / "labels/eval_results.txt")["eval_accuracy"]) == 0.0
    with open(tmp_path / "teacher/vocab.txt", "a") as file:
        file.write("more\n")
    log = run_script("run_classifier", *teacher)
    assert "teacher changed" in log and "compute its logits" in log
