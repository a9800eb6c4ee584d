"""Objectives and masks beside the release's, and masks that are made in training."""

import collections
import functools
import itertools
import random

import numpy as np
import pytest
import tensorflow as tf
from test_modeling import TINY
from test_pretraining_data import PIECES, _corpus, _rows, _text

import bert_tf
from bert_tf import tokenization
from bert_tf.data import dynamic_masking, input_pipeline, pretraining, records, tfrecord

VOCAB = {piece: index for index, piece in enumerate(PIECES)}
LENGTHS = {"S": 32, "P": 5}


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES))
    return tokenization.FullTokenizer(str(path))


@pytest.fixture
def corpus(tokenizer, tmp_path):
    (tmp_path / "corpus.txt").write_text(_text(random.Random(1), 20))
    return _corpus([tmp_path / "corpus.txt"], tokenizer)


def make(corpus, **options):
    settings = pretraining.InstanceConfig(
        **{"max_seq_length": 32, "max_predictions_per_seq": 5, "dupe_factor": 3, **options}
    ).validate()
    made = pretraining.create_instances(corpus, VOCAB, settings)
    return made, _rows(made, corpus, VOCAB, settings), settings


def document_of(corpus, place):
    starts = corpus.sentences[corpus.documents]
    return int(np.searchsorted(starts, place, "right"))


def test_orders_of_sentences(corpus):
    """Two segments in a row, and as often the second before the first."""
    made, rows, _ = make(corpus, objective="sop", dupe_factor=20)
    for one, row in zip(made, rows, strict=True):
        first, second = (one.a_start, one.a_end), (one.b_start, one.b_end)
        if one.label:
            first, second = second, first
        assert first[0] < first[1] <= second[0] < second[1]
        assert document_of(corpus, first[0]) == document_of(corpus, second[1] - 1)
        assert row["next_sentence_labels"].tolist() == [one.label]
    assert np.mean([one.label for one in made]) == pytest.approx(0.5, abs=0.03)


def test_full_sentences_use_every_token_once(corpus):
    made, rows, _ = make(corpus, objective="none", dupe_factor=1, short_seq_prob=0)
    used = np.zeros(len(corpus.ids), int)
    crossings = 0
    for one, row in zip(made, rows, strict=True):
        used[one.a_start : one.a_end] += 1
        used[one.b_start : one.b_end] += 1
        a, b = ([*corpus.ids[i:j]] for i, j in
                ((one.a_start, one.a_end), (one.b_start, one.b_end)))  # fmt: skip
        ids = row["input_ids"].copy()
        count = len(one.positions)
        ids[row["masked_lm_positions"][:count]] = row["masked_lm_ids"][:count]
        whole = [VOCAB["[CLS]"], *a, VOCAB["[SEP]"], *([*b, VOCAB["[SEP]"]] if b else [])]
        assert ids[: len(whole)].tolist() == whole and not ids[len(whole) :].any()
        assert not row["segment_ids"].any() and row["input_mask"].sum() == len(whole)
        if b:
            crossings += 1
            assert document_of(corpus, one.a_start) != document_of(corpus, one.b_start)
            # Whole sentences of the next document.
            assert one.b_end in corpus.sentences
    assert used.tolist() == [1] * len(used)
    assert crossings > 2
    assert set(rows[0]) == set(records.pretraining_schema(has_next_sentence=False))
    short, _, _ = make(corpus, objective="none", dupe_factor=1, short_seq_prob=0.5)
    assert len(short) > len(made)


