"""Instances equal the 2018 release's; other objectives and masks of training are valid."""

import collections
import dataclasses
import hashlib
import itertools
import json
import pathlib
import random
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.data import dynamic_masking, input_pipeline, pretraining, records
from bert_tf.data.pretraining import compiled
from bert_tf.data.pretraining.writing import warn_about_limits
from tests import golden_inputs
from tests.common import read_results, write_model, write_vocab
from tests.data.pretraining_helpers import (
    TOKENS,
    feature_rows,
    random_text,
    read_corpus,
    unpacked,
    write_records,
)

VOCAB = {token: index for index, token in enumerate(TOKENS)}


CASES = ["base", "seq512", "wwm", "cased", "short"]


def _config(case):
    names = [field.name for field in dataclasses.fields(pretraining.InstanceConfig)]
    return pretraining.InstanceConfig(**{name: case[name] for name in names if name in case})


def _check_instances(manifest, name, vocab, paths, compiled=None):
    (case,) = (case for case in manifest if case["name"] == name)
    tokenizer, config = tokenization.FullTokenizer(vocab, case["do_lower_case"]), _config(case)
    corpus = read_corpus(paths, tokenizer)
    instances = pretraining.create_instances(corpus, tokenizer.vocab, config, compiled=compiled)
    assert len(instances) == case["instances"]
    digest = hashlib.sha256()
    for values in feature_rows(instances, corpus, tokenizer.vocab, config):
        for feature, (dtype, _) in records.PRETRAINING.items():
            kind = "<i8" if dtype == "int64" else "<f4"
            digest.update(np.asarray(values[feature]).astype(kind).tobytes())
    assert digest.hexdigest() == case["sha256"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("compiled", [None, compiled], ids=["python", "numba"])
def test_instances_of_the_release(case, compiled, golden, manifest):
    paths = [golden_inputs.TEXT]
    _check_instances(manifest["pretraining"], case, str(golden / "vocab.txt"), paths, compiled)


@pytest.mark.parametrize("case", CASES)
def test_instances_of_the_release_from_articles(case, shared, published_vocab):
    folder = shared / "golden/pretraining"
    paths = [folder / name for name in ("input_a.txt", "input_b.txt")]
    manifest = json.loads((folder / "manifest.json").read_text())
    _check_instances(manifest, case, published_vocab, paths)


@pytest.mark.parametrize("seed", range(16))
def test_compiled_draws_are_those_of_python(seed, tmp_path, monkeypatch):
    rng = random.Random(seed)
    gap = "again\n" * rng.choice([0, 29])  # between the ids of the vocabulary
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n{gap}" for token in TOKENS))
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    (tmp_path / "text.txt").write_text(random_text(rng, rng.choice([1, 2, 40])))
    masks = {"masked_lm_prob": rng.choice([0.0, 0.15, 1.0])}
    config = pretraining.InstanceConfig(
        max_seq_length=rng.choice([5, 16, 33, 64, 1500]),
        max_predictions_per_seq=rng.choice([1, 5, 400]),
        short_seq_prob=rng.choice([0.0, 0.1, 1.0]),
        dupe_factor=rng.choice([1, 3]),
        do_whole_word_mask=seed % 4 in (1, 2),
        **({"word_boundaries": "spaces"} if seed % 4 == 2 else {}),
        **({"dynamic_masking": True} if seed % 4 == 3 else masks),
    )
    by_spaces = config.word_boundaries == "spaces"
    corpus = read_corpus([tmp_path / "text.txt"], tokenizer, by_spaces)
    monkeypatch.setattr(compiled, "_BLOCK_SIZE", rng.choice([1, 7, 5000]))
    results = []
    for module in (None, compiled):
        generator, done = random.Random(seed), []
        made = pretraining.create_instances(
            corpus, tokenizer.vocab, config, generator, done.append, module
        )
        assert sum(done) == config.dupe_factor * (len(corpus.documents) - 1)
        paths = [str(tmp_path / "0"), str(tmp_path / "1")]
        pretraining.write(paths, made, corpus, tokenizer.vocab, config)
        written = [pathlib.Path(path).read_bytes() for path in paths]
        arrays = (made.order, made.segments, made.starts, made.masks)
        results.append([*(a.tolist() for a in arrays), generator.getstate(), written])
    assert results[0] == results[1]


def test_records_of_the_release(golden, manifest, tmp_path):
    (case,) = (case for case in manifest["pretraining"] if case["name"] == "short")
    tokenizer = tokenization.FullTokenizer(str(golden / "vocab.txt"))
    corpus = read_corpus([golden_inputs.TEXT], tokenizer)
    instances = pretraining.create_instances(corpus, tokenizer.vocab, _config(case))
    path = str(tmp_path / "x.tfrecord")
    pretraining.write([path], instances, corpus, tokenizer.vocab, _config(case))
    written, expected = (
        list(map(tf.train.Example.FromString, tf.data.TFRecordDataset(path).as_numpy_iterator()))
        for path in (path, str(golden / "short.tfrecord"))
    )
    assert written == expected


# Features of bert_tf: other objectives, n-grams, and words separated by spaces.


def _create(corpus, **options):
    config = pretraining.InstanceConfig(
        **{"max_seq_length": 32, "max_predictions_per_seq": 5, "dupe_factor": 3, **options}
    )
    instances = pretraining.create_instances(corpus, VOCAB, config)
    return unpacked(instances), feature_rows(instances, corpus, VOCAB, config), config


def _document_index(corpus, index):
    starts = corpus.sentences[corpus.documents]
    return int(np.searchsorted(starts, index, "right"))


@pytest.mark.parametrize(("words", "share"), [(100, 71.0), (5, None)])
def test_the_share_of_cut_tokens(tokenizer, tmp_path, caplog, words, share):
    """A line of 100 tokens has 71 outside of 29 places."""
    (tmp_path / "text.txt").write_text(f"{'cat ' * words}\n\n" * 9)
    corpus = read_corpus([tmp_path / "text.txt"], tokenizer)
    config = pretraining.InstanceConfig(max_seq_length=32, dupe_factor=3, short_seq_prob=0)
    instances = pretraining.create_instances(corpus, tokenizer.vocab, config)
    counts = pretraining.Counts.from_instances(instances, corpus, tokenizer.vocab, config)
    warn_about_limits([counts], config)
    found = re.search(r"([0-9.]+)% of the tokens are cut off.*`split_sentences`", caplog.text)
    assert float(found[1]) == share if share else not found


def test_sentence_order(corpus):
    """Two consecutive segments are swapped in half of the instances."""
    instances, rows, _ = _create(corpus, objective="sop", dupe_factor=20)
    for one, row in zip(instances, rows, strict=True):
        first, second = (one.a_start, one.a_end), (one.b_start, one.b_end)
        if one.label:
            first, second = second, first
        assert first[0] < first[1] <= second[0] < second[1]
        assert _document_index(corpus, first[0]) == _document_index(corpus, second[1] - 1)
        assert row["next_sentence_labels"].tolist() == [one.label]
    assert np.mean([one.label for one in instances]) == pytest.approx(0.5, abs=0.03)


def test_full_sentences_use_every_token_once(corpus):
    instances, rows, _ = _create(corpus, objective="none", dupe_factor=1, short_seq_prob=0)
    used = np.zeros(len(corpus.ids), int)
    num_boundaries = 0
    for one, row in zip(instances, rows, strict=True):
        used[one.a_start : one.a_end] += 1
        used[one.b_start : one.b_end] += 1
        a, b = [*corpus.ids[one.a_start : one.a_end]], [*corpus.ids[one.b_start : one.b_end]]
        ids = row["input_ids"].copy()
        count = len(one.positions)
        ids[row["masked_lm_positions"][:count]] = row["masked_lm_ids"][:count]
        whole = [VOCAB["[CLS]"], *a, VOCAB["[SEP]"], *([*b, VOCAB["[SEP]"]] if b else [])]
        assert ids[: len(whole)].tolist() == whole and not ids[len(whole) :].any()
        assert not row["segment_ids"].any() and row["input_mask"].sum() == len(whole)
        if b:
            num_boundaries += 1
            assert _document_index(corpus, one.a_start) != _document_index(corpus, one.b_start)
            # b consists of whole sentences of the next document.
            assert one.b_end in corpus.sentences
    assert used.tolist() == [1] * len(used)
    assert num_boundaries > 2
    assert set(rows[0]) == set(records.pretraining_schema(has_next_sentence=False))
    short, _, _ = _create(corpus, objective="none", dupe_factor=1, short_seq_prob=0.5)
    assert len(short) > len(instances)


def _count_runs(instances):
    """Count the runs of consecutive masked positions by their length."""
    counts = collections.Counter()
    for one in instances:
        runs = itertools.groupby(enumerate(one.positions), lambda x: x[1] - x[0])
        counts.update(len(list(run)) for _, run in runs)
    return counts


def test_ngrams_are_masked(corpus):
    options = {"masked_lm_prob": 0.3, "max_predictions_per_seq": 9, "dupe_factor": 20}
    instances, _, config = _create(corpus, max_ngram=3, **options)
    for one in instances:
        length = one.a_end - one.a_start + one.b_end - one.b_start + 3
        assert len(one.positions) <= config.num_to_mask(length)
        assert not {0, 1 + one.a_end - one.a_start, length - 1} & set(one.positions)
    ngrams, singles = _count_runs(instances), _count_runs(_create(corpus, **options)[0])
    assert ngrams[3] / ngrams[1] > 2 * singles[3] / singles[1]


def test_words_between_spaces(tmp_path):
    """In segmented text without ## tokens, the characters of a word are masked together."""
    pieces = [*TOKENS[:5], *"我喜欢北京天安门"]
    tokenizer = tokenization.FullTokenizer(str(write_vocab(tmp_path, pieces)))
    words = ["我", "喜欢", "北京", "天安门"]
    rng = random.Random(0)
    lines = [" ".join(rng.choices(words, k=9)) for _ in range(20)]
    (tmp_path / "zh.txt").write_text("\n".join([*lines[:10], "", *lines[10:]]))
    corpus = read_corpus([tmp_path / "zh.txt"], tokenizer, by_spaces=True)
    config = pretraining.InstanceConfig(
        max_seq_length=64, max_predictions_per_seq=10, do_whole_word_mask=True,
        word_boundaries="spaces",
    )  # fmt: skip
    instances = unpacked(pretraining.create_instances(corpus, tokenizer.vocab, config))
    num_together = 0
    for one in instances:
        # The corpus index of each position.
        index_at = dict(enumerate(range(one.a_start, one.a_end), 1))
        index_at |= dict(enumerate(range(one.b_start, one.b_end), 2 + one.a_end - one.a_start))
        for position in one.positions:
            following = index_at.get(position + 1)
            if following == index_at[position] + 1 and corpus.is_continuation[following]:
                assert position + 1 in one.positions
                num_together += 1
    assert num_together > 20


# Masks drawn during training.


LENGTHS = {"S": 32, "P": 5}


@pytest.mark.slow
def test_masks_of_batches(corpus, tmp_path):
    config = pretraining.InstanceConfig(
        max_seq_length=32, max_predictions_per_seq=5, dupe_factor=1, dynamic_masking=True
    )
    instances = pretraining.create_instances(corpus, VOCAB, config)
    schema = records.pretraining_schema(has_masks=False)
    columns = pretraining.columns(instances, 0, len(instances), corpus, VOCAB, config)
    assert set(columns) == set(schema)
    path = str(tmp_path / "unmasked.tfrecord")
    pretraining.write([path], instances, corpus, VOCAB, config)
    masking = dynamic_masking.DynamicMasking(VOCAB, LENGTHS, 0.15, seed=3)
    data = input_pipeline.TrainingInput([path], schema, LENGTHS, 8, 3, masking=masking)
    unmasked = input_pipeline.TrainingInput([path], schema, LENGTHS, 8, 3)
    num_steps = 60
    assert len(instances) < 8 * num_steps  # includes a second epoch
    batches = list(data.batches().take(num_steps).as_numpy_iterator())
    originals = list(unmasked.batches().take(num_steps).as_numpy_iterator())
    actions = collections.Counter()
    for batch, original in zip(batches, originals, strict=True):
        assert set(batch) == set(records.PRETRAINING)
        for row in range(8):
            _check_row({name: x[row] for name, x in batch.items()}, original, row, actions)
    total = sum(actions.values())
    assert actions["mask"] / total == pytest.approx(0.8, abs=0.04)
    assert actions["keep"] / total == pytest.approx(0.1, abs=0.03)

    # Masks depend on the step, not on skipped steps.
    later = next(iter(data.batches(first_step=7).as_numpy_iterator()))
    assert all((later[name] == batches[7][name]).all() for name in later)
    # Each evaluation draws the same masks, on any number of replicas.
    evaluation = input_pipeline.EvaluationInput([path], schema, LENGTHS, 8, masking=masking)
    first, again = (list(evaluation.batches().as_numpy_iterator()) for _ in range(2))
    parts = evaluation.batches(tf.distribute.InputContext(1, 0, 3)).batch(3).as_numpy_iterator()
    for a, b, c in zip(first, again, parts, strict=True):
        assert all((x == b[name]).all() for name, x in a.items())
        assert all((x == np.concatenate(c[name])[:8]).all() for name, x in a.items())


def _check_row(values, original, row, actions):
    """Check the masks of an example against the unmasked example, and count the replacements."""
    ids, masked = original["input_ids"][row], values["input_ids"]
    count = int(values["masked_lm_weights"].sum())
    assert count == min(5, max(1, round(0.15 * original["input_mask"][row].sum())))
    positions = values["masked_lm_positions"]
    assert not positions[count:].any() and not values["masked_lm_ids"][count:].any()
    positions = positions[:count]
    assert positions.tolist() == sorted(set(positions.tolist()))
    assert (values["masked_lm_ids"][:count] == ids[positions]).all()
    assert not np.isin(ids[positions], [VOCAB["[CLS]"], VOCAB["[SEP]"]]).any()
    others = np.setdiff1d(np.arange(32), positions)
    assert (ids[others] == masked[others]).all()
    for position in positions:
        if masked[position] == VOCAB["[MASK]"]:
            actions["mask"] += 1
        else:
            actions["keep" if masked[position] == ids[position] else "random"] += 1


@pytest.mark.slow
def test_run_pretraining_without_pairs_and_masks(run_script, tmp_path):
    schema = records.pretraining_schema(has_next_sentence=False, has_masks=False)
    write_records(tmp_path / "data.tfrecord", 16, 12, schema)
    model = write_model(tmp_path, words=TOKENS, num_hidden_layers=1, vocab_size=len(TOKENS))
    run_script(
        "run_pretraining", f"--input_file={tmp_path}/data.tfrecord", f"--output_dir={tmp_path}/out",
        *model, "--do_train", "--do_eval", "--objective=none", "--dynamic_masking",
        "--max_seq_length=12", "--max_predictions_per_seq=2", "--num_train_steps=2",
        "--num_warmup_steps=1", "--train_batch_size=4", "--eval_batch_size=5",
        "--distribution_strategy=one_device",
    )  # fmt: skip
    found = read_results(tmp_path / "out/eval_results.txt")
    assert list(found) == ["global_step", "loss", "masked_lm_accuracy", "masked_lm_loss"]
