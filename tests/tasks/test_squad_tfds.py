"""Questions out of tensorflow-datasets, from small sets with the features of squad."""

import contextlib
import io
import itertools

import numpy as np
import pytest
from test_run_squad import letters

import bert_tf
from bert_tf.tasks import question_answering as squad

pytest.importorskip("tensorflow_datasets")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same questions as a file, and as squad/v1.1 and squad/v2.0."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    folder = tmp_path_factory.mktemp("tfds")
    text = tfds.features.Text()
    answers = tfds.features.Sequence({"text": text, "answer_start": np.int32})
    v1 = {"id": np.str_, "title": text, "context": text, "question": text, "answers": answers}
    v2 = {**v1, "is_impossible": np.bool_}

    def make(name, config, features, path):
        features = tfds.features.FeaturesDict(features)

        def rows():
            for paragraph in squad.JsonSource(path, "x").paragraphs():
                for question in paragraph.questions:
                    row = {
                        "id": question.id,
                        "title": "",
                        "context": paragraph.context,
                        "question": question.text,
                        "answers": {
                            "text": [answer.text for answer in question.answers],
                            "answer_start": [answer.start for answer in question.answers],
                        },
                        "is_impossible": question.is_impossible,
                    }
                    yield {name: row[name] for name in features}

        data = tf.data.Dataset.from_generator(rows, output_signature=features.get_tensor_spec())
        with contextlib.redirect_stderr(io.StringIO()):
            tfds.dataset_builders.TfDataBuilder(
                name=name, config=config, version="3.0.0", data_dir=str(folder), features=features,
                split_datasets={"train": data, "validation": data.take(3)},
            ).download_and_prepare()  # fmt: skip

    make("squad", "v1.1", v1, str(letters(folder / "v1.json")))
    make("squad", "v2.0", v2, str(letters(folder / "v2.json", has_negative=True)))
    make("other", None, {"context": text}, str(folder / "v1.json"))
    return folder


@pytest.mark.parametrize(("config", "name"), [("v1.1", "v1"), ("v2.0", "v2")])
def test_questions_are_those_of_the_file(folder, config, name):
    def of(source):
        return {
            (paragraph.context, *question[1:])
            for paragraph in source.paragraphs()
            for question in paragraph.questions
        }

    there = of(squad.JsonSource(str(folder / f"{name}.json"), "train_file"))
    source = squad.SpanSource(f"squad/{config}", "train", str(folder))
    assert of(source) == there
    # Each context is cut once, if its questions follow each other.
    contexts = [paragraph.context for paragraph in source.paragraphs()]
    assert all(a != b for a, b in itertools.pairwise(contexts))
    assert sum(len(paragraph.questions) for paragraph in source.paragraphs()) == len(there)
    found = squad.survey(source, "train", config == "v2.0")
    assert found.questions == len(there)
    some = squad.SpanSource(f"squad/{config}", "predict", str(folder))
    assert len(of(some)) == 3 and of(some) < there
    split = squad.SpanSource(f"squad/{config}", "train", str(folder), "train[:20%]")
    assert 0 < len(of(split)) < len(there)
    assert split.name == f"squad/{config}, train[:20%]"


def test_what_is_wrong_is_said(folder):
    with pytest.raises(bert_tf.UserError, match="other has no feature id, question, answers; it"):
        squad.SpanSource("other", "train", str(folder))
    with pytest.raises(bert_tf.UserError, match="--tfds_splits: squad, none: "):
        list(squad.SpanSource("squad", "train", str(folder), "none").paragraphs())
    source = squad.SpanSource("squad/v2.0", "train", str(folder))
    with pytest.raises(
        bert_tf.UserError, match=r"squad/v2.0, train, example \d+ \(id \de\): it has"
    ):
        squad.survey(source, "train")
