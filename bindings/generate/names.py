"""Functions that the writers of all languages share: names, comments, wrapped lines, and the adds of a chain with a plain form."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from typing import Iterator, List, Sequence

from header import Abi, Enum, Function, Pointer, Type

MADE_BY = "Written by ./dev bindings from include/sinter/*.h; do not edit."
# Types of words whose names are not made from the C name.
_TYPE_NAMES = {"sinter_dtype": "DType", "sinter_compare": "Comparison", "sinter_reduce": "Reduction"}


def camel(name: str) -> str:
    """LSTM_CELL and lstm_cell are LstmCell."""
    return "".join(part.capitalize() for part in name.split("_"))


def type_name(c_name: str) -> str:
    """sinter_log_level is LogLevel."""
    return _TYPE_NAMES.get(c_name) or camel(c_name[len("sinter_") :])


def word_enums(abi: Abi) -> Iterator[Enum]:
    """The enumerations that have a type of their own, without experimental ones."""
    for enum in abi.enums:
        if enum.type.startswith("sinter_") and enum.type != "sinter_value" and not enum.type.startswith("sinter_x_"):
            yield enum


def sentence(doc: str) -> str:
    """A comment of the headers as a sentence; "" stays so."""
    if not doc:
        return ""
    begins_with_word = re.match(r"(a|[a-z]{2,})([ ,:-]|$)", doc)
    return (doc[0].upper() + doc[1:] if begins_with_word else doc) + ("" if doc.endswith(".") else ".")


def comment_lines(doc: str, mark: str, width: int) -> List[str]:
    """`doc` as lines that begin with `mark`."""
    return textwrap.wrap(
        doc, width, initial_indent=mark, subsequent_indent=mark, break_long_words=False, break_on_hyphens=False
    )


def filled(start: str, items: Sequence[str], end: str, width: int, indent: str = "") -> str:
    """start item, item, item end: in one line, or in lines of `width` with `indent`, by default below the first item."""
    indent = indent or " " * len(start)
    lines, line = [], start
    for i, item in enumerate(items):
        word = item + (end if i == len(items) - 1 else ",")
        if line.strip() and line != start and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = indent + word
        else:
            line += word if line in (start, indent) else " " + word
    return "\n".join(lines + [line])


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of a plain add: a "value", a "word", a "number", or a "list", which is two parameters in C."""

    form: str
    name: str
    type: str  # of the list's elements


@dataclasses.dataclass(frozen=True)
class PlainAdd:
    """An add with one result and without options, whose form in each language follows from its declaration."""

    function: Function
    arguments: List[Argument]

    @property
    def name(self) -> str:
        return self.function.name[len("sinter_chain_add_") :]

    @property
    def values(self) -> List[Argument]:
        return [argument for argument in self.arguments if argument.form == "value"]


def plain_adds(abi: Abi) -> Iterator[PlainAdd]:
    words = {enum.type for enum in word_enums(abi)}
    out = Pointer("sinter_value", False)
    for function in abi.functions:
        types = [parameter.type for parameter in function.parameters]
        if function.name.startswith("sinter_chain_add_") and types[-2:] == [out, Pointer(Pointer("sinter_error", False), False)]:
            arguments = _arguments(function, words)
            if arguments is not None:
                yield PlainAdd(function, arguments)


def _arguments(function: Function, words: "set[str]") -> "List[Argument] | None":
    given = list(function.parameters[1:-2])
    made: List[Argument] = []
    while given:
        first = given.pop(0)
        if first.type == "uint32_t" and given and _is_list(given[0].type):
            made.append(Argument("list", given[0].name, given.pop(0).type.target))
        elif first.type == "sinter_value":
            made.append(Argument("value", first.name, first.type))
        elif first.type in words:
            made.append(Argument("word", first.name, first.type))
        elif first.type in ("double", "int32_t"):
            made.append(Argument("number", first.name, first.type))
        else:
            return None
    return made


def _is_list(kind: Type) -> bool:
    return isinstance(kind, Pointer) and kind.const and kind.target in ("int32_t", "int64_t")
