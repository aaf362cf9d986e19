// Says where libsinter.so lies: SINTER_LIB_DIR, else what pkg-config says of sinter.pc, else the linker's own folders.
// Crates that depend on this one read the folder as DEP_SINTER_LIBDIR, say for an rpath. A library that is missing is an
// error of the linker, so `cargo check` and the documentation need none.
use std::process::Command;

/// Folders that pkg-config names, none without it or without sinter.pc.
fn pkg_config() -> Vec<String> {
    let tool = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let asked = Command::new(tool).args(["--libs-only-L", "sinter"]).output();
    let output = match asked {
        Ok(output) if output.status.success() => output,
        _ => return Vec::new(),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().filter_map(|word| word.strip_prefix("-L")).map(str::to_owned).collect()
}

fn main() {
    for variable in ["SINTER_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if std::env::var_os("DOCS_RS").is_some() {
        return;
    }
    let folders = match std::env::var("SINTER_LIB_DIR") {
        Ok(folder) => vec![folder],
        Err(_) => pkg_config(),
    };
    for folder in &folders {
        println!("cargo:rustc-link-search=native={folder}");
    }
    if let Some(folder) = folders.first() {
        println!("cargo:libdir={folder}");
    }
}
