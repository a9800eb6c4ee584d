"""Package `bert_tf` and its command-line scripts."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent

# The URL of the repository, such as "https://github.com/NAME/bert_tf". On a package index, relative
# links of the README point to it, or become plain text if it is empty.
REPOSITORY = ""

# Named like the release's scripts. Wheels put only these and `bert-tf` on the PATH.
SCRIPTS = [
    "create_pretraining_data.py",
    "run_pretraining.py",
    "run_classifier.py",
    "run_squad.py",
    "run_ner.py",
    "run_multiple_choice.py",
    "run_sentence_encoder.py",
    "extract_features.py",
    "export_model.py",
]

NUMBA = "numba>=0.60"

# `Attention` is an operator since these versions.
ONNX = ["onnx>=1.18", "onnxruntime>=1.23"]

# A separate extra, because pip would install this package over tensorflow-cpu, tensorflow-tpu or
# tf-nightly, which provide the same modules under other names.
TENSORFLOW = [
    "tensorflow>=2.20,<2.22",
    # Displays the summaries; only an extra of TensorFlow 2.21.
    "tensorboard",
    # Tokenizes inside the graph. Not available for Windows, where Python tokenizes. Importing
    # version 2.21.0 fails with an undefined symbol.
    "tensorflow-text>=2.20,!=2.21.0,<2.22; platform_system != 'Windows'",
]

# The documentation site.
DOCS = ["mkdocs>=1.6,<1.7", "mkdocstrings[python]>=1,<2", "pygments", "pymdown-extensions"]


def long_description():
    """Return the README with its relative links resolved or removed."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    if REPOSITORY:
        text = re.sub(r'src="(?!https?:)', f'src="{REPOSITORY}/raw/main/', text)
        text = re.sub(r"\]\((?=#)", f"]({REPOSITORY}", text)
        return re.sub(r"\]\((?!https?:)", f"]({REPOSITORY}/blob/main/", text)
    text = re.sub(r'<img src="(?!https?:)[^>]*>\n\n', "", text)
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


setup(
    name="bert_tf",
    version="0.3.0",
    description="BERT for TensorFlow and Keras 3, compatible with the 2018 release",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    project_urls={"Source": REPOSITORY} if REPOSITORY else {},
    packages=find_packages(include=["bert_tf", "bert_tf.*"]),
    package_data={
        "bert_tf": ["py.typed", "__init__.pyi"],
        "bert_tf.checkpoints": ["published_sha256.txt"],
        "bert_tf.device_check": ["recorded/*"],
        "bert_tf.tokenization": ["unicode_table.txt", "unicode_cases.txt"],
    },
    scripts=SCRIPTS,
    entry_points={"console_scripts": ["bert-tf = bert_tf.__main__:main"]},
    python_requires=">=3.10,<3.14",
    # The lower bounds admit the packages of a Colab runtime, so that none is replaced.
    install_requires=[
        "absl-py>=1.4",
        # `filelock` requires it for the process ID in a lock file.
        "exceptiongroup; python_version < '3.11'",
        # Since 3.32.3, the lock file contains the holder's process ID.
        "filelock>=3.32.3",
        # Checksums of TFRecord files.
        "google-crc32c>=1.5",
        "keras>=3.12",
        "lazy-loader>=0.4",
        "numpy>=1.26",
        # Metrics.
        "scikit-learn>=1.3",
        "scipy>=1.11",
        # 4.9.10 imports importlib_resources without declaring it.
        "tensorflow-datasets>=4.9.7",
        "importlib_resources",
        # Reads and writes Hugging Face folders.
        "safetensors>=0.4",
        # Learns vocabularies.
        "tokenizers>=0.20",
        "tqdm>=4.66",
    ],
    extras_require={
        "tensorflow": TENSORFLOW,
        "onnx": ONNX,
        "docs": DOCS,
        "test": [
            *TENSORFLOW,
            *ONNX,
            *DOCS,
            "huggingface_hub>=0.30",
            "hypothesis>=6.100",
            "ipykernel>=6.29",
            "matplotlib>=3.8",
            "mypy>=1.15,<3",
            "nbclient>=0.10",
            "nbformat>=5.10",
            NUMBA,
            "openpyxl>=3.1",
            "pandas>=2.2",
            "pyarrow>=15",
            "pytest>=8.0",
            "pytest-xdist>=3.5",
            "requests>=2.32",
            "ruff>=0.17,<0.18",
            "setuptools>=68",
            "tensorflow-serving-api>=2.19,<2.22",
        ],
        # create_pretraining_data.py --runner.
        "beam": ["apache-beam>=2.60"],
        # Data files in Excel format.
        "excel": ["openpyxl>=3.1"],
        # KERAS_BACKEND=jax. A GPU or a TPU requires jax[cuda13] or jax[tpu].
        "jax": ["jax>=0.7"],
        # hf://OWNER/NAME.
        "hub": ["huggingface_hub>=0.30"],
        # Makes create_pretraining_data.py twice as fast.
        "numba": [NUMBA],
        # Data files in Parquet format.
        "parquet": ["pyarrow>=15"],
        # Runs notebooks/.
        "notebooks": ["jupyterlab>=4.0", "matplotlib>=3.8", "pandas>=2.2"],
    },
)
