"""Rust: the declarations of sinter-sys, and of the safe crate the words and the adds without options."""

from __future__ import annotations

from typing import Iterator, List, Sequence

from header import FILES, Abi, Alias, Array, Callback, Declaration, Enum, Function, Opaque, Pointer, Struct, Type
from names import MADE_BY, Argument, PlainAdd, comment_lines, filled, plain_adds, sentence, type_name, word_enums

WIDTH = 120
_TYPES = {
    "void": "c_void", "char": "c_char", "double": "f64", "size_t": "usize", "uintptr_t": "usize", "uint8_t": "u8",
    "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64",
}  # fmt: skip
# Names of types that differ from those of the other languages, and types that the crate says by Option<bool>.
_WORD_TYPES = {"Comparison": "Compare", "Reduction": "Reduce"}
_NO_WORDS = ("Switch",)


def rust_type(kind: Type) -> str:
    if isinstance(kind, Pointer):
        return f"*{'const' if kind.const else 'mut'} {rust_type(kind.target)}"
    if isinstance(kind, Array):
        return f"[{rust_type(kind.element)}; {kind.count}]"
    if isinstance(kind, Callback):
        parameters = ", ".join(f"{each.name}: {rust_type(each.type)}" for each in kind.parameters)
        result = "" if kind.result == "void" else f" -> {rust_type(kind.result)}"
        return f'Option<unsafe extern "C" fn({parameters}){result}>'
    return _TYPES.get(kind, kind)


def word_type(c_name: str) -> str:
    return _WORD_TYPES.get(type_name(c_name), type_name(c_name))


def declarations(abi: Abi) -> str:
    """sinter.h and what it includes."""
    every = [each for name in FILES[:-1] for each in abi.by_file[name]]
    return "\n".join([f"//! {MADE_BY}", "use std::os::raw::{c_char, c_void}; // core::ffi has them since Rust 1.64 and 1.30", "", *_written(every)])


def experimental(abi: Abi) -> str:
    head = ["//! `sinter/sinter_experimental.h`: may change in any minor version of the library.", f"//! {MADE_BY}"]
    return "\n".join([*head, "use super::*;", "use std::os::raw::{c_char, c_void};", "", *_written(abi.by_file[FILES[-1]])])


def _written(every: Sequence[Declaration]) -> Iterator[str]:
    opaque = [each.name for each in every if isinstance(each, Opaque)]
    yield f"opaque! {{\n    {' '.join(opaque)}\n}}"
    for each in every:
        if isinstance(each, Alias):
            yield f"pub type {each.name} = {rust_type(each.type)};"
        elif isinstance(each, Enum) and each.type.startswith("sinter_") and each.type != "sinter_value":
            yield f"pub type {each.type} = i32;"
    yield "\nconstants! {"
    for each in every:
        if isinstance(each, Enum):
            items = [f"{constant.name} = {constant.value}" for constant in each.constants]
            yield filled(f"    {rust_type(each.type)}: ", items, ";", WIDTH, " " * 8)
    yield "}\nstructs! {"
    for each in every:
        if isinstance(each, Struct):
            fields = ",\n        ".join(f"{field.name}: {rust_type(field.type)}" for field in each.fields)
            yield f"    {'sized' if each.sized else 'plain'} {each.name} {{\n        {fields},\n    }}"
    yield "}\nfunctions! {"
    for each in every:
        if isinstance(each, Function):
            parameters = [f"{item.name}: {rust_type(item.type)}" for item in each.parameters] or [""]
            result = "" if each.result == "void" else f" -> {rust_type(each.result)}"
            yield filled(f"    {each.name}(", parameters, f"){result};", WIDTH, " " * 8)
    yield "}\n"


def words(abi: Abi) -> str:
    lines = [f"//! {MADE_BY}", "use crate::sys;", ""]
    for enum in word_enums(abi):
        if word_type(enum.type) in _NO_WORDS:
            continue
        lines += ["word! {", *comment_lines(enum.doc, "    /// ", WIDTH), f"    {word_type(enum.type)}:"]
        for name, constant in enum.words:
            lines += comment_lines(sentence(constant.doc), "    /// ", WIDTH)
            lines.append(f"    {name} = {constant.name},")
        lines.append("}")
    return "\n".join(lines) + "\n"


def adds(abi: Abi) -> str:
    """A method of the first operand, or of the builder if there is no operand."""
    every = list(plain_adds(abi))
    types = sorted({word_type(each.type) for add in every for each in add.arguments if each.form == "word"})
    lines = [f"//! {MADE_BY}", "use super::{ChainBuilder, Value};", f"use crate::{{sys, {', '.join(types)}}};", ""]
    for owner, chosen in (
        ("impl ChainBuilder", [add for add in every if not add.values]),
        ("/// Ops of the chain that the value belongs to; the first operand is `self`.\nimpl<'b> Value<'b>", [add for add in every if add.values]),
    ):
        lines.append(owner + " {")
        for i, add in enumerate(chosen):
            lines += ([""] if i else []) + _add(add)
        lines.append("}\n")
    return "\n".join(lines).rstrip("\n") + "\n"


def _add(add: PlainAdd) -> List[str]:
    operands = add.values
    receiver, made, run = ("self", "Value<'b>", "with") if operands else ("&self", "Value<'_>", "add")
    others = [each for each in add.arguments if each not in operands[:1]]
    parameters = [receiver] + [f"{each.name}: {_parameter(each)}" for each in others]
    given = [part for each in add.arguments for part in _passed(each, each in operands[:1])]
    values = ", ".join(f"Some({each.name})" for each in operands[1:])
    return [
        *comment_lines(add.function.doc, "    /// ", WIDTH),
        filled(f"    pub fn {add.name}(", parameters, f") -> {made} {{", WIDTH),
        "        // SAFETY: the handle is alive; lists are as long as they say.",
        f"        self.{run}(&[{values}], |chain, out, error| unsafe {{",
        filled(f"            sys::{add.function.name}(", ["chain", *given, "out", "error"], ")", WIDTH),
        "        })",
        "    }",
    ]


def _parameter(argument: Argument) -> str:
    if argument.form == "value":
        return "Value<'b>"
    if argument.form == "list":
        return f"&[{rust_type(argument.type)}]"
    return word_type(argument.type) if argument.form == "word" else rust_type(argument.type)


def _passed(argument: Argument, is_self: bool) -> List[str]:
    if argument.form == "value":
        return ["self.id" if is_self else f"{argument.name}.id"]
    if argument.form == "list":
        return [f"{argument.name}.len() as u32", f"{argument.name}.as_ptr()"]
    return [f"{argument.name}.0" if argument.form == "word" else argument.name]
