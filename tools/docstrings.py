"""Griffe extension that formats signatures, docstrings and options for the API reference."""

import ast
import re

import griffe

# An example spans from >>> to the next empty line.
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
# The summary of a constructor that documents its arguments, such as "Store the arguments."
_SUMMARY = re.compile(r"\A[^\n]+\n\n(?=(?:Args|Raises):\n)")


class Docstrings(griffe.Extension):
    """Adapts signatures and docstrings for readers who do not see the code."""

    def on_instance(self, *, node, obj, agent=None, **_):
        """Fence examples, because Markdown reads `>>>` as a quotation."""
        if obj.docstring:
            text = obj.docstring.value
            obj.docstring.value = _EXAMPLE.sub(lambda x: f"```pycon\n{x[0]}\n```", text)

    def on_attribute_instance(self, *, node, attr, agent=None, **_):
        """Show the default of a field, and the help of `NAME: TYPE = option(DEFAULT, HELP)`."""
        value = getattr(node, "value", None)
        function = getattr(value.func, "id", "") if isinstance(value, ast.Call) else ""
        if function == "LazyImport":
            attr.value = "None"
        if function not in ("option", "derived"):
            return
        default, *help_text = value.args
        attr.value = ast.unparse(default)
        if help_text and isinstance(help_text[0], ast.Constant):
            attr.extra["bert_tf"]["help"] = help_text[0].value

    def on_function_instance(self, *, node, func, agent=None, **_):
        """Mark the text of a constructor, which is shown below the text of its class."""
        if func.name == "__init__" and func.docstring:
            text = _SUMMARY.sub("", func.docstring.value)
            is_section = text.startswith(("Args:\n", "Raises:\n"))
            func.docstring.value = text if is_section else f"**Constructor.** {text}"

    def on_package(self, *, pkg, loader, **_):
        """Complete docstrings and signatures once all classes are known.

        The options of a config become its "Parameters". Signatures show the values of constants
        that are defaults, and "Self" for private type variables.
        """
        members = list(_members(pkg))
        for config in members:
            if config.is_class and config.docstring and "dataclass" in config.labels:
                config.docstring.value += _parameters(config)
        for function in members:
            if not function.is_function:
                continue
            for parameter in function.parameters:
                if isinstance(parameter.default, griffe.ExprName):
                    parameter.default = _value(pkg, parameter.default)
            if re.fullmatch(r"_[A-Z]\w*", str(function.returns)):
                function.returns = "Self"


def _members(obj):
    """Yield all modules, classes, functions and attributes of a package."""
    for member in obj.members.values():
        if not member.is_alias:
            yield member
            if member.is_module or member.is_class:
                yield from _members(member)


def _parameters(config):
    """Return the "Args" section of a config with the help of its options, inherited ones first."""
    lines = {}
    for cls in [*reversed(config.mro()), config]:
        for name, attribute in cls.attributes.items():
            if text := attribute.extra["bert_tf"].get("help"):
                lines[name] = text
            elif str(attribute.annotation).endswith("Config"):
                lines[name] = f"see `{attribute.annotation}`."
    return "\n\nArgs:\n" + "".join(f"  {x}: {lines[x]}\n" for x in lines) if lines else ""


def _value(package, expression):
    """Return the value of a name or attribute if it is a constant, else the expression."""
    path = expression.canonical_path.removeprefix(f"{package.name}.")
    try:
        value = package[path].value
    except (KeyError, AttributeError):
        return expression
    if isinstance(value, griffe.ExprName | griffe.ExprAttribute):
        return _value(package, value)
    return value if value is not None else expression