def test_runs_of_words_are_masked(corpus):
    made, _, settings = make(corpus, max_ngram=3, masked_lm_prob=0.3, max_predictions_per_seq=9,
                             dupe_factor=20)  # fmt: skip
    sizes = collections.Counter()
    for one in made:
        length = one.a_end - one.a_start + one.b_end - one.b_start + 3
        assert len(one.positions) <= settings.num_to_mask(length)
        runs = itertools.groupby(enumerate(one.positions), lambda x: x[1] - x[0])
        sizes.update(len(list(run)) for _, run in runs)
        assert not {0, 1 + one.a_end - one.a_start, length - 1} & set(one.positions)
    single, _, _ = make(corpus, masked_lm_prob=0.3, max_predictions_per_seq=9, dupe_factor=20)
    alone = collections.Counter()
    for one in single:
        runs = itertools.groupby(enumerate(one.positions), lambda x: x[1] - x[0])
        alone.update(len(list(run)) for _, run in runs)
    assert sizes[3] / sizes[1] > 2 * alone[3] / alone[1]


def test_words_between_spaces(tokenizer, tmp_path):
    """A segmented text without ## pieces: characters of a word are masked together or not."""
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES[:5], *"我喜欢北京天安门"]))
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    words = ["我", "喜欢", "北京", "天安门"]
    rng = random.Random(0)
    lines = [" ".join(rng.choices(words, k=9)) for _ in range(20)]
    (tmp_path / "zh.txt").write_text("\n".join([*lines[:10], "", *lines[10:]]))
    source = pretraining.FileSource([str(tmp_path / "zh.txt")])
    corpus = pretraining.read_corpus(source, tokenizer, by_spaces=True)
    settings = pretraining.InstanceConfig(
        max_seq_length=64, max_predictions_per_seq=10, do_whole_word_mask=True,
        word_boundaries="spaces",
    ).validate()  # fmt: skip
    made = pretraining.create_instances(corpus, tokenizer.vocab, settings)
    together = 0
    for one in made:
        places = [*range(one.a_start, one.a_end), *range(one.b_start, one.b_end)]
        b_first = 2 + one.a_end - one.a_start
        at = {(i + 1 if i < b_first - 2 else i + 2): place for i, place in enumerate(places)}
        for position in one.positions:
            after = position + 1
            if after in at and at[after] == at[position] + 1 and corpus.is_continuation[at[after]]:
                assert after in one.positions
                together += 1
    assert together > 20


def test_unmasked_records_are_masked_in_training(corpus, tmp_path):
    made, rows, settings = make(corpus, dynamic_masking=True)
    schema = records.pretraining_schema(has_masks=False)
    assert set(rows[0]) == set(schema)
    path = str(tmp_path / "unmasked.tfrecord")
    pretraining.write([path], made, corpus, VOCAB, settings)
    mask = dynamic_masking.DynamicMasking(VOCAB, LENGTHS, 0.15, seed=3)
    data = input_pipeline.TrainingInput([path], schema, LENGTHS, 8, 3, masking=mask)
    plain = input_pipeline.TrainingInput([path], schema, LENGTHS, 8, 3)
    kinds = collections.Counter()
    steps = 120
    found = list(data.batches().take(steps).as_numpy_iterator())
    for batch, before in zip(found, plain.batches().take(steps).as_numpy_iterator(), strict=True):
        assert set(batch) == set(records.PRETRAINING)
        for row in range(8):
            ids, shown = before["input_ids"][row], batch["input_ids"][row]
            length = before["input_mask"][row].sum()
            count = int(batch["masked_lm_weights"][row].sum())
            assert count == min(5, max(1, round(0.15 * length)))
            positions = batch["masked_lm_positions"][row]
            assert positions[:count].tolist() == sorted(set(positions[:count].tolist()))
            assert not positions[count:].any() and not batch["masked_lm_ids"][row][count:].any()
            assert (batch["masked_lm_ids"][row][:count] == ids[positions[:count]]).all()
            assert not np.isin(ids[positions[:count]], [VOCAB["[CLS]"], VOCAB["[SEP]"]]).any()
            others = np.setdiff1d(np.arange(32), positions[:count])
            assert (ids[others] == shown[others]).all()
            for place in positions[:count]:
                is_mask = shown[place] == VOCAB["[MASK]"]
                kinds["mask" if is_mask else "kept" if shown[place] == ids[place] else "other"] += 1
    total = sum(kinds.values())
    assert kinds["mask"] / total == pytest.approx(0.8, abs=0.04)
    assert kinds["kept"] / total == pytest.approx(0.1, abs=0.03)
    # A function of the step: what is skipped does not matter, nor on how many devices it runs.
    later = next(iter(data.batches(first_step=7).as_numpy_iterator()))
    context = tf.distribute.InputContext(1, 0, num_replicas_in_sync=2)
    halves = list(data.batches(7, context).take(2).as_numpy_iterator())
    for name in later:
        assert (later[name] == found[7][name]).all()
        assert (np.concatenate([half[name] for half in halves]) == later[name]).all()
    # The next epoch masks other words; an evaluation the same ones each time.
    per_epoch = len(made) // 8 + 1
    assert per_epoch < steps
    evaluation = input_pipeline.EvaluationInput([path], schema, LENGTHS, 8, masking=mask)
    once, again = (list(evaluation.batches().as_numpy_iterator()) for _ in range(2))
    assert all((a[name] == b[name]).all() for a, b in zip(once, again, strict=True) for name in a)


