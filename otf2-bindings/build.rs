//! Search for the OTF2 library: `$OTF2_DIR`, then `$OTF2_CONFIG` or `otf2-config`, then `pkg-config
//! otf2`.
//!
//! A variable that is set but unusable is an error, never a reason to search elsewhere. Nothing is
//! downloaded. Environment:
//!
//! * `OTF2_DIR`: a prefix with `include/otf2` and `lib` (as `scripts/install-otf2` makes it)
//! * `OTF2_CONFIG`: the `otf2-config` program to run
//! * `OTF2_STATIC`: `1` links the static library, `0` the shared one. Unset: static if there is one
//!   outside of the system's directories, where the tracer under `sudo` would not find the shared
//!   one (`sudo` drops `LD_LIBRARY_PATH`)
//!
//! For the build scripts of packages that depend on this one:
//!
//! * `DEP_OTF2_LIBDIR`: the directory of the library
//! * `DEP_OTF2_RPATH`: that directory, set only if the program needs it as an rpath
//! * `DEP_OTF2_VERSION`: `3.0`
//! * `DEP_OTF2_LINKAGE`: `static` or `shared`
//! * `DEP_OTF2_INCLUDE`: the directory with `otf2/otf2.h`

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const HEADER: &str = "otf2/OTF2_GeneralDefinitions.h";
/// I/O records came with 2.1; 2.3 is the oldest version whose headers were compared.
const OLDEST: (u32, u32) = (2, 3);
/// The newest version that was tested.
const NEWEST_TESTED: (u32, u32) = (3, 2);
/// Names of the library: upstream's, and Debian's.
const NAMES: [&str; 2] = ["otf2", "open-trace-format2"];

struct Found {
    version: (u32, u32),
    include: PathBuf,
    libdir: PathBuf,
    /// Name without `lib` and extension.
    name: String,
    /// Source of this result, for messages.
    source: String,
}

fn main() {
    for variable in ["OTF2_DIR", "OTF2_CONFIG", "OTF2_STATIC", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rustc-check-cfg=cfg(otf2_3)");
    match find().and_then(|found| announce(&found)) {
        Ok(()) => {}
        Err(reason) => panic!("\n\n{reason}\n"),
    }
}

fn find() -> Result<Found, String> {
    if let Some(prefix) = variable("OTF2_DIR") {
        return from_prefix(Path::new(&prefix)).map_err(|why| format!("OTF2_DIR={prefix}: {why}"));
    }
    if let Some(program) = variable("OTF2_CONFIG") {
        return from_otf2_config(&program).map_err(|why| format!("OTF2_CONFIG={program}: {why}"));
    }
    let mut tried = Vec::new();
    match from_otf2_config("otf2-config") {
        Ok(found) => return Ok(found),
        Err(why) => tried.push(format!("otf2-config: {why}")),
    }
    match from_pkg_config() {
        Ok(found) => return Ok(found),
        Err(why) => tried.push(format!("pkg-config otf2: {why}")),
    }
    Err(format!(
        "The OTF2 library was not found.\n  {}\n\n\
         Install it:\n  \
         Debian, Ubuntu:  apt install libopen-trace-format2-dev\n  \
         Fedora:          dnf install otf2-devel\n  \
         Spack:           spack install otf2 && spack load otf2\n  \
         anywhere:        scripts/install-otf2 PREFIX   (builds it with cc)\n\
         or set OTF2_DIR to the prefix of an installation.",
        tried.join("\n  ")
    ))
}

/// Value of a variable; an empty one counts as unset.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn from_prefix(prefix: &Path) -> Result<Found, String> {
    let include = prefix.join("include");
    let version = header_version(&include)?;
    let multiarch = env::var("TARGET").unwrap_or_default().replace("-unknown-", "-");
    let directories: Vec<PathBuf> =
        ["lib64", "lib", &format!("lib/{multiarch}")].iter().map(|dir| prefix.join(dir)).collect();
    for libdir in &directories {
        if let Some(name) =
            NAMES.iter().find(|name| has(libdir, name, "so") || has(libdir, name, "a"))
        {
            return Ok(Found {
                version,
                include,
                libdir: libdir.clone(),
                name: (*name).into(),
                source: format!("OTF2_DIR={}", prefix.display()),
            });
        }
    }
    Err(format!(
        "no libotf2.so, libotf2.a, libopen-trace-format2.so or libopen-trace-format2.a in {}",
        directories.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
    ))
}

fn from_otf2_config(program: &str) -> Result<Found, String> {
    let version = parse_version(&run(program, &["--version"])?)?;
    let compile = run(program, &["--cppflags"])?;
    let link = format!("{} {}", run(program, &["--ldflags"])?, run(program, &["--libs"])?);
    from_flags(version, &compile, &link, program.into())
}

