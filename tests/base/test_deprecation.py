"""Names of version 0.1 resolve to the new ones with a warning that names the user's line."""

import pytest

import bert_tf
from bert_tf import tasks, training


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (bert_tf, "BertTagger", bert_tf.BertTokenClassifier),
        (tasks, "squad", tasks.question_answering),
        (training, "Options", training.TrainConfig),
    ],
)
def test_old_names(module, old, new):
    with pytest.warns(FutureWarning, match=rf"\.{old} is deprecated") as warnings:
        assert getattr(module, old) is new
    assert [warning.filename for warning in warnings] == [__file__]


def test_unknown_names_stay_errors():
    for module in (bert_tf, tasks, training):
        with pytest.raises(AttributeError, match="NoSuchName"):
            module.NoSuchName  # noqa: B018
