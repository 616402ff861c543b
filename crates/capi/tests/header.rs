//! Goal: the header is that of this library. Method: it is made anew and compared.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_current() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_folder.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    let builder = cbindgen::Builder::new().with_crate(crate_folder).with_config(config);
    builder.generate().unwrap().write(&mut made);
    let made = without_safety(&String::from_utf8(made).unwrap());
    let path = crate_folder.join("include/bufpool.h");
    if std::env::var_os("BUFPOOL_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "BUFPOOL_WRITE_HEADER=1 cargo test -p bufpool-capi --test header writes {path:?}");
}

/// The header without the sections `# Safety` of the functions. The head of the header says once for all
/// functions what callers answer for.
fn without_safety(header: &str) -> String {
    let mut is_left_out = false;
    let mut lines: Vec<&str> = Vec::new();
    for line in header.lines() {
        if line == "// # Safety" {
            is_left_out = true;
            lines.pop();
        }
        is_left_out &= line.starts_with("//");
        if !is_left_out {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}
