"""Writes the API reference: completes the pages of docs/api from docstrings.

Each page has an introduction and a table of public names, which are written by hand. This script
replaces what follows the table by a section for each name. Run it after a change of a table, of a
signature or of a docstring:

    python -m tools.api_pages
"""

import dataclasses
import functools
import inspect
import pathlib
import re
import textwrap

import keras

import bert_tf

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "api"

_WIDTH = 120
_MAX_SIGNATURE = 88
_NOTE = "<!-- tools/api_pages.py writes the rest of this page from docstrings. -->"
_ROW = re.compile(r"(?m)^\| \[?`([\w.]+)`(?:\]\(#[\w.]+\))? \|")
# An example spans from >>> to the next empty line.
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_SECTION = re.compile(
    r"(?m)^(Args|Attributes|Call arguments|Raises|Returns|Yields):\n((?:(?: .*)?\n)+)"
)
_ITEM = re.compile(r"(?m)^  (\*{0,2}[\w.]+(?:, [\w.]+)*): ?((?:.*\n)(?:(?:    .*)?\n)*)")
# What annotations have before the names that users know.
_PREFIX = re.compile(
    r"\b(?:collections\.abc|typing|bert_tf|keras\.src|tensorflow\.python)\.(?:\w+\.)*(?=[A-Z])"
)
# Defaults that are classes or methods.
_OBJECT = re.compile(r"<(?:class '|bound method )([\w.]+)(?:'| of <[^>]*>)>")
# The summary of a constructor that documents its arguments, such as "Store the arguments."
_SUMMARY = re.compile(r"\A[^\n]+\n\n(?=(?:Args|Raises):\n)")
# Overridden methods of Keras that users do not call.
_HIDDEN = ("compute_output_spec", "get_config", "from_config", "build")
# The methods to show, if not all.
_METHODS = {
    "AdamWeightDecay": ("learning_rate_at",),
    "BertConfig": ("from_dict", "from_json_file", "to_dict", "to_json_string", "to_hugging_face"),
    "BertTokenizer": ("from_preset", "vocab"),
    "LAMB": (),
}


def main():
    for path, text in render().items():
        path.write_text(text, encoding="utf-8")


