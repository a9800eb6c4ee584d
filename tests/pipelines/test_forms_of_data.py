"""Every container of the same data gives the same batches; errors name the argument."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data import containers
from tests.pipelines.classifier_helpers import LABELS, TEXTS, captured_fit, make

datasets, pd, pa, _ = map(pytest.importorskip, ("datasets", "pandas", "pyarrow", "torch"))
Frame, slices = pd.DataFrame, tf.data.Dataset.from_tensor_slices
hf = datasets.Dataset.from_dict


def class_labels(data, column, names, feature=lambda x: x):
    """Return a `datasets.Dataset` whose labels are indices of names."""
    dataset = hf(data)
    return dataset.cast_column(column, feature(datasets.ClassLabel(names=names)))


class Batches(keras.utils.PyDataset):
    """Two batches of texts and labels, in the structure that `make` gives them."""

    def __init__(self, make):
        super().__init__()
        self._make = make

    def __len__(self):
        return 2

    def __getitem__(self, index):
        part = slice(6 * index, 6 * index + 6)
        return self._make(TEXTS[part], IDS[part])


COLUMN = [[x] for x in TEXTS]
IDS, WEIGHTS = np.array([1, 0] * 6), np.arange(12.0)
TABLE = {"text": TEXTS, "label": LABELS}
NAMED = class_labels({**TABLE, "label": IDS}, "label", ["Neg", "pos"])
SEVERAL = Frame({"id": [7, 8, 9], "text": ["a", "b", "c"], "hot": [1, 0, 1], "salty": [0, 0, 1]})
A, B, PAIR_LABELS = ["a", "b", "e"], ["c", "d", "f"], ["pos", "neg", "pos"]
PAIRS = [*zip(A, B, strict=True)]
PAIR_TABLE = {"text_a": A, "text_b": B, "label": PAIR_LABELS}
SCORES = [0.5, 1, 0]
CONTEXTS = ["a b c d e f g h i j a b c d e f g h"] * 3
QA = {"question": ["d", "g", "j"], "context": CONTEXTS, "answer": ["e f", "h", "i j"]}
SQUAD = [{"text": [x], "answer_start": [CONTEXTS[0].index(x)]} for x in QA["answer"]]
WORDS, TAGS = [["a", "ab", "c"], ["d"]], [["B-X", "I-X", "O"], ["B-X"]]
SENTENCES = list(map(" ".join, WORDS))
TAG_NAMES, TAG_IDS = ["O", "B-X", "I-X"], [[1, 2, 0], [1]]
SPANS = [[(0, 4, "X")], [(0, 1, "X")]]
ENTITIES = [[dict(zip(("start", "end", "label"), x, strict=True)) for x in row] for row in SPANS]
CHOICES = {"context": ["a", "b"], "ending0": ["c", "d"], "ending1": ["e", "f g"], "label": [1, 0]}
ENDINGS = [["c", "e"], ["d", "f g"]]

# By name: the class, options, and forms of the same first arguments of `fit`.
FORMS = {
    "texts": ("TextClassifier", {"labels": ["neg", "pos"]}, [
        (TEXTS, LABELS), (np.array(TEXTS), IDS[:, None]), (tf.constant(TEXTS), tf.constant(IDS)),
        (TEXTS, np.eye(2)[IDS]), (pd.Series(TEXTS), pd.Series(LABELS)),
        (Frame({"text": TEXTS}), Frame({"label": LABELS})), (TEXTS, Frame(np.eye(2)[IDS])),
        (TEXTS, Frame(np.eye(2)[1 - IDS], columns=["pos", "neg"])),
        (Frame([[x, 1, 2, y] for x, y in zip(TEXTS, LABELS, strict=True)],
               columns=["text", "x", "x", "label"]),),
        (TABLE,), (Frame(TABLE).astype("string"),), (hf(TABLE).with_transform(dict),),
        *((hf(TABLE).with_format(x),) for x in (None, "numpy", "torch", "pandas")), (NAMED,),
        (slices(TABLE),), (slices(TABLE).batch(5),), (slices((TEXTS, LABELS)).batch(5),),
        (slices((TEXTS, np.eye(2)[IDS])).batch(6),), (slices((TEXTS, np.eye(2)[IDS])),),
        (slices(({"text": TEXTS}, LABELS)),), (slices(({"text": TEXTS}, LABELS)).batch(5),),
        *((Batches(x),) for x in (
            lambda x, y: (x, y), lambda x, y: (np.array(x), y), lambda x, y: ({"text": x}, y),
            lambda x, y: {"text": x, "label": y})),
        (pa.table(TABLE),), (pa.array(TEXTS), pa.chunked_array([LABELS])),
        (hf(TABLE).to_iterable_dataset(),), (list(slices(TABLE).as_numpy_iterator()),),
        (Frame({"id": LABELS, "text": TEXTS}), LABELS), (list(map(tf.constant, TEXTS)), IDS),
        (pd.Series(Frame(TABLE).to_dict("records")),),
        *((x, IDS) for x in (tf.ragged.constant(COLUMN), np.array(COLUMN), tf.constant(COLUMN))),
        ({x: np.array(y)[:, None] for x, y in TABLE.items()},),
        (pd.Categorical(TEXTS), pd.Categorical(LABELS)), (Frame(TABLE).astype("category"),),
        ([bert_tf.InputExample(0, x, None, y) for x, y in zip(TEXTS, LABELS, strict=True)],),
        # The advice of messages
        tuple(zip(*zip(TEXTS, LABELS, strict=True), strict=True)), (NAMED["text"], NAMED["label"]),
        (TEXTS, pd.Series(IDS == 1).map({True: "pos", False: "neg"})),
    ]),
    "weights": ("TextClassifier", {"labels": ["neg", "pos"]}, [
        (TEXTS, LABELS, WEIGHTS), (TEXTS, LABELS, pd.Series(WEIGHTS)),
        (slices((TEXTS, IDS[:, None], WEIGHTS[:, None])).batch(5),),
        (slices(({"text": TEXTS}, IDS, WEIGHTS)).batch(5),),
        ({"text": TEXTS, "label": LABELS}, None, WEIGHTS),
    ]),
    "pairs": ("TextClassifier", {"labels": ["neg", "pos"]}, [
        (PAIRS, PAIR_LABELS), ((A, B), PAIR_LABELS), (list(map(list, PAIRS)), PAIR_LABELS),
        ((np.array(A), tf.constant(B)), PAIR_LABELS), (np.array(PAIRS), [1, 0, 1]),
        (Frame(PAIRS), PAIR_LABELS), (PAIR_TABLE,),
        (Frame(PAIR_TABLE)[["text_b", "text_a", "label"]],),
        ((pa.array(A), pa.array(B)), PAIR_LABELS), ({"Question": A, "Answer": B}, PAIR_LABELS),
        (slices((tuple(map(tf.constant, (A, B))), PAIR_LABELS)).batch(2),),
        ([bert_tf.InputExample(0, *x, y) for x, y in zip(PAIRS, PAIR_LABELS, strict=True)],),
    ]),
    "mixed": ("TextClassifier", {"labels": ["neg", "pos"]}, [
        ([("a", "b"), "c"], [0, 1]), ([("a", "b"), ("c", pd.NA)], [0, 1]),
        ((pd.Series(["a", "c"]), pd.Series(["b", None])), [0, 1]),
        (tf.ragged.constant([["a", "b"], ["c"]]), [0, 1]), ([("a", b"b\xff"), "c"], [0, 1]),
        (Frame({"text_a": ["a", "c"], "text_b": ["b", None]}), [0, 1]),
        ([{"text_a": "a", "text_b": b"b"}, {"text_a": "c"}], [0, 1]),
        ([bert_tf.InputExample(0, "a", "b", "neg"), bert_tf.InputExample(0, "c", "", "pos")],),
    ]),
    "several": ("TextClassifier", {"labels": ["hot", "salty"], "task_type": "multi_label"}, [
        (SEVERAL["text"], [["hot"], [], ["salty", "hot"]]),
        (SEVERAL["text"], SEVERAL[["salty", "hot"]]), (SEVERAL["text"], SEVERAL.values[:, 2:]),
        (SEVERAL,), (SEVERAL.astype({"hot": bool}),), (SEVERAL.to_dict("list"),),
        (hf(SEVERAL.to_dict("list")),),
    ]),
    "answers": ("QuestionAnswering", {"max_seq_length": 16, "max_query_length": 3}, [
        (*QA.values(),), (QA["question"], CONTEXTS, SQUAD), (QA,), (Frame(QA),), (hf(QA),),
        (QA["question"], CONTEXTS, [("e f", 8), ("h", 14), ("i j", 16)]), (slices(QA),),
        (QA["question"], CONTEXTS, [["e f"], [("h", 14), "g"], ["i j", "i", "j"]]),
        (hf({**QA, "answers": SQUAD}).remove_columns("answer"),),
        (slices(({x: QA[x] for x in ("question", "context")}, QA["answer"])).batch(2),),
    ]),
    "tags": ("TokenClassification", {"labels": TAG_NAMES}, [
        (WORDS, TAGS), (WORDS, TAG_IDS), (WORDS, [["B-X", "E-X", "O"], ["S-X"]]),
        (WORDS, [["X", "X", "O"], ["X"]]), ([[], *WORDS], [[], ["B_X", "I_X", "O"], ["B_X"]]),
        (SENTENCES, SPANS), (SENTENCES, ENTITIES),
        ({"tokens": WORDS, "ner_tags": TAGS},), (Frame({"words": WORDS, "tags": TAGS}),),
        (hf({"text": SENTENCES, "entities": ENTITIES}),),
        (class_labels({"tokens": WORDS, "ner_tags": TAG_IDS}, "ner_tags", TAG_NAMES,
                      datasets.Sequence),),
        (slices({"tokens": tf.ragged.constant(WORDS), "tags": tf.ragged.constant(TAG_IDS)})
         .batch(2),),
    ]),
    "choices": ("MultipleChoice", {}, [
        (["a", "b"], ENDINGS, [1, 0]), (["a", "b"], np.array(ENDINGS), np.array([1, 0])),
        (CHOICES,), (Frame(CHOICES),), (hf(CHOICES),), (slices(CHOICES).batch(2),),
        ({"context": ["a", "b"], "endings": ENDINGS, "label": [1, 0]},),
    ]),
    "scored": ("SentenceEncoder", {}, [
        (PAIRS, SCORES),
        *((Frame({"text1": A, "text2": B, x: SCORES}),) for x in ("label", "similarity")),
    ]),
    "similar": ("SentenceEncoder", {}, [
        (PAIRS,), ((A, B),), ({"anchor": A, "positive": B},), (hf({"anchor": A, "positive": B}),),
    ]),
    "masked": ("FillMask", {}, [(TEXTS,), (np.array(TEXTS),), (TABLE,), (slices(TABLE),)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_batches(name, encoder_folder, caplog):
    class_name, options, forms = FORMS[name]
    pipeline = getattr(bert_tf, class_name).from_preset(str(encoder_folder), **options)
    expected = captured_fit(pipeline, *forms[0], shuffle=False)
    assert expected
    for i, form in enumerate(forms):
        assert captured_fit(pipeline, *form, shuffle=False) == expected, i
    assert "empty" not in caplog.text
    if name in ("texts", "pairs"):
        answers = pipeline.predict(forms[0][0])
        for texts, *_ in forms:
            assert pipeline.predict(texts) == answers
        assert pipeline.predict([]) == pipeline.predict(Frame({"text": []})) == []
        unknown_size = slices({"text": ["a"]}).filter(lambda x: True)
        row, named = {"x": tf.constant("a")}, Frame({"Summary": ["a"], "id": [7]})
        for one in (unknown_size, {"Summary": ["a"]}, named, {"x": "a"}, row):
            assert pipeline.predict(one) == pipeline.predict(["a"])
        assert pipeline.predict("a b") == pipeline.predict(["a b"])[0]


def test_columns_are_reported(encoder_folder, caplog):
    caplog.set_level("INFO", "bert_tf")
    frame = Frame({"ticket": A, "reply": B})  # no usual name, so these are texts
    captured_fit(make(encoder_folder), frame, PAIR_LABELS)
    assert "columns of `texts`: ticket, reply; all are read as texts" in caplog.text
    captured_fit(make(encoder_folder), Frame({"id": [7], "Text": ["a"], "label": ["pos"]}))
    assert "columns id (id), Text (text), label (label)" in caplog.text


@pytest.mark.parametrize(
    ("texts", "options"),
    [(["a b c d", "a b c", "a"], {}), *(pytest.param(*x, marks=pytest.mark.slow) for x in (
        ([("a", "b c"), ("a", ""), ("b", "c")], {}),
        (["a b c d", "a b c", "a"], {"long_documents": "windows", "max_windows": 1})))],
)  # fmt: skip
def test_truncated_texts_are_counted(encoder_folder, caplog, texts, options):
    classifier, labels = make(encoder_folder, max_seq_length=5, **options), [0, 1, 0]
    captured_fit(classifier, texts, labels, validation_data=(texts, labels))
    classifier.evaluate(texts, labels)
    classifier.predict(texts)
    messages = [x for x in caplog.messages if "truncated" in x]
    for name, message in zip(["texts", "validation_data", "texts", "texts"], messages, strict=True):
        assert f"`{name}`: 1 of 3 texts (33.3%)" in message and "the longest has 6" in message


OK = (["a"], ["pos"])
BATCHES = slices((["a", "b"], ["pos", "neg"])).batch(2)
CHECKED = {
    "TextClassifier": {"labels": ["neg", "pos"]},
    "QuestionAnswering": {"max_seq_length": 16, "max_query_length": 3},
    "TokenClassification": {"labels": ["PER", "LOC"]},
    "MultipleChoice": {},
    "FillMask": {},
    "SentenceEncoder": {},
}


@pytest.fixture(scope="module")
def pipelines(encoder_folder):
    return {x: getattr(bert_tf, x).from_preset(encoder_folder, **y) for x, y in CHECKED.items()}


@pytest.mark.parametrize(
    ("name", "arguments", "options", "match"),
    [
        ("TextClassifier", *case) for case in (
            (([], []), {}, "`texts`"),
            ((class_labels({"text": ["a"], "label": [0]}, "label", ["yes", "no"]),), {},
             "`labels`: .*yes, no, expected neg, pos"),
            ((Frame(TABLE).to_records(),), {}, "`texts`: found a structured array, expected texts"),
            (([("a", "pos"), ("b", "neg")],), {}, "`labels` .*texts, labels = zip"),
            (OK, {"validation_data": [["a"], ["pos"]]}, "`validation_data`.*tuple of 2"),
            (("a", ["pos"]), {}, "`texts`.*single str"),
            ((["a", 3], ["pos", "neg"]), {}, "`texts`: item 1 is 3"),
            (((("a", "b"), ("c", "d")), [0, 1]), {}, "`texts`.*ambiguous"),
            *((([x], ["pos"]), {}, r"`texts`, item 0: text is missing; .*df\.dropna")
              for x in (None, np.nan, pd.NA)),
            ((pa.table([["a"], ["b"]], names=["text"] * 2),), {}, "`texts`.*'text' twice"),
            (({"x": ["a"], "label": [0]},), {}, r"`texts`.*'x'.*; rename .*df\.rename"),
            (({"text": ["a"], "label": [0, 1]},), {}, "`texts`.*text 1, label 2"),
            (([{"text": "a", "label": 0}, "b"],), {}, "`texts`, item 1"),
            ((datasets.DatasetDict(test=hf(TABLE)),), {}, r"`texts`: .*data\['test'\]"),
            *((x, {}, "`labels` cannot be combined") for x in (  # other columns, or another order
                ({"text": ["a"], "label": ["pos"]}, ["pos"]),
                (Frame({"reviews": ["a"], "comment": ["b"]}), [0]),
                (Frame({"text_b": ["a"], "text_a": ["b"]}), [0]), (Frame([["a", "b", "c"]]), [0]))),
            ((type("LazyFrame", (), {"collect": None})(),), {}, r"`texts`: .*LazyFrame.*\.collect"),
            (({"text": [b"\xff"], "label": [0]},), {}, "`texts`, item 0: not UTF-8"),
            ((Frame(TABLE).to_dict(),), {}, "`texts`.*dict"),
            ((slices((["a"], [0])).batch(1).skip(1),), {}, "`texts`.*empty"),
            ((Frame({"review": "a", "body": "b", "label": 0}, [0]),), {}, "'review'.*'body'"),
            *(((["a"], Frame([[0, 1]], columns=x)), {}, "`labels`.*neg, pos")
              for x in (["Pos", "neg"], ["label_neg", "label_pos"])),
            ((["a", "b"], ["pos"]), {}, "`texts` and `labels`.*2 and 1"),
            ((BATCHES, ["pos"]), {}, "`labels`.*dataset of tuples"),
            ((BATCHES.repeat(),), {}, "`texts`.*endless"),
            ((*OK, None, OK), {}, "found 4 arguments, expected texts, labels, sample_weight"),
            (OK, {"validation_data": (["a"], ["x"])}, "`validation_data`, item 0.*'x'"),
            (OK, {"validation_data": OK, "validation_split": 0.5}, "`validation_split`.*`val"),
            (OK, {"validation_split": 0.5}, "`validation_split=0.5`"),
            (OK, {"sample_weight": [1.0, 2.0]}, "`sample_weight`"),
            (OK, {"bucket_by_length": True, "shuffle": False}, "`shuffle`"),
        )
    ] + [
        ("QuestionAnswering", arguments, {}, match) for arguments, match in (
            ((["a"], ["b"], [3]), "`question`, item 0.*3"),
            ((["a"], ["b"], [None]), "`question`, item 0.*`version_2_with_negative`"),
            ((["a"], ["b"], ["c"]), "`question`, item 0: \"c\" is not in"),
        )
    ] + [
        ("TokenClassification", arguments, {}, match) for arguments, match in (
            ((["a b"], [[(0, 1, "ORG")]]), "`texts`, item 0: .*ORG.*B-PER, I-PER, B-LOC"),
            ((["a b"], [[(1, 2, "PER")]]), "`texts`, item 0: the entity PER from 1 to 2"),
            ((["a b"], [[(0, 9, "PER")]]), "`texts`, item 0: .* is not within the text"),
            ((["a b"], [[(0, 1, "PER"), (0, 3, "LOC")]]), "overlaps"),
            ((["a b"], [[{"start": 0, "label": "PER"}]]), "`texts`, item 0.*start, end and label"),
            ((["a b"], [[("0", 1, "PER")]]), "`texts`, item 0.*integers"),
            ((["a b", None], [[], []]), "`texts`, item 1.*None"),
            (([["a", "b"]], [["O"]]), "`texts`, item 0: found 1 tag"),
            (([["a", None]], [["O", "O"]]), "`texts`, item 0.*None.*missing"),
            (([[]], [[]]), "`texts`: found no words"),
        )
    ] + [
        ("MultipleChoice", arguments, {}, match) for arguments, match in (
            ((["a"], [["b"]], [0]), "`contexts`, item 0.*1 ending"),
            ((["a"] * 2, [["b", "c"], ["b", "c", "d"]], [0, 0]), "`contexts`, item 1.*3 endings"),
        )
    ] + [
        ("SentenceEncoder", arguments, options, match) for arguments, options, match in (
            ((PAIRS, [float("nan")] * 3), {}, "`texts`, item 0: the score is missing; .*dropna"),
            ((PAIRS,), {"loss": "cosine"}, "`loss=cosine` requires `scores`"),
            ((PAIRS, [0.5, -5, 0]), {"loss": "cosine"}, "`loss=cosine`.* -5, .* -1 to 1"),
            ((PAIRS, SCORES), {"loss": "contrastive"}, "`loss=contrastive`.*`scores`"),
            ((PAIRS,), {"loss": "triplet"}, "`loss=triplet`: found 2 texts"),
            ((PAIRS,), {"matryoshka_dims": [8, 99]}, r"`matryoshka_dims=\(8, 99\)`"),
            ((PAIRS, SCORES), {"symmetric": True}, "`symmetric`.*`loss=cosent`"),
        )
    ] + [
        ("FillMask", ({"text": ["a", ["b", "c"]]},), {}, "`texts`, item 1: found"),
        ("FillMask", (["a b"],), {"masked_lm_prob": 1.5}, "`masked_lm_prob=1.5`"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(pipelines, name, arguments, options, match):
    with pytest.raises(bert_tf.UserError, match=match):
        captured_fit(pipelines[name], *arguments, **options)


def test_vectors_of_a_column(pipelines):
    encoder = pipelines["SentenceEncoder"]
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2)
    for texts in (Frame({"text": TEXTS}), pd.Series(TEXTS), np.array(TEXTS), dataset):
        np.testing.assert_array_equal(encoder.predict(texts), encoder.predict(TEXTS))
    with pytest.raises(bert_tf.UserError, match="`texts`: item 0 is"):
        encoder.predict(Frame(PAIRS))
    column, similarity = pd.Series(list(vectors := encoder.encode(TEXTS))), encoder.similarity
    assert (similarity(column.to_frame(), column) == similarity(vectors, vectors)).all()
    with pytest.raises(bert_tf.UserError, match=r"`queries` and `relevant`.* 12 and 1 items"):
        encoder.evaluate_search(TEXTS, TEXTS, [[0]])
    tagger = pipelines["TokenClassification"]
    assert tagger.predict([[b"a\xff"]]) == tagger.predict([["a"]])


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("TextClassifier", {"labels": None}, "`labels`"),
        ("TextClassifier", {"labels": "ab"}, "`labels`.*single str"),
        ("TextClassifier", {"labels": ["a"]}, "`labels`: found a"),
        ("TextClassifier", {"labels": ["a", np.nan]}, "`labels`: .*missing"),
        *((x, {"labels": ["a", y]}, "`labels`: .*(0xff|Period.*, expected a label)")
          for x in ("TextClassifier", "TokenClassification") for y in (b"\xff", pd.Period("2020"))),
        ("TextClassifier", {"labels": ["a", " a"]}, "`labels`.*a, a"),
        ("TextClassifier", {"labels": ["a"], "task_type": "regression"}, "`task_type=regression`"),
        ("TextClassifier", {"labels": ["a"], "num_classes": 2}, "`labels`.*`num_classes`"),
        ("TextClassifier", {"num_classes": 2, "max_seq_length": 33}, "`max_seq_length=33`"),
        ("TextClassifier", {"num_classes": 1}, "`num_classes=1`"),
        ("TextClassifier", {"num_classes": 2, "num_texts": 3}, "`num_texts=3`"),
        ("TextClassifier", {"numeric_columns": ["x"]}, "`numeric_columns`.*run_classifier.*, not"),
        ("TextClassifier", {"num_classes": 2, "numeric_as": "text"}, "numeric_as"),
        ("TokenClassification", {}, "`labels`"),
        ("TokenClassification", {"labels": ["B-PER", "I-PER"]}, "`labels`.*B-PER"),
        ("TokenClassification", {"scheme": "iob2"}, "`scheme=iob2`.*`labels`"),
        ("SentenceEncoder", {"layer": 2}, "`layer=2`.* 1 layer"),
        ("SentenceEncoder", {"pooling": "sum"}, "`pooling=sum`: expected one of"),
        ("FillMask", {"max_length": 3}, "`max_length`.*FillMask"),
        ("TokenVectors", {"layer_combination": "weighted_sum_all", "layer_weights": [1.0, 2.0]},
         "`layer_weights`: found 2 numbers, expected 1"),
        ("TokenVectors", {"layer_combination": "concat_last_four"}, "last_four`: .* 1 layer"),
    ],
)  # fmt: skip
def test_wrong_presets(encoder_folder, name, options, match):
    with pytest.raises(bert_tf.UserError, match=match):
        getattr(bert_tf, name).from_preset(**{"preset": encoder_folder, **options})


def test_long_reading_is_reported(monkeypatch, caplog):
    """Data without an end would be read for ever."""
    monkeypatch.setattr(containers, "_WARNING_SECONDS", -1.0)
    for data in (iter(["a", "b"]), BATCHES.unbatch()):
        containers.read_table((data, None), ("texts", "labels"), ("text", "label"), 1)
    assert caplog.text.count("`texts`: 0 items read, and there are more; they must end") == 2
