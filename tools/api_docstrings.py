"""Griffe extension for mkdocstrings that prepares the docstrings of bert_tf for docs/api."""

import ast
import re

import griffe

# An example spans from >>> to the next empty line.
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    def on_object(self, *, obj, **_):
        """Format examples as code."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_class_members(self, *, cls, **_):
        """List the options of a configuration with their defaults and help."""
        lines = []
        for attribute in cls.attributes.values():
            match attribute.value:
                case griffe.ExprCall(
                    function=griffe.ExprName(name="option"), arguments=[default, *others]
                ):
                    attribute.value = default
                    if others and isinstance(others[0], str):
                        lines.append(f"  {attribute.name}: {ast.literal_eval(others[0])}")
        if lines:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(lines)
