"""C++: the enum classes of sinter.hpp, and the members of ChainBuilder without options, as .clang-format has them."""

from __future__ import annotations

from typing import List

from header import Abi
from names import Argument, PlainAdd, camel, comment_lines, filled, plain_adds, type_name, word_enums

WIDTH = 100
# Enumerations that sinter.hpp keeps in the form of sinter.h, because C's option structs use them.
_NO_WORDS = ("Status", "Choice", "Switch", "LogLevel")
# One overloaded name for what applies a function that an argument names.
_NAMES = {"unary": "Apply", "binary": "Apply", "activation": "Apply"}


def words(abi: Abi) -> str:
    lines: List[str] = []
    for enum in word_enums(abi):
        if type_name(enum.type) in _NO_WORDS:
            continue
        lines += [*comment_lines(enum.doc, "// ", WIDTH), f"enum class {type_name(enum.type)} : {enum.type} {{"]
        lines += [f"  k{camel(name)} = {constant.name}," for name, constant in enum.words]
        lines.append("};")
    return "\n".join(lines) + "\n"


def adds(abi: Abi) -> str:
    return "\n".join(_add(add) for add in plain_adds(abi)) + "\n"


def _add(add: PlainAdd) -> str:
    given = [part for each in add.arguments for part in _passed(each)]
    return "\n".join([
        *comment_lines(add.function.doc, "  // ", WIDTH),
        filled(f"  Value {_NAMES.get(add.name) or camel(add.name)}(", [_parameter(each) for each in add.arguments], ") {", WIDTH),
        filled("    return Add(", ["{}", add.function.name, *given], ");", WIDTH),
        "  }",
    ])  # fmt: skip


def _parameter(argument: Argument) -> str:
    if argument.form == "value":
        return f"Value {argument.name}"
    if argument.form == "list":
        return f"Span<{argument.type}> {argument.name}"
    return f"{type_name(argument.type) if argument.form == 'word' else argument.type} {argument.name}"


def _passed(argument: Argument) -> List[str]:
    if argument.form == "list":
        return [f"{argument.name}.size()", f"{argument.name}.data()"]
    return [argument.name]
