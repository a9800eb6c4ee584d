"""Instances are the release's, draw for draw, and are sound on texts of our own."""

import hashlib
import json
import random
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.data import pretraining, records
from bert_tf.data.pretraining import masking, writing
from bert_tf.errors import UserError

WORDS = ["the", "cat", "dog", "sat", "ran", "on", "under", "a", "mat", "tree"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ing", "."]

# Settings, number of instances and digest of the release's own output, see `_digest`.
RELEASE = {
    "base": (
        pretraining.InstanceConfig(dupe_factor=2),
        True,
        620,
        "a80404d8e81352460df0efa06aec01b8d30400c72f51ccbd6df536159d508fa5",
    ),
    "seq512": (
        pretraining.InstanceConfig(max_seq_length=512, max_predictions_per_seq=77, dupe_factor=1),
        True,
        104,
        "e8a9a6906473ecd0f1b2a9d46b268ab9c7a4d84963d0806a88ebf2bae1840dc9",
    ),
    "wwm": (
        pretraining.InstanceConfig(dupe_factor=1, do_whole_word_mask=True, random_seed=7),
        True,
        374,
        "d5d8ea87cdfe2fb1d674c9777f18330348691204ca51fc4097a062f25a4a64b6",
    ),
    "cased": (
        pretraining.InstanceConfig(dupe_factor=1, random_seed=99),
        False,
        311,
        "46dcd86187ca146c64fe3f41118f2ab9539ae5d0a58b0d2d030761d422dd601b",
    ),
    "short": (
        pretraining.InstanceConfig(
            max_seq_length=64,
            max_predictions_per_seq=10,
            dupe_factor=1,
            short_seq_prob=0.5,
            random_seed=3,
        ),
        True,
        547,
        "fad09bd4f0e10219c5a83a7eb2025b6beb5ffc9ba5daf2de4c51ab7566e7641c",
    ),
}


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES))
    return tokenization.FullTokenizer(str(path))


def _text(rng, documents):
    """Documents of 1 to 12 sentences of 1 to 30 words."""
    paragraphs = []
    for _ in range(documents):
        lines = []
        for _ in range(rng.randint(1, 12)):
            words = (
                rng.choice(WORDS) + rng.choice(["", "", "s", "sing"])
                for _ in range(rng.randint(1, 30))
            )
            lines.append(" ".join(words) + ".\n")
        paragraphs.append("".join(lines))
    return "\n".join(paragraphs)


