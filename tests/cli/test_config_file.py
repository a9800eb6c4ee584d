"""--config reads flag values from a file."""

import json

import pytest
from absl import flags
from absl.testing import flagsaver

from bert_tf.cli import config_file
from bert_tf.cli.flags import _parse, from_flags
from bert_tf.configs.pretraining import PretrainingConfig
from bert_tf.configs.train import FineTuneConfig
from bert_tf.errors import UserError
from bert_tf.tasks import TASKS
from tests import scripts_alone


@pytest.fixture(scope="module")
def run_classifier(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root))
        with scripts_alone.imported("run_classifier") as run:
            yield run.flags_of["run_classifier"]


@pytest.fixture
def parse(run_classifier):
    """A function that parses flags of run_classifier.py and returns the given ones as a dict."""

    def parse(*arguments):
        known = [flag.name for flag in run_classifier]
        assert config_file.parse(["run_classifier", *arguments], known) == ["run_classifier"]
        given = [name for name in known if flags.FLAGS[name].present and name != "config"]
        return {name: flags.FLAGS[name].value for name in given}

    with scripts_alone._isolated(run_classifier), flagsaver.flagsaver():
        yield parse


YAML = """
# A run.
output_dir: out
task_name: mrpc
do_train: true
learning_rate: 2e-5   # for YAML, a string
num_train_epochs: 2
text_columns: [0, b]
label_column: sentiment
dtype: bfloat16
seed: null
"""
VALUES = {
    "output_dir": "out", "task_name": "mrpc", "do_train": True, "learning_rate": 2e-5,
    "num_train_epochs": 2.0, "text_columns": ["0", "b"], "label_column": ["sentiment"],
    "dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize("name", ["c.yaml", "c.json", "run.json"])
def test_values_of_a_file(parse, tmp_path, name):
    path = tmp_path / name
    values = {"config": VALUES, "metrics": {}} if name == "run.json" else VALUES
    path.write_text(YAML if name == "c.yaml" else json.dumps(values))
    if name == "c.yaml":
        pytest.importorskip("yaml")
    assert parse(f"--config={path}") == VALUES


def test_flags_on_the_command_line_win(parse, tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(VALUES))
    given = parse("--nodo_train", "--config", str(path), "--text_columns=c", "--learning_rate=1")
    changed = {"do_train": False, "text_columns": ["c"], "learning_rate": 1.0}
    assert given == {**VALUES, **changed}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense: 1", "unknown flag nonsense"),
        ("learning_rat: 1", "unknown flag learning_rat; did you mean learning_rate?"),
        ("verbosity: 1", "unknown flag verbosity"),
        ("config: a.yaml", "unknown flag config"),
        ("learning_rate: x", 'learning_rate is "x", expected a finite number of at least 0'),
        ("seed: 1.5", "seed is 1.5, expected an integer between 0 and 4294967295"),
        ("seed: -1", "seed is -1, expected an integer"),
        ("do_train: 1", "do_train is 1, expected true or false"),
        ("dtype: bf16", 'dtype is "bf16", expected one of float32, bfloat16, float16'),
        ("task_name: [a]", r'task_name is \["a"\], expected a string'),
        ("text_columns: [{}]", r"text_columns\[0\] is {}, expected a string"),
        ("- a", "the file is .*, expected an object"),
        ("[1", r"invalid YAML \("),
    ],
)
def test_error_names_file_and_key(parse, tmp_path, text, message):
    pytest.importorskip("yaml")
    path = tmp_path / "c.yml"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"^{path}(: |, line \d: ){message}"):
        parse(f"--config={path}")


def test_files_that_cannot_be_read(parse, tmp_path, capsys):
    (tmp_path / "c.json").write_text('{"seed": 1')
    for flag, message in [
        ("--config=none.json", r"^none\.json: cannot be read"),
        (f"--config={tmp_path}/c.json", "c.json, line 1: invalid JSON"),
        ("--config=", "^--config requires the path of a file"),
    ]:
        with pytest.raises(UserError, match=message):
            parse(flag)
    with pytest.raises(SystemExit):  # the same form as other flag errors
        _parse(["./run_classifier.py", "--config=none.json"])
    assert capsys.readouterr().err.startswith("run_classifier.py: error: none.json: cannot be")


SCRIPTS = {spec.script.removesuffix(".py"): spec for spec in TASKS.values() if spec.script}


@pytest.mark.parametrize("script", [*SCRIPTS, "run_pretraining"])
def test_configurations_are_such_files(root, monkeypatch, tmp_path, script):
    """Every option of a training configuration has a flag of the same type."""
    config = PretrainingConfig(input_file="a", output_dir="out", do_train=True)
    if script in SCRIPTS:
        task_config = SCRIPTS[script].config_class().resolve()
        config = FineTuneConfig("out", task_config, do_train=True)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"config": config.to_flags()}))
    monkeypatch.syspath_prepend(str(root))
    with (
        scripts_alone.imported(script) as run,
        scripts_alone._isolated(run.flags_of[script]),
        flagsaver.flagsaver(),
    ):
        config_file.parse([script, f"--config={path}"], [x.name for x in run.flags_of[script]])
        start = (
            type(config)() if script not in SCRIPTS else FineTuneConfig(task=type(task_config)())
        )
        assert from_flags(start).to_flags() == config.to_flags()
