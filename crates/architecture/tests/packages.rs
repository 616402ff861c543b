//! Goal: what is published says what it is, and carries a README and the texts of its licences, which its
//! users would otherwise not get. Method: the manifests and folders of all crates that may be published.

use std::fs;
use std::path::Path;

/// The value of a key of `[package]` that is a text.
fn text_of(manifest: &str, key: &str) -> Option<String> {
    let package = manifest.split("\n[").next()?;
    let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
    Some(line.trim_matches('"').to_owned())
}

#[test]
fn packages_carry_a_readme_and_their_licences() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut published = Vec::new();
    for folder in fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        if text_of(&manifest, "publish").as_deref() == Some("false") {
            continue;
        }
        let name = text_of(&manifest, "name").unwrap();
        assert!(text_of(&manifest, "description").is_some(), "{name} has no description");
        assert!(manifest.contains("\nlicense.workspace = true\n"), "{name} has no licence");
        let readme = text_of(&manifest, "readme").unwrap_or_else(|| panic!("{name} has no readme"));
        assert!(folder.join(&readme).is_file(), "{name}: there is no {readme}");
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            // A link, so that there is one text.
            let packaged = fs::read(folder.join(licence)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(packaged, fs::read(root.join(licence)).unwrap(), "{licence} of {name}");
        }
        published.push(name);
    }
    published.sort_unstable();
    assert_eq!(published, ["bufpool", "bufpool-capi", "bufpool-policies", "bufpool-remote"]);
}
