//! The declarations are the headers': a C compiler compares sizes, alignments, offsets, constants and signatures, and
//! nothing that the headers declare is missing. Needs `cc`.
use sinter_sys::abi;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A type of Rust as C writes it: `*const *mut sinter_plan` is `sinter_plan* const*`.
fn in_c(rust: &str) -> String {
    let rust = rust.trim().trim_start_matches('*').trim();
    let named = match rust {
        "" | "()" => "void",
        "u8" => "uint8_t",
        "u32" => "uint32_t",
        "i32" => "int32_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "f64" => "double",
        "usize" => "size_t",
        "c_char" => "char",
        "c_void" => "void",
        other => other,
    };
    match rust.split_once(' ') {
        Some(("const", target)) => format!("{} const*", in_c(target)),
        Some(("mut", target)) => format!("{}*", in_c(target)),
        _ => named.to_owned(),
    }
}

fn assertions() -> String {
    let mut c = String::from("#include <stddef.h>\n#include \"sinter/sinter_experimental.h\"\n");
    for constant in abi::constants() {
        writeln!(c, "_Static_assert({0} == {1}, \"{0}\");", constant.name, constant.value).unwrap();
    }
    for layout in abi::structs() {
        let name = layout.name;
        writeln!(c, "_Static_assert(sizeof({name}) == {}, \"size of {name}\");", layout.size).unwrap();
        writeln!(c, "_Static_assert(_Alignof({name}) == {}, \"alignment of {name}\");", layout.align).unwrap();
        for field in &layout.fields {
            let (offset, size) = (field.offset, field.size);
            let field = field.name;
            writeln!(c, "_Static_assert(offsetof({name}, {field}) == {offset}, \"offset of {name}.{field}\");").unwrap();
            writeln!(c, "_Static_assert(sizeof((({name}*)0)->{field}) == {size}, \"size of {name}.{field}\");").unwrap();
        }
    }
    // C refuses a second declaration of a function with other types.
    for function in abi::functions() {
        let parameters: Vec<String> = function.parameters.iter().map(|p| in_c(p)).collect();
        let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
        writeln!(c, "{} {}({parameters});", in_c(function.result), function.name).unwrap();
    }
    c
}

fn compile(c: &str) -> Result<(), String> {
    let folder = std::env::var_os("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let file = folder.join(format!("sinter_abi_{}_{}.c", std::process::id(), c.len()));
    std::fs::write(&file, c).unwrap();
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let done = Command::new(cc)
        .args(["-std=c11", "-Werror", "-fsyntax-only", "-I"])
        .arg(root().join("include"))
        .arg(&file)
        .output()
        .expect("a C compiler");
    let _ = std::fs::remove_file(&file);
    if done.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_c_compiler_agrees_with_every_declaration() {
    compile(&assertions()).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn the_compiler_sees_a_wrong_offset_and_a_wrong_signature() {
    let c = assertions();
    let wrong = c.replacen("offsetof(sinter_stats, prepares) == 8", "offsetof(sinter_stats, prepares) == 16", 1);
    assert!(wrong != c && compile(&wrong).is_err());
    let wrong = c.replacen("void sinter_plan_release(", "int sinter_plan_release(", 1);
    assert!(wrong != c && compile(&wrong).is_err());
}

#[test]
fn every_exported_function_is_declared_and_linked() {
    let map = read("src/capi/sinter.map");
    let listed: BTreeSet<String> =
        map.lines().filter_map(|line| line.trim().strip_suffix(';')?.strip_prefix("sinter_")).map(|name| format!("sinter_{name}")).collect();
    let functions = abi::functions();
    let declared: BTreeSet<String> = functions.iter().map(|f| f.name.to_owned()).collect();
    assert_eq!(declared, listed);
    assert!(functions.iter().all(|f| !f.address.is_null()));
}

/// Names in `text` that begin with `prefix`, comments left out.
fn names(text: &str, prefix: &str) -> BTreeSet<String> {
    let code: String = text.split("/*").enumerate().map(|(i, part)| match part.split_once("*/") {
        Some((_, rest)) if i > 0 => rest,
        _ => part,
    }).collect();
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(prefix)).map(str::to_owned).collect()
}

#[test]
fn every_constant_and_struct_of_the_headers_is_declared() {
    let headers = ["sinter_types", "sinter_chain", "sinter_group", "sinter", "sinter_experimental"];
    let text: String = headers.iter().map(|name| read(&format!("include/sinter/{name}.h"))).collect();
    let not_values = ["SINTER_API", "SINTER_DEPRECATED", "SINTER_INIT"];
    let guards: Vec<String> = headers.iter().map(|name| format!("SINTER_{}_H_", name.to_uppercase())).collect();
    let declared: BTreeSet<String> = abi::constants().iter().map(|c| c.name.to_owned()).collect();
    let mut values = names(&text, "SINTER_");
    values.retain(|name| !not_values.contains(&name.as_str()) && !guards.contains(name));
    assert_eq!(declared, values);

    let declared: BTreeSet<String> = abi::structs().iter().map(|s| s.name.to_owned()).collect();
    let structs = text.lines().filter_map(|l| l.strip_prefix("typedef struct ")?.strip_suffix(" {").map(str::to_owned));
    assert_eq!(declared, structs.collect());
}

#[test]
fn a_default_struct_is_zero_and_knows_its_size() {
    let options = sinter_sys::sinter_prepare_options::default();
    assert_eq!(options.struct_size as usize, std::mem::size_of_val(&options));
    assert!(options.cancel.is_null() && options.progress.is_none() && options.deadline_us == 0);
}
