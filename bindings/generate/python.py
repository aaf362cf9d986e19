"""Python: ctypes declarations with the words, the counters, and ops as functions."""

from __future__ import annotations

from typing import List

from header import Abi, Alias, Array, Callback, Opaque, Pointer, Struct, Type
from names import MADE_BY, camel, comment_lines, filled, plain_adds, sentence, type_name, word_enums

WIDTH = 120

_ABI_HEAD = f'''"""The C ABI of include/sinter as ctypes declarations. {MADE_BY}

The wheel carries the library that it was built with, so the experimental functions are those of the same commit.
"""

from __future__ import annotations

import ctypes
import enum
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Dict, Tuple
'''
_OPTIONS = '''
class _Sized(ctypes.Structure):
    """A struct that begins with its own size; the rest is zero, which means the defaults."""

    def __init__(self, **values: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(type(self)), **values)
'''
_STATS_HEAD = '''
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

from . import _abi
from ._library import call


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counters since the context was made; ``sinter_stats`` of sinter.h explains each."""
'''
_STATS_TAIL = '''

def read_stats(context: Any) -> Stats:
    """The counters of a C context."""
    stats = _abi.Stats()
    call("sinter_context_get_stats", context, ctypes.byref(stats))
    return Stats(**{field.name: getattr(stats, field.name) for field in dataclasses.fields(Stats)})
'''
# uintptr_t is what a callback gets back: an integer key of the caller's.
_TYPES = {"double": "c_double", "size_t": "c_size_t", "uintptr_t": "c_void_p"}
# Words that are classes, and those of which _dtype.py makes one.
_CLASSES = {"sinter_status": "Why a call failed. 1 to 16 are the codes of gRPC.", "sinter_log_level": "How much a context logs."}
_CONSTANTS = ("sinter_dtype",)
# What Python says by operators and methods of a value, gelu by an argument, and clamp by hand: its bounds may be left out.
_OPERATORS = ("NEG", "ABS", "NOT")
_OPERATORS_OF_TWO = ("ADD", "SUB", "MUL", "DIV", "POW", "AND", "OR", "MAX", "MIN")  # the last two: maximum and minimum, by hand
_METHODS = ("unary", "binary", "compare", "select", "cast", "broadcast", "transpose", "reshape", "activation", "clamp",
    "random")
_ACTIVATIONS = ("IDENTITY", "GELU_TANH", "GELU_ERF")
_PARAMETERS = {"sinter_value": "Value", "sinter_checkpoint": "str", "double": "float", "int32_t": "int"}
_PASSED = {
    "sinter_value": "b._own({0})", "sinter_checkpoint": 'named(_abi.CHECKPOINT, {0}, "{0}")', "double": 'number({0}, "{0}")',
    "int32_t": 'integer({0}, "{0}", -(2**31), 2**31 - 1)',
}  # fmt: skip


class _Writer:
    def __init__(self, abi: Abi) -> None:
        self.abi = abi
        self.structs = {struct.name for struct in abi.structs}

    def type(self, kind: Type) -> str:
        """A type as ctypes has it; handles are addresses."""
        if isinstance(kind, Array):
            return f"{self.type(kind.element)} * {_constant(kind.count)}"
        if isinstance(kind, Callback):
            return f"ctypes.CFUNCTYPE({', '.join(self.type(each) for each in (kind.result, *(p.type for p in kind.parameters)))})"
        if isinstance(kind, Pointer):
            if kind.target == "char":
                return "c_char_p"
            if kind.target == "void" or kind.target in self.abi.opaque:
                return "c_void_p"
            return f"POINTER({self.type(kind.target)})"
        if kind in self.structs or isinstance(self.abi.aliases.get(kind), Callback):
            return class_name(kind)
        if kind in self.abi.aliases:
            return self.type(self.abi.aliases[kind])
        if kind == "void":
            return "None"
        return _TYPES.get(kind) or ("c_int32" if kind.startswith("sinter_") else f"c_{kind[:-2]}")


def class_name(c_name: str) -> str:
    return camel(c_name[len("sinter_") :])


def _constant(name: str) -> str:
    return name[len("SINTER_") :] if name.startswith("SINTER_") else name