def render():
    """Return a dict from the paths of the pages to their complete texts."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
    places = {name: path.name for path, text in pages.items() for name in _ROW.findall(text)}
    return {path: _complete(path.name, text, places) for path, text in pages.items()}


def _complete(page, text, places):
    """Return the text of a page with a section for each name in its table.

    Args:
      page: file name of the page.
      text: its text.
      places: dict from public names, without "bert_tf.", to the file names of their pages.
    """

    def link(code):
        name = code[1].removeprefix("bert_tf.")
        if name not in places:
            matches = [x for x in places if x.endswith(f".{name}")]
            if len(matches) != 1 or name.islower():
                return code[0]
            name = matches[0]
        return f"[{code[0]}]({'' if places[name] == page else places[name]}{_anchor(name)})"

    text = _ROW.sub(lambda row: f"| [`{row[1]}`]({_anchor(row[1])}) |", text.split(_NOTE)[0])
    described = {}
    sections = [_NOTE]
    for name in (name for name in places if places[name] == page):
        sections += _entry(name, functools.reduce(getattr, name.split("."), bert_tf), described)
    sections = [
        section if section.startswith(("#", "```")) else re.sub(r"`([\w.]+)`", link, section)
        for section in sections
    ]
    return "\n\n".join([text.rstrip(), *sections]) + "\n"


def _anchor(name):
    return "#" + f"bert_tf.{name}".replace(".", "").lower()


def _entry(name, value, described):
    """Return the paragraphs about a class or function.

    Args:
      name: its public name, without "bert_tf.".
      value: the class or function.
      described: dict from the methods that the page describes already to their classes; completed.
    """
    heading = f"## bert_tf.{name}"
    if inspect.isfunction(value):
        return [
            heading,
            _signature(value, name.rpartition(".")[2]),
            _markdown(inspect.getdoc(value)),
        ]
    options = []
    if dataclasses.is_dataclass(value):
        options = [x for x in dataclasses.fields(value) if x.metadata.get("help") or _group(x)]
    if options:
        # `Config` appends its options to the docstring.
        summary, _, _ = value.__doc__.rpartition("\n\nAttributes:\n")
        note = "Options and their defaults; each is also a flag of the scripts:"
        return [heading, _markdown(summary), note, "\n".join(map(_option, options))]
    sections = [heading, _markdown(inspect.getdoc(value))]
    constructor = value.__dict__.get("__init__")
    if constructor:
        sections.insert(1, _signature(constructor, name.rpartition(".")[2], is_class=True))
    if constructor and constructor.__doc__ and not dataclasses.is_dataclass(value):
        text = _SUMMARY.sub("", inspect.cleandoc(constructor.__doc__))
        is_section = text.startswith(("Args:", "Raises:"))
        sections.append(_markdown(text if is_section else f"**Constructor**: {text}"))
    elsewhere, own = {}, []
    for member, function in _methods(value, name):
        owner = described.setdefault(function, name)
        own += [member] * (owner == name)
        if owner != name:
            elsewhere.setdefault(owner, []).append(f"`{member}`")
            continue
        sections.append(f"### {value.__name__}.{member}".replace("__", r"\_\_"))
        bound = getattr(value, member)
        if inspect.isfunction(function):
            prefix = f"{value.__name__}." if inspect.ismethod(bound) else ""  # a class method
            sections.append(_signature(function, prefix + member))
        sections.append(_markdown(inspect.getdoc(bound)))
    for owner, members in elsewhere.items():
        sections.append(f"Also {', '.join(members)}; see `{owner}`.")
    links = {f"`{x}`": f"[`{x}`](#{value.__name__.lower()}{x})" for x in own}
    return [re.sub(r"(?<!\* )`\w+`", lambda x: links.get(x[0], x[0]), x) for x in sections]


def _group(field):
    """Return the name of the class, if a field is a group of options."""
    kind = field.type
    if dataclasses.is_dataclass(kind):
        return f"configs.{kind.__name__}"
    return kind if str(kind).endswith("Config") else ""


def _methods(cls, name):
    """Yield the names of the public methods with their functions or properties."""
    shown = _METHODS.get(name)
    is_keras = issubclass(cls, keras.layers.Layer)
    if is_keras and not issubclass(cls, keras.Model) and not shown:
        shown = ("call",)
    seen = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("bert_tf"):
            continue
        for member, value in base.__dict__.items():
            value = getattr(value, "__func__", value)
            if (shown is not None and member not in shown) or member in seen or member in _HIDDEN:
                continue
            if member.startswith("_") and (is_keras or member != "__call__"):
                continue
            is_member = inspect.isfunction(value) or isinstance(value, property)
            if is_member and inspect.getdoc(getattr(cls, member)):
                seen.add(member)
                yield member, value


def _option(field):
    if group := _group(field):
        return _item(field.name, f"see `{group}`.")
    text = field.metadata["help"]
    if choices := field.metadata["choices"]:
        text += f" One of {', '.join(map(repr, choices))}."
    kind = getattr(field.type, "__name__", field.type)
    return _item(f"{field.name}: {kind} = {field.metadata['default']!r}", text)


def _item(name, text):
    return textwrap.fill(
        f"* `{name}`: {' '.join(text.split())}",
        _WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _signature(function, name, is_class=False):
    """Return a call as Python code, with one argument per line if it is long."""
    signature = inspect.signature(function)
    arguments = [x for x in signature.parameters.values() if x.name not in ("self", "cls")]
    result = signature.empty if is_class else signature.return_annotation
    text = name + str(signature.replace(parameters=arguments, return_annotation=result))
    if len(_PREFIX.sub("", text)) > _MAX_SIGNATURE:
        lines = "".join(f"    {argument},\n" for argument in arguments)
        _, arrow, result = text.rpartition(" -> ")
        text = f"{name}(\n{lines})" + (arrow + result if arrow else "")
    text = _OBJECT.sub(r"\1", text).replace("<factory>", "...")
    text = re.sub(r"-> (?:'(\w+)'|~_\w+)$", lambda x: f"-> {x[1] or 'Self'}", _PREFIX.sub("", text))
    text = re.sub(r"'([^'\"]*)'", r'"\1"', text)
    return f"```python\n{text}\n```"


def _markdown(docstring):
    """Return the Markdown for a docstring without indentation."""
    text = docstring + "\n"
    text = _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)
    return _SECTION.sub(_section, text).strip()


def _section(match):
    title, body = match[1], match[2]
    if title in ("Returns", "Yields"):
        return f"**{title}**: {' '.join(body.split())}\n\n"
    items = [_item(name, text) for name, text in _ITEM.findall(body)]
    return f"**{title}**\n\n" + "\n".join(items) + "\n\n"


if __name__ == "__main__":
    main()