fn from_pkg_config() -> Result<Found, String> {
    let program = variable("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let version = parse_version(&run(&program, &["--modversion", "otf2"])?)?;
    let compile = run(&program, &["--cflags-only-I", "otf2"])?;
    let link = run(&program, &["--libs", "otf2"])?;
    from_flags(version, &compile, &link, format!("{program} otf2"))
}

/// Parses `-I`, `-L` and `-l`; a missing one means the system's directories.
fn from_flags(
    version: (u32, u32),
    compile: &str,
    link: &str,
    source: String,
) -> Result<Found, String> {
    let words = |text: &str, flag: &str| -> Vec<String> {
        text.split_whitespace().filter_map(|word| word.strip_prefix(flag)).map(Into::into).collect()
    };
    let mut includes: Vec<PathBuf> = words(compile, "-I").into_iter().map(Into::into).collect();
    includes.extend(["/usr/include".into(), "/usr/local/include".into()]);
    let include = includes
        .into_iter()
        .find(|dir| dir.join(HEADER).exists())
        .ok_or_else(|| format!("{source} knows OTF2, but {HEADER} is not where it says"))?;
    let name = words(link, "-l")
        .into_iter()
        .find(|name| NAMES.contains(&name.as_str()))
        .ok_or_else(|| format!("{source} names no OTF2 library in `{link}`"))?;
    let mut libdirs: Vec<PathBuf> = words(link, "-L").into_iter().map(Into::into).collect();
    libdirs.extend(system_libdirs());
    let libdir = libdirs
        .into_iter()
        .find(|dir| has(dir, &name, "so") || has(dir, &name, "a"))
        .ok_or_else(|| format!("{source} names lib{name}, but it is not in `{link}`"))?;
    Ok(Found { version, include, libdir, name, source })
}

fn system_libdirs() -> Vec<PathBuf> {
    let multiarch = env::var("TARGET").unwrap_or_default().replace("-unknown-", "-");
    [format!("/usr/lib/{multiarch}"), "/usr/lib64".into(), "/usr/lib".into()]
        .into_iter()
        .chain(["/usr/local/lib64".into(), "/usr/local/lib".into()])
        .map(PathBuf::from)
        .collect()
}

fn has(libdir: &Path, name: &str, extension: &str) -> bool {
    libdir.join(format!("lib{name}.{extension}")).exists()
}

fn header_version(include: &Path) -> Result<(u32, u32), String> {
    let header = include.join(HEADER);
    println!("cargo::rerun-if-changed={}", header.display());
    let text = fs::read_to_string(&header)
        .map_err(|error| format!("cannot read {}: {error}", header.display()))?;
    let number = |name: &str| {
        text.lines()
            .filter_map(|line| line.trim().strip_prefix("#define ")?.trim().strip_prefix(name))
            .find_map(|rest| rest.trim().parse::<u32>().ok())
            .ok_or_else(|| format!("{} does not define {name}", header.display()))
    };
    Ok((number("OTF2_VERSION_MAJOR")?, number("OTF2_VERSION_MINOR")?))
}

/// Parses `3.0.2` or `otf2-config: version 3.0.2`.
fn parse_version(text: &str) -> Result<(u32, u32), String> {
    let last = text.split_whitespace().last().unwrap_or_default();
    let mut numbers = last.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    });
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => Ok((major, minor)),
        _ => Err(format!("`{text}` is not a version")),
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let command = format!("`{program} {}`", arguments.join(" "));
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            "not installed".to_owned()
        } else {
            format!("cannot run {command}: {error}")
        }
    })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "{command} failed: {}",
            message.lines().next().unwrap_or("no message")
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// True if the static library is to be linked.
fn is_static(found: &Found) -> Result<bool, String> {
    let there = has(&found.libdir, &found.name, "a");
    let place = format!("lib{}.a in {}", found.name, found.libdir.display());
    match variable("OTF2_STATIC").as_deref() {
        Some("1") if !there => Err(format!("OTF2_STATIC=1, but there is no {place}")),
        Some("1") => Ok(true),
        Some("0") if !has(&found.libdir, &found.name, "so") => {
            Err(format!("OTF2_STATIC=0, but there is only {place}"))
        }
        Some("0") => Ok(false),
        Some(other) => Err(format!("OTF2_STATIC={other}: must be 0, 1 or unset")),
        None if !has(&found.libdir, &found.name, "so") => Ok(true),
        None => Ok(there && !is_system(&found.libdir)),
    }
}

/// True if the loader searches this directory by default.
fn is_system(libdir: &Path) -> bool {
    let real = fs::canonicalize(libdir).unwrap_or_else(|_| libdir.into());
    ["/usr/lib", "/usr/lib64", "/lib", "/lib64"].iter().any(|dir| real.starts_with(dir))
}

/// Passes the result to cargo.
fn announce(found: &Found) -> Result<(), String> {
    let Found { version, include, libdir, name, source } = found;
    let (major, minor) = *version;
    if *version < OLDEST {
        return Err(format!(
            "OTF2 {major}.{minor} ({source}) is too old: {}.{} or newer is needed",
            OLDEST.0, OLDEST.1
        ));
    }
    if major > NEWEST_TESTED.0 {
        return Err(format!("OTF2 {major}.{minor} ({source}) is too new: 3.x is needed"));
    }
    if *version > NEWEST_TESTED {
        println!("cargo::warning=OTF2 {major}.{minor} is newer than the newest that was tested");
    }
    if major >= 3 {
        println!("cargo::rustc-cfg=otf2_3");
    }
    let library = libdir.display();
    let (kind, linkage) =
        if is_static(found)? { ("static", "static") } else { ("dylib", "shared") };
    println!("cargo::rustc-link-search=native={library}");
    println!("cargo::rustc-link-lib={kind}={name}");
    if linkage == "shared" && !is_system(libdir) {
        println!("cargo::metadata=rpath={library}");
        // For the tests and examples of this package.
        println!("cargo::rustc-link-arg=-Wl,-rpath,{library}");
    }
    println!("cargo::metadata=libdir={library}");
    println!("cargo::metadata=version={major}.{minor}");
    println!("cargo::metadata=linkage={linkage}");
    println!("cargo::metadata=include={}", include.display());
    println!("cargo::rustc-env=OTF2_SYS_INCLUDE={}", include.display());
    println!("cargo::rustc-env=OTF2_SYS_FOUND=OTF2 {major}.{minor}, {linkage}, {source}");
    println!("cargo::rerun-if-changed={}", include.join(HEADER).display());
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
