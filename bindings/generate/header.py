"""Reads the C headers of the ABI: the declarations of include/sinter/*.h as data.

No preprocessor and no compiler: the headers hold typedefs, anonymous enums, structs and SINTER_API functions, in the form
that they have, and anything else is an error that names it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Dict, Iterator, List, Optional, Tuple, Union

FILES = ("sinter_types.h", "sinter_chain.h", "sinter_group.h", "sinter.h", "sinter_experimental.h")
# The types of constants that are macros; uint32_t for all others.
MACRO_TYPES = {"SINTER_NO_VALUE": "sinter_value", "SINTER_MAX_RANK": "size_t", "SINTER_DIM_M": "int64_t"}


@dataclasses.dataclass(frozen=True)
class Pointer:
    """A pointer to `target`, which is `const` or not."""

    target: "Type"
    const: bool


@dataclasses.dataclass(frozen=True)
class Array:
    """`count` elements; a number, or the macro that is one."""

    element: "Type"
    count: str


@dataclasses.dataclass(frozen=True)
class Callback:
    """A pointer to a function, which may be NULL."""

    result: "Type"
    parameters: Tuple["Variable", ...]


# A word is the name of a type: int32_t, sinter_dtype, sinter_plan.
Type = Union[str, Pointer, Array, Callback]


@dataclasses.dataclass(frozen=True)
class Variable:
    """A parameter or a field."""

    name: str
    type: Type


@dataclasses.dataclass(frozen=True)
class Constant:
    name: str
    value: int
    doc: str = ""


@dataclasses.dataclass(frozen=True)
class Enum:
    """Constants that belong together. `type` is the typedef in front of them, uint32_t for flags."""

    type: str
    constants: Tuple[Constant, ...]
    doc: str = ""

    @property
    def words(self) -> List[Tuple[str, Constant]]:
        """Each constant with its name less what all have in front: NEG of SINTER_UNARY_NEG. SINTER_ERROR_ is of no name."""
        heads = [constant.name.replace("SINTER_ERROR_", "SINTER_").split("_")[:-1] for constant in self.constants]
        shared = next((i for i, parts in enumerate(zip(*heads)) if len(set(parts)) > 1), min(map(len, heads)))
        return [
            ("_".join(constant.name.replace("SINTER_ERROR_", "SINTER_").split("_")[shared:]), constant)
            for constant in self.constants
        ]


@dataclasses.dataclass(frozen=True)
class Struct:
    name: str
    fields: Tuple[Variable, ...]

    @property
    def sized(self) -> bool:
        """Whether it begins with its own size."""
        return self.fields[0].name == "struct_size"


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    parameters: Tuple[Variable, ...]
    result: Type
    doc: str = ""


@dataclasses.dataclass(frozen=True)
class Alias:
    """A `typedef` that is neither the type of an enum nor a struct."""

    name: str
    type: Type


@dataclasses.dataclass(frozen=True)
class Opaque:
    """A struct of which users see only pointers."""

    name: str


Declaration = Union[Enum, Struct, Function, Alias, Opaque]


class Abi:
    """All declarations, each list in the headers' order."""

    def __init__(self, folder: str) -> None:
        self.by_file: Dict[str, List[Declaration]] = {}
        for name in FILES:
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                self.by_file[name] = list(declarations(name, file.read()))
        every = [each for name in FILES for each in self.by_file[name]]
        self.enums = [each for each in every if isinstance(each, Enum)]
        self.structs = [each for each in every if isinstance(each, Struct)]
        self.functions = [each for each in every if isinstance(each, Function)]
        self.opaque = {each.name for each in every if isinstance(each, Opaque)}
        self.aliases = {each.name: each.type for each in every if isinstance(each, Alias)}

    def enum(self, type_name: str) -> Enum:
        return next(each for each in self.enums if each.type == type_name)


def statements(text: str) -> Iterator[Tuple[str, str]]:
    """Each macro and each declaration up to its `;`, with the comment that stands right above it."""
    text = re.sub(r'#(ifdef __cplusplus|if defined).*?#endif|extern "C" \{|\\\n.*', "", text, flags=re.S)
    text = "\n".join(line for line in text.splitlines() if not re.match(r"#(?!define \w+ )", line))
    doc, at = "", 0
    while True:
        space = re.compile(r"\s*").match(text, at)
        at = space.end()
        if at == len(text):
            return
        if space[0].count("\n") > 1:
            doc = ""
        if text.startswith("/*", at):
            end = text.index("*/", at) + 2
            doc = comment(text[at:end])
            at = end
            continue
        end = text.find("\n", at) if text[at] == "#" else end_of_declaration(text, at)
        yield doc, text[at:end]
        doc, at = "", end


def end_of_declaration(text: str, at: int) -> int:
    """The place after the first `;` that is not in braces or a comment."""
    depth = 0
    for token in re.compile(r"/\*.*?\*/|[{};]", re.S).finditer(text, at):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if token[0] == ";" and depth == 0:
            return token.end()
    raise SyntaxError(f"no end: {text[at:at + 60]!r}")


