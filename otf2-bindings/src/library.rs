//! The OTF2 library of the machine, loaded when it is needed first.
//!
//! A program that writes no archive runs where no OTF2 library is installed. The search is that of
//! the dynamic loader, so the library is used that a program linked to it would use; `OTF2_DIR`
//! names the prefix of another one. A variable that is set but unusable is an error, never a reason
//! to search elsewhere. A static program has no dynamic loader: it says so instead of searching.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::error::{Error, Result};
use crate::ffi::Functions;

/// Names of the library without `lib` and suffix: upstream's, and Debian's.
const STEMS: [&str; 2] = ["otf2", "open-trace-format2"];

/// Ends of the library's file name, newest first: OTF2 3.0 to 3.2 have 10, earlier ones less.
const VERSIONS: [&str; 4] = [".so.10", ".so.9", ".so.8", ".so"];

/// Directories with libraries below a prefix, upstream's and Debian's.
const DIRECTORIES: [&str; 2] = ["lib64", "lib"];

/// Function that came with OTF2 3.0.
const SINCE_3: &str = "OTF2_EvtWriter_CommCreate";

/// Variable with the prefix of an installation.
const PREFIX: &str = "OTF2_DIR";

/// True for a program without a dynamic loader, which can load no library.
pub const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// Identity of the library in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryIdentity {
    /// File name or path that the loader found.
    pub name: String,
    /// First number of its version: 2 or 3.
    pub major: u32,
}

/// The library of this process.
#[derive(Debug)]
struct LoadedLibrary {
    identity: LibraryIdentity,
    functions: Functions,
    /// Keeps the library in memory.
    _library: Library,
}

/// Result of the search, which is made once.
static LIBRARY: OnceLock<Result<LoadedLibrary>> = OnceLock::new();

/// Loads the OTF2 library, once in a process.
///
/// # Errors
///
/// [`Error::NoLibrary`] with the names that were tried.
pub fn library() -> Result<&'static LibraryIdentity> {
    let result = LIBRARY.get_or_init(load).as_ref();
    result.map(|loaded| &loaded.identity).map_err(Clone::clone)
}

/// Returns the functions of the library.
///
/// # Panics
///
/// Without a library. An archive, which all calls begin with, is created only with one.
pub(crate) fn functions() -> &'static Functions {
    &loaded().functions
}

/// True for OTF2 2.x, whose definitions have less in them.
pub(crate) fn is_version_2() -> bool {
    loaded().identity.major == 2
}

fn loaded() -> &'static LoadedLibrary {
    match LIBRARY.get_or_init(load) {
        Ok(loaded) => loaded,
        Err(error) => panic!("a call of OTF2 without an archive: {error}"),
    }
}

fn load() -> Result<LoadedLibrary> {
    load_from(prefix().as_deref())
}

/// Returns the prefix that the user has named. A program with more rights than its user ignores it.
fn prefix() -> Option<PathBuf> {
    // SAFETY: the function takes a number and returns one.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let named = std::env::var_os(PREFIX).filter(|prefix| !prefix.is_empty() && !is_privileged);
    named.map(PathBuf::from)
}

/// Loads the first library of the candidates that has all functions.
///
/// With the static musl, `dlopen` is a function that always fails; with the static glibc it needs
/// the very glibc of the build on the machine.
fn load_from(prefix: Option<&Path>) -> Result<LoadedLibrary> {
    if IS_STATIC {
        return Err(Error::StaticProgram);
    }
    let mut failures = Vec::new();
    for name in candidates(prefix) {
        match open(&name) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => failures.push((name, text_of(&error))),
        }
    }
    // A file that exists and cannot be used is the cause; all others are missing.
    let unusable = failures.iter().find(|(_, error)| !error.contains("No such file"));
    let cause = unusable.map_or_else(
        || match prefix {
            Some(prefix) => format!("{PREFIX}={} has none in lib or lib64", prefix.display()),
            None => format!("no lib{}.so.10 or lib{}.so.10", STEMS[0], STEMS[1]),
        },
        |(_, error)| error.clone(),
    );
    Err(Error::NoLibrary(cause))
}

/// Returns the file names, or below a prefix the paths, of possible libraries.
fn candidates(prefix: Option<&Path>) -> Vec<String> {
    let names = VERSIONS
        .iter()
        .flat_map(|version| STEMS.iter().map(move |stem| format!("lib{stem}{version}")));
    let Some(prefix) = prefix else {
        // The loader's cache may lack what was just installed there.
        let local =
            |name: &String| ["/usr/local/lib", "/usr/local/lib64"].map(|at| format!("{at}/{name}"));
        let names: Vec<String> = names.collect();
        let locals: Vec<String> = names.iter().flat_map(local).collect();
        return [names, locals].concat();
    };
    let debian = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let places: Vec<PathBuf> =
        DIRECTORIES.iter().copied().chain([debian.as_str()]).map(|at| prefix.join(at)).collect();
    let paths = names.flat_map(|name| places.iter().map(move |at| at.join(&name)));
    paths.filter_map(|path| path.into_os_string().into_string().ok()).collect()
}

/// Returns the loader's text, which libloading has as the cause of its error.
fn text_of(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn open(name: &str) -> std::result::Result<LoadedLibrary, libloading::Error> {
    // SAFETY: a library of this name is OTF2, whose loading runs no code that depends on the state
    // of the process; it stays loaded until the process ends.
    let library = unsafe { Library::new(name) }?;
    let functions = Functions::of(&library)?;
    // SAFETY: the address is neither read nor called.
    let is_version_3 = unsafe { library.get::<*const ()>(SINCE_3.as_bytes()) }.is_ok();
    let identity =
        LibraryIdentity { name: name.to_owned(), major: if is_version_3 { 3 } else { 2 } };
    Ok(LoadedLibrary { identity, functions, _library: library })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{candidates, load_from};
    use crate::error::Error;

    #[test]
    fn missing_and_unusable_libraries_have_different_causes() {
        let dir = std::env::temp_dir().join(format!("otf2-library-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("lib")).expect("a directory");
        let cause = |prefix: &Path| match load_from(Some(prefix)) {
            Err(Error::NoLibrary(cause)) => cause,
            other => panic!("{other:?}"),
        };
        assert!(cause(&dir).ends_with("has none in lib or lib64"));
        std::fs::write(dir.join("lib/libotf2.so.10"), "no library").expect("a file");
        assert!(cause(&dir).contains("libotf2.so.10"), "{}", cause(&dir));
        std::fs::remove_dir_all(&dir).expect("the directory goes");
    }

    #[test]
    fn newest_library_of_the_loader_comes_first() {
        let all = candidates(None);
        assert_eq!(all.first().map(String::as_str), Some("libotf2.so.10"));
        let of = |name: &str| all.iter().position(|candidate| candidate == name);
        assert!(of("libopen-trace-format2.so.10") < of("libotf2.so.9"));
    }
}
