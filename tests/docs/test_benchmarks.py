"""The benchmarks run in their smallest settings."""

import pytest

import bert_tf
from examples import toy_corpus
from tests.common import WORDS, Handler, http_server, run_python, tiny, write_hugging_face
from tests.docs.test_rehearsal import write_glue

SIZES = "--layers=1 --width=8 --heads=2 --intermediate=16 --vocab=300 --batch=2 --length=32"
PEERS = "--data_dir=MRPC --model_dir=model --num_seeds=1 --num_train_epochs=1 --batch_size=8"
TEXT = "--input_file=corpus.txt --vocab_file=vocab.txt --turns=1"
LINES = "--model=model --input_file=lines.txt"

# The flags of each benchmark, and the libraries that it compares.
BENCHMARKS = {
    "fine_tuning.py": (f"--task_name=mrpc {PEERS}", "transformers"),
    "gpu_step.py": ("--size=tiny --batch_size=2 --max_seq_length=8", "jax"),
    "latency.py": (
        f"{LINES} --clients=2 --seconds=0.1 --turns=1", "transformers onnxruntime onnxscript"
    ),
    "memory.py": ("--layers=1 --hidden_size=64 --batch_size=4 --max_seq_length=8 --steps=1", ""),
    "predicting.py": (f"{LINES} --turns=1", "transformers"),
    "pretraining_data.py": (f"{TEXT} --dupe_factor=1 --processes=1,2", ""),
    "pretraining_speed.py": (
        f"{SIZES} --input_file=records --library=bert_tf --turns=1 --dtypes=float32", ""
    ),
    "sentence_training.py": (PEERS, "sentence_transformers"),
    "serving_load.py": ("--input_file=rows.jsonl --seconds=0.1 --server=SERVER", ""),
    "startup_time.py": ("--model=model --turns=1", "transformers"),
    "step_time.py": (
        f"{SIZES} --turns=1 --dtypes=float32 --library=bert_tf --library=transformers",
        "transformers",
    ),
    "tokenization.py": (TEXT, "tensorflow_text"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which the benchmarks run, with their input files."""
    folder = tmp_path_factory.mktemp("benchmarks")
    write_glue(folder)
    (folder / "corpus.txt").write_text(toy_corpus.make(corpus=5, heldout=1)["corpus"])
    (folder / "lines.txt").write_text("a b\nc d e\n")
    (folder / "rows.jsonl").write_text('{"text": "a"}\n')
    model = bert_tf.BertModel(tiny(vocab_size=len(WORDS), max_position_embeddings=512))
    write_hugging_face(folder / "model", model)
    return folder


class Model(Handler):
    """Answers every request, like a model server."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_runs(root, name, folder):
    flags, libraries = BENCHMARKS[name]
    for library in libraries.split():
        pytest.importorskip(library)
    if name == "pretraining_speed.py":
        run_python(
            root / "create_pretraining_data.py", "--input_file=corpus.txt",
            "--vocab_file=vocab.txt", "--output_file=records", "--max_seq_length=32", cwd=folder,
        )  # fmt: skip
    with http_server(Model) as server:
        flags = flags.replace("SERVER", f"localhost:{server.server_port}")
        output = run_python(root / "benchmarks" / name, *flags.split(), cwd=folder)
    assert "per second" in output or output.count("\n| ") > 1, output


def test_every_benchmark_is_run(root):
    scripts = {path.name for path in (root / "benchmarks").glob("*.py")}
    assert scripts - {"helpers.py", "peer_training.py"} == set(BENCHMARKS)
