// Links libsinter.so: from SINTER_LIB_DIR, else from the linker's own folders.
fn main() {
    println!("cargo:rerun-if-env-changed=SINTER_LIB_DIR");
    if let Ok(dir) = std::env::var("SINTER_LIB_DIR") {
        println!("cargo:rustc-link-search=native={}", dir);
    }
}
