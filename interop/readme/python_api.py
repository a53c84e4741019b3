#!/usr/bin/env python3
"""The page docs/reference/python.md, made of the signatures and documentation of the Python package, without importing it.

interop/readme/python_api.py            exit status 1 if the page is out of date
interop/readme/python_api.py --write    writes it
"""

import ast
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python/larder_cache"
PAGE = ROOT / "docs/reference/python.md"
HEAD = """# Python API

This page lists the functions and classes of the package `larder_cache`.

[The Python package](../guides/python.md) shows how to use them. The page is made of their
documentation, whose examples are tests: `interop/readme/python_api.py --write` writes it.
"""
MODULES = [("larder_cache", "__init__.py"), ("larder_cache.plot", "plot.py"), ("larder_cache.ray", "ray.py")]
Node = ast.FunctionDef | ast.ClassDef


def parsed(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text())


def public(module: str, file: str) -> list[tuple[str, Node]]:
    """The public names of a module, with their definitions, in the order of the alphabet."""
    tree, found = parsed(file), {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and file == "__init__.py":
            path = f"{node.module}.py" if (PACKAGE / f"{node.module}.py").exists() else f"{node.module}.pyi"
            for of in parsed(path).body:
                if isinstance(of, Node) and of.name in {alias.name for alias in node.names}:
                    found[of.name] = of
        elif isinstance(node, Node) and not node.name.startswith("_") and file != "__init__.py":
            found[node.name] = node
    listed = next((n for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign) and "__all__" in ast.unparse(n).split("=")[0]), None)
    if listed and listed.value:
        names = set(ast.literal_eval(listed.value))
        assert names - {"__version__"} <= found.keys(), f"{module}: no definition of {names - found.keys()}"
        found = {name: node for name, node in found.items() if name in names}
    return sorted(found.items(), key=lambda item: item[0].lower())


def signature(name: str, node: ast.FunctionDef, is_method: bool) -> str:
    """The signature, an argument a line if it is long."""
    arguments = node.args
    if is_method and arguments.args and arguments.args[0].arg in {"self", "cls"}:
        arguments.args = arguments.args[1:]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name}({ast.unparse(arguments)}){returns}"
    if len(line) <= 96:
        return line
    parts = re.split(r", (?![^\[(]*[\])])", ast.unparse(arguments))
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def prose(text: str) -> str:
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)


def markdown(documentation: str) -> str:
    """A docstring as Markdown: examples, lists and the sections of arguments."""
    blocks = []
    for paragraph in re.split(r"\n\s*\n", documentation.strip()):
        lines = paragraph.splitlines()
        first = lines[0]
        if first.startswith((">>>", "...")):
            blocks.append("```python\n" + "\n".join(lines) + "\n```")
        elif re.fullmatch(r"\w[\w ]*:", first) and len(lines) > 1 and lines[1].startswith("    "):
            body = textwrap.dedent("\n".join(lines[1:]))
            items = re.split(r"\n(?=\S)", body)
            blocks.append(f"{first[:-1]}:\n\n" + "\n".join(item_of(item) for item in items))
        elif re.match(r"[*-] ", first):
            items = re.split(r"\n(?=[*-] )", paragraph)
            blocks.append("\n".join(item_of(item[2:]) for item in items))
        elif all(line.startswith("    ") or line.startswith("``") for line in lines):
            items = re.split(r"\n(?=``)", paragraph)
            blocks.append("\n".join(item_of(re.sub(r"\n", ": ", item, count=1)) for item in items))
        else:
            blocks.append(wrapped(prose(" ".join(line.strip() for line in lines)), ""))
    return "\n\n".join(blocks)


def item_of(text: str) -> str:
    text = re.sub(r"\s+", " ", prose(text)).strip()
    named = re.match(r"(\*{0,2}\w+): ", text)
    if named:
        text = f"`{named[1]}`: {text[named.end() :]}"
    return wrapped(f"- {text}", "  ")


def wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def section(prefix: str, name: str, node: Node) -> str:
    text = f"\n### {name}\n"
    documentation = ast.get_docstring(node) or ""
    if isinstance(node, ast.FunctionDef):
        text += f"\n```python\n{signature(prefix + name, node, False)}\n```\n"
    else:
        start = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
        if start:
            text += f"\n```python\n{signature(prefix + name, start, True).removesuffix(' -> None')}\n```\n"
    if documentation:
        text += f"\n{markdown(documentation)}\n"
    if isinstance(node, ast.ClassDef):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                is_property = any(ast.unparse(decorator) == "property" for decorator in method.decorator_list)
                shown = method.name if is_property else signature(method.name, method, True)
                text += f"\n```python\n{name}.{shown}\n```\n"
                if said := ast.get_docstring(method):
                    text += f"\n{markdown(said)}\n"
    return text


def main():
    text = HEAD
    for module, file in MODULES:
        text += f"\n## {module}\n"
        for name, node in public(module, file):
            text += section("", name, node)
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit("docs/reference/python.md is out of date: interop/readme/python_api.py --write writes it")


main()
