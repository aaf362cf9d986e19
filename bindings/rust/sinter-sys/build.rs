// Says where libsinter.so lies: SINTER_LIB_DIR, else what pkg-config says of sinter.pc, else the linker's own folders.
// Crates that depend on this one read the folder as DEP_SINTER_LIBDIR, say for an rpath. A library that is missing is a
// warning here and an error of the linker, so `cargo check` and the documentation need none.
use std::path::Path;
use std::process::Command;

/// Folders that pkg-config names: none if the linker's own hold the library. The error says what pkg-config lacks.
fn pkg_config() -> Result<Vec<String>, String> {
    let tool = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&tool)
        .args(["--libs-only-L", "sinter"])
        .output()
        .map_err(|error| format!("{tool} does not run ({error})"))?;
    if !output.status.success() {
        let path = std::env::var("PKG_CONFIG_PATH").unwrap_or_else(|_| "not set".into());
        return Err(format!("{tool} finds no sinter.pc (PKG_CONFIG_PATH is {path})"));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.split_whitespace().filter_map(|word| word.strip_prefix("-L")).map(str::to_owned).collect())
}

/// Why the library is not in the folder that SINTER_LIB_DIR names; `None` where it is.
fn lacks(folder: &str) -> Option<String> {
    let holds = ["libsinter.so", "libsinter.a"].iter().any(|file| Path::new(folder).join(file).exists());
    (!holds).then(|| format!("SINTER_LIB_DIR is {folder}, which holds no libsinter.so"))
}

fn main() {
    for variable in ["SINTER_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    if std::env::var_os("DOCS_RS").is_some() {
        return;
    }
    let (folders, missing) = match std::env::var("SINTER_LIB_DIR") {
        Ok(folder) => (vec![folder.clone()], lacks(&folder)),
        Err(_) => match pkg_config() {
            Ok(folders) => (folders, None),
            Err(why) => (Vec::new(), Some(format!("SINTER_LIB_DIR is not set, and {why}"))),
        },
    };
    if let Some(why) = missing {
        println!("cargo:warning=libsinter.so was not found: {why}");
        println!("cargo:warning=set SINTER_LIB_DIR=PREFIX/lib or PKG_CONFIG_PATH=PREFIX/lib/pkgconfig of an installed Sinter");
    }
    for folder in &folders {
        println!("cargo:rustc-link-search=native={folder}");
    }
    if let Some(folder) = folders.first() {
        println!("cargo:libdir={folder}");
    }
}