def declarations(abi: Abi) -> str:
    writer = _Writer(abi)
    lines = [_ABI_HEAD]
    words = [enum.type for enum in word_enums(abi)]
    for enum in abi.enums:
        if enum.type not in words or enum.type in _CONSTANTS:
            lines += [f"{_constant(each.name)} = {each.value}" for each in enum.constants]
    lines.append("")
    for enum in word_enums(abi):
        if enum.type not in _CLASSES and enum.type not in _CONSTANTS:
            items = [f'"{name.lower()}": {constant.value}' for name, constant in enum.words]
            lines.append(filled(f"{enum.type[len('sinter_') :].upper()}: Dict[str, int] = {{", items, "}", WIDTH, "    "))
    for enum in word_enums(abi):
        if enum.type in _CLASSES:
            lines += ["\n", f"class {type_name(enum.type)}(enum.IntEnum):", f'    """{_CLASSES[enum.type]}"""\n']
            lines += [f"    {name} = {constant.value}" for name, constant in enum.words if constant.value != 0]
    lines += ["", _OPTIONS]
    for each in (declaration for every in abi.by_file.values() for declaration in every):
        if isinstance(each, Alias) and isinstance(each.type, Callback):
            lines.append(f"\n{class_name(each.name)} = {writer.type(each.type)}\n")
        elif isinstance(each, Struct):
            fields = [f'        ("{field.name}", {writer.type(field.type)}),' for field in each.fields]
            base = "_Sized" if each.sized else "ctypes.Structure"
            lines += [f"\nclass {class_name(each.name)}({base}):", "    _fields_ = [", *fields, "    ]\n"]
    lines += ["\n# By their C names.", "STRUCTS: Dict[str, type] = {"]
    lines += [f'    "{each.name}": {class_name(each.name)},' for each in abi.structs]
    lines += ["}", "# Result and arguments of each function.", "PROTOTYPES: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {"]
    for function in abi.functions:
        arguments = [writer.type(each.type) for each in function.parameters] or [""]
        start = f'    "{function.name}": ({writer.type(function.result)}, ('
        lines.append(filled(start, arguments, ",))," if len(function.parameters) == 1 else ")),", WIDTH, " " * 8))
    return "\n".join([*lines, "}", ""])


def counters(abi: Abi) -> str:
    (stats,) = [struct for struct in abi.structs if struct.name == "sinter_stats"]
    fields = [f"    {each.name}: {'float' if each.type == 'double' else 'int'}" for each in stats.fields[1:]]
    return "\n".join([f'"""Counters of a context. {MADE_BY}"""', _STATS_HEAD, *fields, _STATS_TAIL])


def functions(abi: Abi) -> str:
    """Functions of one and of two operands, by their words, and the adds that Python has no syntax or method for."""
    binary = [(name, each) for name, each in abi.enum("sinter_binary").words if name not in _OPERATORS_OF_TWO]
    unary = [(name, each) for name, each in abi.enum("sinter_unary").words if name not in _OPERATORS]
    known = {name for name, _ in abi.enum("sinter_unary").words} | set(_ACTIVATIONS)
    activations = [(name, each) for name, each in abi.enum("sinter_activation").words if name not in known]
    adds = [add for add in plain_adds(abi) if add.values and add.name not in _METHODS]
    undescribed = [constant.name for _, constant in unary + binary + activations if not constant.doc]
    if undescribed:
        raise SyntaxError(f"{' '.join(undescribed)}: a comment must say what it computes, as the others' do")
    used = {argument.type for add in adds for argument in add.arguments}
    checks = [name for name, kind in (("integer", "int32_t"), ("named", "sinter_checkpoint"), ("number", "double")) if kind in used]
    names = [name.lower() for name, _ in unary + binary + activations] + [add.name for add in adds]
    lines: List[str] = [
        f'"""Ops as functions on values. {MADE_BY}"""\n',
        "from __future__ import annotations\n",
        *(["from . import _abi"] if "named" in checks else []),
        *([f"from ._argument import {', '.join(checks)}"] if checks else []),
        "from ._builder import Operand, Value, builder_of\n",
        *filled("__all__ = [", [f'"{name}"' for name in names], "]", WIDTH, "    ").splitlines(),
    ]
    for owner, chosen in (("_unary", unary), ("_activate", activations)):
        for name, constant in chosen:
            lines += [f"\n\ndef {name.lower()}(x: Value) -> Value:", f'    """{sentence(constant.doc)}"""']
            lines.append(f'    return builder_of(x).{owner}("{name.lower()}", x)')
    for name, constant in binary:
        lines += [f"\n\ndef {name.lower()}(a: Operand, b: Operand) -> Value:", f'    """{sentence(constant.doc)}"""']
        lines.append(f'    return builder_of(a if isinstance(a, Value) else b)._binary("{name.lower()}", a, b)')
    for add in adds:
        parameters = [f"{each.name}: {_PARAMETERS[each.type]}" for each in add.arguments]
        given = [_PASSED[each.type].format(each.name) for each in add.arguments]
        lines += [filled(f"\n\ndef {add.name}(", parameters, ") -> Value:", WIDTH)]
        lines += comment_lines(f'"""{add.function.doc}"""', "    ", WIDTH)
        lines.append(f"    b = builder_of({add.values[0].name})")
        lines.append(filled(f'    return b._add("{add.name}", ', given, ")", WIDTH))
    return "\n".join(lines) + "\n"
