//! Every declaration of this crate against the headers of the library in use.
//!
//! The Rust declarations are turned into C and compiled after `#include <otf2/otf2.h>`: C accepts a
//! second declaration of a function only if all types agree, and constants become static
//! assertions.

use std::fmt::Write as _;
use std::process::Command;
use std::{env, fs};

const FFI: &str = include_str!("../src/ffi.rs");
const CONSTANTS: &str = include_str!("../src/constants.rs");
const VALUES: &str = include_str!("../src/values.rs");

/// Removes comments, attributes and line breaks from the source.
fn flattened(source: &str) -> String {
    let code: Vec<&str> =
        source.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
    let text = code.join(" ").replace("pub(crate) ", "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(to));
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(to)).replace("const void * *", "void * const *");
    }
    match rust {
        "u8" => "uint8_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "usize" => "size_t",
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        same => same,
    }
    .into()
}

/// Converts `(a: A, b: B) -> R` to `RESULT name(TYPES);`.
fn prototype(name: &str, signature: &str) -> String {
    let (arguments, result) = signature.rsplit_once(')').expect("a signature");
    let arguments: Vec<String> = arguments
        .trim_start_matches('(')
        .split(',')
        .map(str::trim)
        .filter(|argument| !argument.is_empty())
        .map(|argument| c_type(argument.split_once(": ").expect("name: type").1))
        .collect();
    let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
    let result = result.trim().strip_prefix("-> ").map_or("void".into(), c_type);
    format!("{result} {name}({arguments});\n")
}

/// `name` and `signature` of each `fn` in the list of the library's functions and in the `extern`
/// block.
fn functions(flat: &str) -> Vec<(&str, &str)> {
    let blocks = flat.split_once(" library! { ").expect("the list of functions").1;
    blocks
        .split([';', '{'])
        .filter_map(|item| item.trim().strip_prefix("fn "))
        .map(|item| item.split_at(item.find('(').expect("a signature")))
        .collect()
}

/// `name` and `signature` of each callback type.
fn callbacks(flat: &str) -> Vec<(&str, &str)> {
    flat.split("type ")
        .skip(1)
        .filter_map(|item| {
            let (name, rest) = item.split_once(" = Option< unsafe extern \"C\" fn")?;
            Some((name, rest.split_once(">;")?.0.trim().trim_end_matches(',')))
        })
        .collect()
}

/// `name`, type and value of each constant.
fn constants(flat: &str) -> Vec<(&str, &str, &str)> {
    flat.split("const ")
        .skip(1)
        .map(|item| {
            let (name, rest) = item.split_once(": ").expect("a type");
            let (type_, rest) = rest.split_once(" = ").expect("a value");
            (name, type_, rest.split_once(';').expect("an end").0)
        })
        .collect()
}

/// `name` and type of each type alias that is an integer.
fn aliases(flat: &str) -> Vec<(&str, &str)> {
    flat.split("type ")
        .skip(1)
        .filter_map(|item| item.split_once(';')?.0.split_once(" = "))
        .filter(|(name, type_)| name.starts_with("OTF2_") && !type_.contains("fn"))
        .collect()
}

fn c_source() -> (String, [usize; 4]) {
    let (ffi, values) = (flattened(FFI), flattened(CONSTANTS));
    let mut c = String::from(
        "#define OTF2_IGNORE_ATTRIBUTE_DEPRECATED\n#include <otf2/otf2.h>\n\
         #include <stdarg.h>\n#include <stdbool.h>\n#include <stddef.h>\n#include <stdio.h>\n",
    );
    let all = functions(&ffi);
    for &(name, signature) in &all {
        let of_version_2 = format!("{name}_2");
        let _ = match name.strip_suffix("_2") {
            Some(name) => {
                writeln!(c, "#if OTF2_VERSION_MAJOR < 3\n{}#endif", prototype(name, signature))
            }
            None if all.iter().any(|other| other.0 == of_version_2) => {
                writeln!(c, "#if OTF2_VERSION_MAJOR >= 3\n{}#endif", prototype(name, signature))
            }
            None => writeln!(c, "{}", prototype(name, signature)),
        };
    }
    for (name, signature) in callbacks(&ffi) {
        let _ = writeln!(
            c,
            "{}{name} pointer_{name} = ours_{name};",
            prototype(&format!("ours_{name}"), signature)
        );
    }
    for (name, type_, value) in constants(&values) {
        let value = if value.starts_with("0x") { value.replace('_', "") } else { value.into() };
        let _ = writeln!(c, "_Static_assert((int64_t)({name}) == (int64_t)({value}), \"{name}\");");
        let type_ = c_type(type_);
        let _ = writeln!(c, "_Static_assert(({type_})({name}) == ({name}), \"type of {name}\");");
    }
    for (name, type_) in aliases(&ffi) {
        let type_ = c_type(type_);
        let _ = writeln!(
            c,
            "_Static_assert(sizeof({name}) == sizeof({type_}) && \
             (({name})-1 < 0) == (({type_})-1 < 0), \"{name}\");"
        );
    }
    c += LAYOUTS;
    let counts = [
        functions(&ffi).len(),
        callbacks(&ffi).len(),
        constants(&values).len(),
        aliases(&ffi).len(),
    ];
    (c, counts)
}

