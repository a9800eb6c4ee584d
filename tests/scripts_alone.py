"""Scripts run in a test's process: each has its own flags, of the same names as those of others."""

import contextlib
import importlib
import sys

from absl import flags
from absl.testing import flagsaver

import bert_tf
from bert_tf.cli import flags as cli_flags


@contextlib.contextmanager
def imported(*names):
    """Imports scripts anew; yields a function that runs one by its name, with these flags.

    Its attribute `parse` only reads the flags, and returns what is no flag; `flags_of` has the
    flags of each script.
    """
    modules = {name: sys.modules.pop(name, None) for name in names}
    scripts, flags_of = {}, {}
    try:
        for name in names:
            with _changed():
                known = set(flags.FLAGS)
                scripts[name] = importlib.import_module(name)
                added = set(flags.FLAGS) - known
                flags_of[name] = [flags.FLAGS[flag] for flag in added]

        def run(script, *given):
            with _changed(flags_of[script]), flagsaver.flagsaver():
                # Most mistakes are told before the folder matters, which every run must have.
                usual = ["--output_dir=none"] if "output_dir" in flags.FLAGS else []
                flags.FLAGS([script, *usual, *map(str, given)])
                with cli_flags.naming_flags():
                    scripts[script].main()

        def parse(script, *given):
            with _changed(flags_of[script]), flagsaver.flagsaver():
                return flags.FLAGS([script, *given])[1:]

        run.parse, run.flags_of = parse, flags_of
        yield run
    finally:
        for name, module in modules.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def write_model(folder, config, words, **changed):
    """Writes config.json, of a config with these changes, and vocab.txt; returns their flags.

    Without dropout, through which so small a model learns little.
    """
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = bert_tf.BertConfig.from_dict({**config.to_dict(), **still, **changed})
    (folder / "config.json").write_text(config.to_json_string())
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return [f"--vocab_file={folder}/vocab.txt", f"--bert_config_file={folder}/config.json"]


@contextlib.contextmanager
def _changed(wanted=()):
    """With these flags and without those of scripts; afterwards all is as it was."""
    by_module = flags.FLAGS.flags_by_module_dict()
    away = [(module, flag) for module, found in by_module.items() for flag in found
            if "." not in module and module != "absl"]  # fmt: skip
    _remove(flag.name for _, flag in away)
    before = set(flags.FLAGS)
    for flag in wanted:
        flags.FLAGS[flag.name] = flag
    try:
        yield
    finally:
        _remove(set(flags.FLAGS) - before)
        for module, flag in away:
            flags.FLAGS[flag.name] = flag
            flags.FLAGS.register_flag_by_module(module, flag)


def _remove(names):
    for name in set(names):
        delattr(flags.FLAGS, name)