@pytest.fixture
def run(heard):
    """Runs run_pretraining.py with these flags in this process; returns what it said."""
    return functools.partial(heard("run_pretraining"), "run_pretraining")


def test_run_pretraining_without_pairs_and_masks(run, tmp_path):
    """No next sentences, masks of its own: it trains, in two phases, and says what is wrong."""
    rng = np.random.default_rng(0)
    names = records.pretraining_schema(has_next_sentence=False, has_masks=False)
    for length in (8, 12):
        columns = {name: np.ones((16, length), np.int64) for name in names}
        columns["input_ids"] = rng.integers(5, 15, (16, length))
        path = tmp_path / f"data{length}.tfrecord"
        path.write_bytes(tfrecord.frame_records(tfrecord.examples(columns)))
    (tmp_path / "config.json").write_text(TINY.to_json_string())
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    flags = [f"--input_file={path}", f"--bert_config_file={tmp_path}/config.json", "--do_train",
             f"--output_dir={tmp_path}/out", "--max_seq_length=12", "--max_predictions_per_seq=2",
             f"--init_checkpoint={tmp_path}/short",
             "--num_train_steps=2", "--num_warmup_steps=1", "--train_batch_size=4", "--do_eval",
             "--eval_batch_size=5", "--objective=none"]  # fmt: skip
    masks = ["--dynamic_masking", f"--vocab_file={tmp_path}/vocab.txt"]
    run(*flags, *masks, "--max_seq_length=8", f"--output_dir={tmp_path}/short",
        f"--input_file={tmp_path}/data8.tfrecord", "--init_checkpoint=")  # fmt: skip
    # The second phase goes on from the first with longer texts.
    assert "short/model.ckpt-2" in run(*flags, *masks)
    lines = (tmp_path / "out/eval_results.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == [
        "global_step", "loss", "masked_lm_accuracy", "masked_lm_loss"
    ]  # fmt: skip
    for more, message in (
        (["--dynamic_masking"], "--dynamic_masking wants --vocab_file"),
        (["--masked_lm_prob=0.2"], "--masked_lm_prob is for --dynamic_masking"),
        ([], "its records lack masked_lm_positions"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            run(*flags, *more)


def test_masked_records_are_not_masked_again(tmp_path):
    path = tmp_path / "masked.tfrecord"
    columns = {
        name: np.ones((1, {"S": 32, "P": 5}.get(length, length)), dtype)
        for name, (dtype, length) in records.PRETRAINING.items()
    }
    path.write_bytes(tfrecord.frame_records(tfrecord.examples(columns)))
    schema = records.pretraining_schema(has_masks=False)
    records.check([str(path)], schema, LENGTHS)
    with pytest.raises(ValueError, match=r"wants records without masks.*these have masked_lm_ids"):
        records.check([str(path)], schema, LENGTHS, is_unmasked=True)