/// Structures and unions: two pointers each, and eight bytes with eight bytes of alignment, as in
/// the Rust declarations.
const LAYOUTS: &str = r#"
_Static_assert(sizeof(OTF2_FlushCallbacks) == 2 * sizeof(void *), "size");
_Static_assert(offsetof(OTF2_FlushCallbacks, otf2_pre_flush) == 0, "offset");
_Static_assert(offsetof(OTF2_FlushCallbacks, otf2_post_flush) == sizeof(void *), "offset");
_Static_assert(sizeof(OTF2_MemoryCallbacks) == 2 * sizeof(void *), "size");
_Static_assert(offsetof(OTF2_MemoryCallbacks, otf2_allocate) == 0, "offset");
_Static_assert(offsetof(OTF2_MemoryCallbacks, otf2_free_all) == sizeof(void *), "offset");
_Static_assert(sizeof(OTF2_AttributeValue) == 8 && sizeof(OTF2_MetricValue) == 8, "size");
_Static_assert(_Alignof(OTF2_AttributeValue) == _Alignof(uint64_t), "alignment");
_Static_assert(_Alignof(OTF2_MetricValue) == _Alignof(uint64_t), "alignment");
_Static_assert(sizeof(((OTF2_AttributeValue *)0)->uint32) == 4, "member");
_Static_assert(sizeof(((OTF2_AttributeValue *)0)->uint64) == 8, "member");
_Static_assert(sizeof(((OTF2_AttributeValue *)0)->int32) == 4, "member");
_Static_assert(sizeof(((OTF2_AttributeValue *)0)->int64) == 8, "member");
_Static_assert(sizeof(((OTF2_AttributeValue *)0)->float64) == sizeof(double), "member");
_Static_assert(sizeof(((OTF2_AttributeValue *)0)->stringRef) == 4, "member");
_Static_assert(sizeof(((OTF2_MetricValue *)0)->unsigned_int) == 8, "member");
"#;

/// Returns the compiler's options for the headers outside of the system's directories.
fn include_options() -> Vec<String> {
    if let Ok(prefix) = env::var("OTF2_DIR") {
        return vec![format!("-I{prefix}/include")];
    }
    let asked = Command::new("pkg-config").args(["--cflags-only-I", "otf2"]).output();
    let options = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    options.unwrap_or_default().split_whitespace().map(ToOwned::to_owned).collect()
}

/// True if the library's headers are installed. A run of CI fails without them.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn has_headers() -> bool {
    let has = compile("abi_headers", "#include <otf2/otf2.h>\n").is_ok();
    assert!(has || env::var_os("CI").is_none(), "the headers of OTF2 are not installed");
    if !has {
        eprintln!("skipped: the headers of OTF2 are not installed (libopen-trace-format2-dev)");
    }
    has
}

/// Compiles; the error is the compiler's messages.
fn compile(name: &str, source: &str) -> Result<(), String> {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{name}.{}.c", std::process::id()));
    fs::write(&file, source).expect("write the C file");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler)
        .args(["-fsyntax-only", "-std=c11", "-Werror=incompatible-pointer-types"])
        .args(include_options())
        .arg(&file)
        .output()
        .expect("run the C compiler");
    let _ = fs::remove_file(&file);
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn declarations_match_the_headers() {
    if !has_headers() {
        return;
    }
    let (source, [functions, callbacks, constants, aliases]) = c_source();
    // The parser above finds all items of the files: as many as a plain search.
    let count = |text: &str, word: &str| text.matches(word).count();
    assert_eq!(functions, count(FFI, "pub(crate) fn OTF2_") + count(FFI, "fn vsnprintf("));
    assert_eq!(callbacks, count(FFI, "Option<\n"));
    assert_eq!(constants, count(CONSTANTS, "pub(crate) const "));
    assert_eq!(aliases + callbacks + 1, count(FFI, "pub(crate) type "), "va_list is the one left");
    if let Err(complaints) = compile("abi", &source) {
        panic!("the library's headers differ:\n{complaints}");
    }
}

#[test]
fn a_wrong_declaration_is_found() {
    if !has_headers() {
        return;
    }
    let (source, _) = c_source();
    for (right, wrong) in [
        ("int64_t, OTF2_IoSeekOption", "uint64_t, OTF2_IoSeekOption"),
        ("(OTF2_IO_SEEK_HOLE) == (int64_t)(4)", "(OTF2_IO_SEEK_HOLE) == (int64_t)(5)"),
        ("OTF2_TimeStamp ours_OTF2_PostFlushCallback", "uint32_t ours_OTF2_PostFlushCallback"),
        ("sizeof(OTF2_Paradigm) == sizeof(uint8_t)", "sizeof(OTF2_Paradigm) == sizeof(uint32_t)"),
    ] {
        let mutated = source.replace(right, wrong);
        assert_ne!(mutated, source, "{right} is not in the C source");
        assert!(compile("abi_wrong", &mutated).is_err(), "{wrong} was accepted");
    }
}

/// Fails if in `values.rs` an `NAME = OTF2_…_NAME;` pairs names that do not belong together.
#[test]
fn named_values_are_those_of_c() {
    let mut rows = 0;
    for line in VALUES.lines().map(str::trim) {
        let Some((name, constant)) = line.strip_suffix(';').and_then(|row| row.split_once(" = "))
        else {
            continue;
        };
        if constant.starts_with("OTF2_") {
            assert!(constant.ends_with(&format!("_{name}")), "{line}");
            rows += 1;
        }
    }
    assert!(rows > 80, "{rows} rows");
}
