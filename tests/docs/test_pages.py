"""The pages: their commands, flags, links and error messages exist, and the site builds."""

import ast
import logging
import re
import subprocess

import pytest
from absl import flags

import bert_tf
from bert_tf.__main__ import COMMANDS
from tests import scripts_alone
from tests.docs import pages

# Flags of other programs.
OTHER_FLAGS = {
    "accelerator-type", "all", "batching_parameters_file", "bert_hub_module_handle", "config_file",
    "dask_client_address", "depth", "dir", "editable", "enable_batching", "environment_config",
    "environment_type", "experiment", "find-links", "flagfile", "flink_master", "help", "helpfull",
    "logdir", "model_base_path", "model_config_file", "model_name", "na-prob-file", "name",
    "no-deps", "output", "port", "project", "quiet", "region", "rest_api_port", "saved-model",
    "saved_model_dir", "sdk_container_image", "spark_master_url", "strict", "temp_location",
    "tensorflow_intra_op_parallelism", "verbosity", "zone",
}  # fmt: skip


@pytest.fixture(scope="module")
def commands(root):
    blocks = [*pages.blocks(root), *pages.help_blocks(root)]
    return [command for block in blocks for command in pages.commands(block)]


@pytest.fixture(scope="module")
def run_script(root, commands):
    """All scripts, commands of `bert-tf` and benchmarks in the pages; see `scripts_alone`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks"))
        patch.syspath_prepend(str(root))
        names = {path.name for path in root.glob("*.py")} - {"setup.py"}
        names |= {f"bert-tf {name}" for name in COMMANDS}
        names |= {command.script for command in commands}
        with scripts_alone.imported(*sorted(names)) as run:
            yield run


def test_commands_use_flags_that_exist(commands, run_script):
    wrong = []
    for place, script, words in commands:
        try:
            unparsed = run_script.parse(script, *words)
        except flags.Error as error:
            unparsed = error
        if unparsed:
            wrong.append(f"{place}: {script}: {unparsed}")
    assert not wrong, "\n".join(wrong)
    assert len(commands) > 50
    assert {"run_squad.py", "bert-tf vocab learn"} <= {x.script for x in commands}


def test_bash_blocks_are_bash(root):
    text = "\n".join(f"(\n{b.text})" for b in pages.blocks(root) if b.language == "bash")
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_flags_in_the_text_exist(root, run_script):
    """No page mentions a flag that was removed."""
    known = set(OTHER_FLAGS)
    for script_flags in run_script.flags_of.values():
        for flag in script_flags:
            known |= {flag.name, f"no{flag.name}"} if flag.boolean else {flag.name}
    for path in pages.paths(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for name in re.findall(r"(?<![\w-])--([a-z][\w-]*)", line):
                assert name in known, f"{path}, line {number}: --{name}"


def test_links_have_targets(root):
    """Linked files exist. Building the site checks headings."""
    for path in pages.paths(root):
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?://)([^)\s#]+)[^)\s]*\)", text):
            assert (path.parent / target).exists(), f"{path}: {target}"


def test_tests_named_in_pages_exist(root):
    names = [
        (path.name, name)
        for path in pages.paths(root)
        for name in re.findall(r"(?<![\w/])(?:tests/)?(\w+/test_\w+\.py)", path.read_text("utf-8"))
    ]
    assert len(names) > 20
    assert not [name for name in names if not (root / "tests" / name[1]).exists()]


def test_messages_in_troubleshooting_are_in_the_code(root):
    page = (root / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"(?m)^\| `(.+?)` \| ", page)
    assert len(messages) > 20
    known = set(strings_in_code(root))
    missing = []
    for message in messages:
        pattern = re.compile("(?s:.*)".join(map(re.escape, message.split("..."))))
        if not any(map(pattern.fullmatch, known)):
            missing.append(message)
    assert not missing, "\n".join(missing)


def strings_in_code(root):
    """Yield each string literal of the code as it is printed, with NUL for inserted values."""
    for path in [*root.glob("*.py"), *(root / "bert_tf").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    x.value if isinstance(x, ast.Constant) else "\0" for x in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = re.sub(r"%(\.\d+)?[sdgf]", "\0", node.value).replace("%%", "%")
            else:
                continue
            yield text
            # The library names arguments in backticks, which scripts print as flags.
            yield re.sub(r"`([\w\0]+)(=[^`]*)?`", r"--\1\2", text)


@pytest.fixture(scope="module")
def site(root, tmp_path_factory):
    """The folder of the site; building it must not warn, as with --strict."""
    pytest.importorskip("mkdocs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    messages = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        build(load_config(str(root / "mkdocs.yml"), site_dir=str(folder)))
    finally:
        logging.getLogger("mkdocs").removeHandler(handler)
    assert not messages
    return folder


def test_the_site_loads_nothing_from_other_servers(root, site):
    assert all((site / path.stem).is_dir() for path in (root / "notebooks").glob("*.ipynb"))
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?(?:https?:)?//[^\s>]*", text)
        loaded += re.findall(
            r"<link(?![^>]*canonical)[^>]*\shref=[\"']?(?:https?:)?//[^\s>]*", text
        )
        assert not loaded, (path, loaded)


def test_the_reference_has_all_public_names(root):
    text = "".join(path.read_text(encoding="utf-8") for path in (root / "docs/api").glob("*.md"))
    names = {name for name in bert_tf.__all__ if name[0].isupper()}
    assert set(re.findall(r"(?m)^::: bert_tf\.(\w+)$", text)) == names