def comment(text: str) -> str:
    """The words of a comment; "" for a line of dashes, which begins a chapter."""
    words = " ".join(line.strip().lstrip("*").strip() for line in text[2:-2].splitlines()).strip()
    return "" if words.startswith("-----") else words


def declarations(file: str, text: str) -> Iterator[Declaration]:
    kind: Optional[Tuple[str, str]] = None  # a typedef of int32_t that may be the type of the following enum
    for doc, statement in statements(text):
        bare = " ".join(re.sub(r"/\*.*?\*/", " ", statement, flags=re.S).split())
        if bare.startswith("enum {") and kind:
            yield Enum(kind[0], constants(statement), kind[1])
        elif kind:
            yield Alias(kind[0], "int32_t")
        if bare.startswith("enum {") and not kind:
            yield Enum("uint32_t", constants(statement), doc)
        kind = None
        if bare.startswith("enum {"):
            continue
        if match := re.fullmatch(r"#define (SINTER_\w+) \(?(-?\d+)u?\)?", bare):
            yield Enum(MACRO_TYPES.get(match[1], "uint32_t"), (Constant(match[1], int(match[2]), doc),))
        elif re.fullmatch(r"#define (SINTER_(API|DEPRECATED|INIT\(type\))|\w+_H_)( .*)?", bare):
            pass
        elif match := re.fullmatch(r"typedef int32_t (\w+);", bare):
            kind = (match[1], doc)
        elif match := re.fullmatch(r"typedef struct (\w+) \1;", bare):
            yield Opaque(match[1])
        elif match := re.fullmatch(r"typedef struct (\w+)\* (\w+);", bare):
            yield Opaque(match[1])
            yield Alias(match[2], Pointer(match[1], False))
        elif match := re.fullmatch(r"typedef struct (\w+) \{(.*)\} \1;", bare):
            yield Struct(match[1], tuple(fields(match[2])))
        elif match := re.fullmatch(r"typedef (.*);", bare):
            (made,) = variables(match[1])
            yield Alias(made.name, made.type)
        elif match := re.fullmatch(r"SINTER_API (.*?)(\w+)\((.*)\);", bare):
            yield Function(match[2], parameters(match[3]), plain_type(match[1]), doc)
        else:
            raise SyntaxError(f"{file}: not understood: {bare[:120]}")
    if kind:
        yield Alias(kind[0], "int32_t")


def constants(statement: str) -> Tuple[Constant, ...]:
    """A comment belongs to the constant in front of it on its line, else to the next."""
    made: List[Constant] = []
    above, value, on_its_line = "", -1, False
    body = statement[statement.index("{") + 1 : statement.rindex("}")]
    for token in re.finditer(r"(?P<name>SINTER_\w+)(?:\s*=\s*(?P<value>-?\d+))?|/\*.*?\*/|\n", body, re.S):
        if token["name"]:
            value = int(token["value"]) if token["value"] else value + 1
            made.append(Constant(token["name"], value, above))
            above, on_its_line = "", True
        elif token[0] == "\n":
            on_its_line = False
        elif on_its_line:
            made[-1] = dataclasses.replace(made[-1], doc=comment(token[0]))
        else:
            above = comment(token[0])
    return tuple(made)


def fields(body: str) -> Iterator[Variable]:
    for line in body.split(";"):
        if line.strip():
            yield from variables(line.strip())


def parameters(text: str) -> Tuple[Variable, ...]:
    """An array is passed as a pointer."""
    if text == "void":
        return ()
    made = [variables(each)[0] for each in re.split(r",\s*(?![^(]*\))", text)]
    return tuple(
        Variable(each.name, Pointer(each.type.element, False)) if isinstance(each.type, Array) else each for each in made
    )


def variables(text: str) -> List[Variable]:
    """`const char* name`, `double eps, upper_bound`, `uint8_t a[32], b[32]`, `void (*name)(int32_t x)`."""
    if match := re.fullmatch(r"(.*?)\s*\(\*(\w+)\)\((.*)\)", text):
        return [Variable(match[2], Callback(plain_type(match[1]), parameters(match[3])))]
    match = re.fullmatch(r"(.*?[\s*])(\w+(?:\[\w+\])?(?:, \w+(?:\[\w+\])?)*)", text)
    if not match:
        raise SyntaxError(f"not understood: {text}")
    made = []
    for name in match[2].split(", "):
        name, _, count = name.rstrip("]").partition("[")
        made.append(Variable(name, Array(plain_type(match[1]), count) if count else plain_type(match[1])))
    return made


def plain_type(text: str) -> Type:
    """`const char* const*`: from the inside out."""
    words = text.replace("*", " * ").split()
    const = words[0] == "const"
    made: Type = words[1 if const else 0]
    for word in words[2 if const else 1 :]:
        if word == "*":
            made, const = Pointer(made, const), False
        elif word == "const":
            const = True
        else:
            raise SyntaxError(f"not understood: {text}")
    return made
