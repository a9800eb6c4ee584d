"""Every block of code in README.md and docs/: what it names is there, and its flags are known."""

import ast
import re
import subprocess
import sys

import pages
import pytest
import scripts_alone
from absl import flags

# What else stands in a bash block.
PROGRAMS = {"-m", "cat", "cd", "cp", "curl", "docker", "export", "git", "pip", "printf", "pytest",
            "tensorboard"}  # fmt: skip
MODULES = {"venv", "pip", "pytest", "build", "mkdocs", "mypy", "ruff"}


@pytest.fixture(scope="module")
def commands(root):
    return [command for block in pages.blocks(root) for command in pages.commands(block)]


@pytest.fixture(scope="module")
def run_script(root, commands):
    """All scripts and benchmarks, imported; see `scripts_alone`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks"))
        patch.syspath_prepend(str(root))
        names = {module_of(path.name) for path in root.glob("*.py") if path.name != "setup.py"}
        names |= {module_of(command.words[0]) for command in commands if command.is_script}
        with scripts_alone.imported(*sorted(names)) as run:
            yield run


def module_of(script):
    if script.startswith("-m "):
        return script.removeprefix("-m ") + ".__main__"
    return script.removeprefix("./").removeprefix("benchmarks/").removesuffix(".py")


def test_commands_have_the_flags_that_their_scripts_know(commands, run_script):
    wrong = []
    for command in commands:
        script, *words = command.words
        if not command.is_script:
            continue
        try:
            left = run_script.parse(module_of(script), *words)
        except flags.Error as error:
            wrong.append(f"{command.place}: {script}: {error}")
        else:
            wrong += [f"{command.place}: {script}: {left} are no flags"] * bool(left)
    assert not wrong, "\n".join(wrong)
    assert sum(command.is_script for command in commands) > 50


def test_other_programs_are_known(commands):
    for command in commands:
        name, *rest = command.words
        if not command.is_script:
            assert name.rpartition("/")[2] in PROGRAMS, (command.place, name)
            assert name != "-m" or rest[0] in MODULES, (command.place, rest)


def test_bash_blocks_are_bash(root):
    text = "\n".join(f"(\n{b.text})" for b in pages.blocks(root) if b.language == "bash")
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for block in pages.blocks(root):
        if block.language == "python":
            ast.parse(block.text, block.place)


def test_flags_in_the_text_are_those_of_a_script(root, run_script):
    """No page speaks of a flag that is gone; those of other programs stand here."""
    others = {"batching_parameters_file", "bert_hub_module_handle", "config_file", "editable",
              "enable_batching", "environment_config", "environment_type", "experiment",
              "flink_master", "help", "logdir", "model_base_path", "na-prob-file", "name",
              "no-deps", "output", "port", "project", "quiet", "region", "rest_api_port",
              "saved-model", "saved_model_dir", "sdk_container_image", "spark_master_url",
              "strict", "temp_location", "verbosity"}  # fmt: skip
    known = set(others)
    for found in run_script.flags_of.values():
        for flag in found:
            known |= {flag.name, f"no{flag.name}"} if flag.boolean else {flag.name}
    for path in pages.paths(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for name in re.findall(r"(?<![\w-])--([a-z][\w-]*)", line):
                assert name in known, f"{path}, line {number}: --{name}"


def test_links_lead_somewhere(root):
    """Files and headings that pages name; a heading's anchor is its words with hyphens."""
    anchors = {}
    for path in pages.paths(root):
        text = re.sub(r"(?ms)^```.*?^```$", "", path.read_text(encoding="utf-8"))
        heads = re.findall(r"(?m)^#+ (.*)$", text)
        anchors[path.resolve()] = {
            re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads
        }
    for path in pages.paths(root):
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            if re.match(r"https?://", target):
                continue
            name, _, anchor = target.partition("#")
            there = (path.parent / name).resolve() if name else path.resolve()
            assert there.exists(), f"{path}: {target}"
            assert not anchor or anchor in anchors[there], f"{path}: {target}"


def test_messages_of_troubleshooting_are_those_of_the_code(root):
    page = (root / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"(?m)^\| `(.+?)` \| ", page)
    assert len(messages) > 50
    known = list(texts_of_code(root))
    for message in messages:
        pattern = "(.*)".join(map(re.escape, message.split("...")))
        assert any(re.fullmatch(pattern, text, re.DOTALL) for text in known), message


def texts_of_code(root):
    """Yields each string in the code, a NUL for what is put into it."""
    for path in [*root.glob("*.py"), *(root / "bert_tf").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (x.value if isinstance(x, ast.Constant) else "\0" for x in node.values)
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%(\.\d+)?[sdgf]", "\0", node.value).replace("%%", "%")


def test_the_site_is_built(root, tmp_path):
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={tmp_path}/site"],
        cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for path in pages.paths(root):
        if path.parent.name == "docs" and path.stem != "index":
            assert f"{path.stem}/" in (tmp_path / "site" / "index.html").read_text()
