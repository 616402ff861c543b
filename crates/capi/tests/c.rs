//! Goal: a C program uses each function of the interface, gets an error for each wrong call, and leaks
//! nothing. Method: the example is compiled with the machine's C compiler against the static library and run,
//! plainly and under AddressSanitizer where there is one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The static library that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let is_it = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libbufpool_c") && name.ends_with(".a")
    };
    let folders = [folder, folder.parent().unwrap()];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let found = files.map(|entry| entry.unwrap().path()).filter(|path| is_it(path));
    found.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("the library was built")
}

fn compiler(flags: &[&str]) -> Command {
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]).args(flags);
    compiler
}

/// Compiles the example.
fn compile(program: &Path, flags: &[&str]) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = compiler(flags);
    compiler.arg("-I").arg(crate_folder.join("include")).arg(crate_folder.join("../../examples/c/example.c"));
    compiler.arg(library()).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(program);
    let output = compiler.output().expect("a C compiler, cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether the compiler can make programs with these flags.
fn is_known(flags: &[&str], folder: &Path) -> bool {
    let source = folder.join("empty.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let output = compiler(flags).arg(source).arg("-o").arg(folder.join("empty")).output();
    output.expect("a C compiler, cc").status.success()
}

fn run(program: &Path) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new(program).current_dir(folder.path()).output().unwrap();
    let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{:?}\n{}\n{}", output.status, told[0], told[1]);
    assert!(told[0].ends_with("all checks passed\n"), "{}", told[0]);
    // So it can be run again.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the program leaves files behind");
}

#[test]
fn a_c_program_uses_the_whole_interface() {
    let read =
        |path: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let (header, program) = (read("include/bufpool.h"), read("../../examples/c/example.c"));
    let is_called = |name: &str| program.contains(&format!("{name}("));
    let names: Vec<&str> = header
        .split('(')
        .filter_map(|before| before.rsplit(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next())
        .filter(|name| name.starts_with("bufpool_"))
        .collect();
    assert!(names.len() > 40, "{names:?}");
    let unused: Vec<_> = names.into_iter().filter(|name| !is_called(name)).collect();
    assert!(unused.is_empty(), "functions that the program does not call: {unused:?}");
}

#[test]
fn a_c_program_passes_its_own_checks() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("example");
    compile(&program, &[]);
    run(&program);
}

#[test]
fn a_c_program_leaks_nothing_and_touches_nothing_else() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("example");
    let flags = ["-fsanitize=address"];
    if is_known(&flags, folder.path()) {
        compile(&program, &flags);
        run(&program);
    } else {
        eprintln!("skipped: the C compiler has no AddressSanitizer");
    }
}
