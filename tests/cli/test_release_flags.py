"""The scripts keep the flags and defaults of the 2018 release."""

import json

import pytest

from bert_tf.cli import flags
from tests import scripts_alone

SCRIPTS = [
    "run_classifier", "run_squad", "run_pretraining", "create_pretraining_data", "extract_features",
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_flags_of_the_release_have_their_names_and_defaults(root, golden, script, monkeypatch):
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported(script) as run:
        here = {flag.name: flag.default for flag in run.flags_of[script]}
    for name, default in json.loads((golden / "flags.json").read_text())[script].items():
        found = ",".join(map(str, here[name])) if isinstance(here[name], list) else here[name]
        assert found == default, name
        assert name in flags.RELEASE_FLAGS.split()