@pytest.fixture
def corpus(tokenizer, tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(_text(random.Random(1), 20))
    return _corpus([path], tokenizer)


def _corpus(paths, tokenizer, **options):
    source = pretraining.FileSource(list(map(str, paths)), **options)
    return pretraining.read_corpus(source, tokenizer)


def _rows(made, corpus, vocab, settings):
    """The features of each instance, a dict of arrays."""
    columns = pretraining.columns(made, 0, len(made), corpus, vocab, settings)
    return [{name: rows[i] for name, rows in columns.items()} for i in range(len(made))]


def _digest(examples):
    digest = hashlib.sha256()
    for values in examples:
        for name, (dtype, _) in records.PRETRAINING.items():
            kind = "<i8" if dtype == "int64" else "<f4"
            digest.update(np.asarray(values[name]).astype(kind).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("case", RELEASE)
def test_instances_of_the_release(case, shared):
    settings, lower, count, sha256 = RELEASE[case]
    tokenizer = tokenization.FullTokenizer(str(shared / "data/uncased_vocab.txt"), lower)
    paths = [shared / "golden/pretraining" / name for name in ("input_a.txt", "input_b.txt")]
    corpus = _corpus(paths, tokenizer)
    made = pretraining.create_instances(corpus, tokenizer.vocab, settings)
    assert len(made) == count
    assert sha256 == _digest(_rows(made, corpus, tokenizer.vocab, settings))


def test_release_figures_are_those_of_the_manifest(shared):
    manifest = json.loads((shared / "golden/pretraining/manifest.json").read_text())
    listed = {}
    for case in manifest:
        settings = pretraining.InstanceConfig(
            **{key: case[key] for key in pretraining.InstanceConfig._fields if key in case}
        )
        figures = (settings, case["do_lower_case"], case["instances"], case["sha256"])
        listed[case["name"]] = figures
    assert listed == RELEASE


def test_records_of_the_release(shared, tmp_path):
    """The file that we write holds what the release's file holds."""
    settings = RELEASE["short"][0]
    tokenizer = tokenization.FullTokenizer(str(shared / "data/uncased_vocab.txt"))
    folder = shared / "golden/pretraining"
    corpus = _corpus([folder / name for name in ("input_a.txt", "input_b.txt")], tokenizer)
    made = pretraining.create_instances(corpus, tokenizer.vocab, settings)
    ours = str(tmp_path / "ours.tfrecord")
    pretraining.write([ours], made, corpus, tokenizer.vocab, settings)
    found = [
        [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(path)]
        for path in (ours, str(folder / "short.tfrecord"))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("seq_length", [5, 16, 64])
def test_every_instance_is_sound(seq_length, whole_words, corpus, tokenizer):
    settings = pretraining.InstanceConfig(
        max_seq_length=seq_length,
        max_predictions_per_seq=4,
        dupe_factor=3,
        short_seq_prob=0.3,
        do_whole_word_mask=whole_words,
    )
    vocab = tokenizer.vocab
    goes_on = [index for piece, index in vocab.items() if piece.startswith("##")]
    made = pretraining.create_instances(corpus, vocab, settings)
    # At length 5 every sentence fills an instance, and a single one is followed by a random one.
    assert {one.label for one in made} == ({True} if seq_length == 5 else {False, True})
    for one, values in zip(made, _rows(made, corpus, vocab, settings), strict=True):
        for name, (_, length) in records.PRETRAINING.items():
            assert len(values[name]) == {"S": seq_length, "P": 4}.get(length, length)
        a_ids = corpus.ids[one.a_start : one.a_end]
        b_ids = corpus.ids[one.b_start : one.b_end]
        assert len(a_ids) >= 1 and len(b_ids) >= 1
        length = len(a_ids) + len(b_ids) + 3
        assert length <= seq_length
        assert one.label or one.a_end <= one.b_start
        whole = [vocab["[CLS]"], *a_ids, vocab["[SEP]"], *b_ids, vocab["[SEP]"]]
        padding = [0] * (seq_length - length)
        assert values["input_mask"].tolist() == [1] * length + padding
        segments = [0] * (len(a_ids) + 2) + [1] * (len(b_ids) + 1)
        assert values["segment_ids"].tolist() == segments + padding

        count = len(one.positions)
        assert count <= min(4, max(1, round(0.15 * length)))
        assert whole_words or count == min(4, max(1, round(0.15 * length)))
        assert values["masked_lm_weights"].tolist() == [1] * count + [0] * (4 - count)
        positions = values["masked_lm_positions"][:count].tolist()
        assert positions == sorted(set(positions))
        assert not set(positions) & {0, len(a_ids) + 1, length - 1}
        restored = values["input_ids"].copy()
        restored[positions] = values["masked_lm_ids"][:count]
        assert restored.tolist() == whole + padding
        if whole_words:
            for position in positions:
                if whole[position] in goes_on and position - 1 not in (0, len(a_ids) + 1):
                    assert position - 1 in positions


def test_rates(corpus, tokenizer):
    """80% of the masked tokens become [MASK], 10% stay, 10% are drawn; half of b is random."""
    settings = pretraining.InstanceConfig(max_seq_length=64, dupe_factor=100)
    made = pretraining.create_instances(corpus, tokenizer.vocab, settings)
    replacements = np.concatenate([one.replacements for one in made])
    mask = tokenizer.vocab["[MASK]"]
    drawn = replacements[(replacements != pretraining.KEEP) & (replacements != mask)]
    assert set(drawn) == set(range(len(PIECES))) - {mask}
    share = 1 / len(PIECES)  # of the drawn ones that are [MASK] by chance
    assert np.mean(replacements == mask) == pytest.approx(0.8 + 0.1 * share, abs=0.01)
    assert np.mean(replacements == pretraining.KEEP) == pytest.approx(0.1, abs=0.01)
    # And those with no sentence left for a second segment.
    assert 0.5 < np.mean([one.label for one in made]) < 0.7


def test_same_seed_same_instances(corpus, tokenizer):
    settings = pretraining.InstanceConfig(max_seq_length=32, dupe_factor=2)
    first, again, other = (
        pretraining.create_instances(corpus, tokenizer.vocab, settings._replace(random_seed=seed))
        for seed in (1, 1, 2)
    )
    assert list(first) == list(again)
    assert list(first) != list(other)


def test_shuffle_is_that_of_random():
    for count in (0, 1, 2, 3, 7, 64, 125, 1000):
        ours, theirs = list(range(count)), list(range(count))
        generators = random.Random(5), random.Random(5)
        masking.shuffle(ours, generators[0])
        generators[1].shuffle(theirs)
        assert ours == theirs
        assert generators[0].getstate() == generators[1].getstate()
        for wanted in (0, 1, 5, count // 2):
            ours, generator = list(range(count)), random.Random(5)
            masking.shuffle(ours, generator, wanted)
            assert ours[:wanted] == theirs[:wanted]
            assert generator.getstate() == generators[1].getstate()


def _read(tokenizer, tmp_path, *texts):
    paths = []
    for number, text in enumerate(texts):
        path = tmp_path / f"part{number}.txt"
        path.write_bytes(text)
        paths.append(str(path))
    return _corpus(paths, tokenizer)


def test_read_corpus(tokenizer, tmp_path, caplog):
    """Blank lines and ends of files separate; lines without tokens do neither harm nor good."""
    with caplog.at_level("INFO", "bert_tf"):
        corpus = _read(
            tokenizer,
            tmp_path,
            b"\n\nThe cat.\n\x01\nDOGS\n \t \n\xe3\x80\x80\na mat",
            b"the \xfftree\r\n\r\n",
            b"",
            b"ran\nxyz",
        )
    pieces = tokenizer.convert_ids_to_tokens(corpus.ids.tolist())
    assert " ".join(pieces) == "the cat . dog ##s a mat the tree ran [UNK]"
    assert corpus.sentences.tolist() == [0, 3, 5, 7, 9, 10, 11]
    assert corpus.documents.tolist() == [0, 2, 3, 4, 6]
    assert corpus.ids.dtype == np.int32
    assert "part1.txt: 1 lines are not UTF-8, the first is line 1" in caplog.text
    assert caplog.text.count("end without a blank line") == 1
    assert "1 files end without" in caplog.text


def test_read_corpus_errors(tokenizer, tmp_path):
    with pytest.raises(UserError, match=r"part0\.txt: no text in it"):
        _read(tokenizer, tmp_path, b"\n \n\x01\n")
    with pytest.raises(UserError, match=r"missing\.txt: cannot be read"):
        _corpus([tmp_path / "missing.txt"], tokenizer)
    with pytest.raises(UserError, match="a folder, a text file was expected"):
        _corpus([tmp_path], tokenizer)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_seq_length", 4),
        ("max_predictions_per_seq", 0),
        ("dupe_factor", 0),
        ("masked_lm_prob", 1.5),
        ("short_seq_prob", -0.1),
        ("short_seq_prob", float("nan")),
        ("max_ngram", 0),
        ("objective", "nps"),
    ],
)
def test_settings_errors(name, value):
    with pytest.raises(UserError, match=f"^--{name} must be .*, not {value}$"):
        pretraining.InstanceConfig(**{name: value}).validate()


def test_one_document_is_warned_of(tokenizer, tmp_path, caplog):
    corpus = _read(tokenizer, tmp_path, b"the cat sat.\non a mat.\n")
    settings = pretraining.InstanceConfig()
    made = pretraining.create_instances(corpus, tokenizer.vocab, settings)
    with caplog.at_level("WARNING", "bert_tf"):
        counts = pretraining.Counts.from_instances(made, corpus, tokenizer.vocab, settings)
        writing.warn_about_limits([counts], settings)
    assert len(made) >= 10
    assert "the corpus is one document" in caplog.text
    assert "max_predictions_per_seq" not in caplog.text


def test_lowered_masking_rate_is_warned_of(corpus, tokenizer, caplog):
    settings = pretraining.InstanceConfig(max_seq_length=64, max_predictions_per_seq=5)
    made = pretraining.create_instances(corpus, tokenizer.vocab, settings)
    with caplog.at_level("WARNING", "bert_tf"):
        counts = pretraining.Counts.from_instances(made, corpus, tokenizer.vocab, settings)
        writing.warn_about_limits([counts], settings)
    assert "--max_predictions_per_seq=5 masks less than --masked_lm_prob=0.15 in" in caplog.text
    assert "at full length 10 would be needed" in caplog.text


def _script(root, folder, **changed):
    values = {"input_file": "corpus.txt", "output_file": "out.tfrecord", "vocab_file": "vocab.txt"}
    flags = [f"--{name}={value}" for name, value in {**values, **changed}.items()]
    return subprocess.run(
        [sys.executable, root / "create_pretraining_data.py", *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(PIECES))
    (folder / "corpus.txt").write_text(_text(random.Random(2), 10))
    (folder / "empty.txt").write_text("\n\n")
    return folder


def test_script(root, folder):
    done = _script(root, folder, output_file="out/a.tfrecord,out/b.tfrecord", max_seq_length=32)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^documents +10$", done.stderr, re.MULTILINE)
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["a.tfrecord", "b.tfrecord"]
    for path in (folder / "out").iterdir():
        records.check_lengths(str(path), records.PRETRAINING, {"S": 32, "P": 20})


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"input_file": "empty.txt"}, "empty.txt: no text in it, one sentence a line was expected"),
        ({"output_file": "vocab.txt/x"}, "--output_file: vocab.txt/x cannot be written"),
    ],
)
def test_script_errors(changed, sentence, root, folder):
    before = sorted(folder.iterdir())
    done = _script(root, folder, **changed)
    assert done.returncode == 1
    assert f"create_pretraining_data.py: error: {sentence}" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == before
