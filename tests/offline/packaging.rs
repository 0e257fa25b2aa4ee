//! Files of packages: pages and completions of this program, the lists in `Cargo.toml`, and the
//! text of `--version`.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml_edit::{DocumentMut, Item, Value};

const PROGRAM: &str = env!("CARGO_BIN_EXE_iotrace-perf");

/// Directory of files that scripts/release makes, as packages name it.
const GENERATED: &str = "target/release/package/";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

fn package_files() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let script = root().join("scripts/package-files");
    output(Command::new(script).arg(PROGRAM).arg(directory.path()));
    directory
}

/// Verbs in the groups of the help.
pub(crate) fn verbs() -> Vec<String> {
    let help = output(Command::new(PROGRAM).arg("--help"));
    let (groups, _) = help.split_once("Options of a recording").expect("the options come last");
    let indented = groups.lines().filter_map(|line| line.strip_prefix("  "));
    let names = indented.filter_map(|line| line.split(' ').next());
    let is_name =
        |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    names.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn each_verb_has_a_page_in_packages() {
    let files = package_files();
    let verbs = verbs();
    assert!(verbs.len() > 20 && verbs.contains(&"summary".to_owned()), "{verbs:?}");
    for verb in verbs.iter().filter(|verb| *verb != "iotrace-perf") {
        let page = files.path().join(format!("man/iotrace-perf-{verb}.1.gz"));
        let text = output(Command::new("gzip").arg("-dc").arg(&page));
        assert!(text.contains(".TH") && text.contains(verb), "{}", page.display());
    }
    assert!(files.path().join("man/iotrace-perf.1.gz").exists());
}

#[test]
fn bash_completes_a_verb_by_the_packaged_file() {
    let files = package_files();
    let file = files.path().join("completions/iotrace-perf.bash");
    let line = "source \"$0\"; COMP_WORDS=(iotrace-perf summ) COMP_CWORD=1; \
                _iotrace__perf iotrace-perf summ iotrace-perf; echo \"${COMPREPLY[@]}\"";
    assert_eq!(output(Command::new("bash").args(["-c", line]).arg(&file)).trim(), "summary");
}

#[test]
fn package_files_of_equal_programs_are_equal() {
    let (first, second) = (package_files(), package_files());
    let all = |folder: &Path| {
        let bytes = |file: PathBuf| (file.file_name().expect("a name").to_owned(), read(&file));
        let files = ["man", "completions"].map(|part| folder.join(part)).into_iter().flat_map(list);
        files.map(bytes).collect::<BTreeSet<_>>()
    };
    assert!(all(first.path()).len() > 20);
    assert_eq!(all(first.path()), all(second.path()));
}

fn list(folder: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(&folder).expect("a directory");
    entries.map(|entry| entry.expect("readable").path()).collect()
}

fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).expect("readable")
}

/// Sources of a package, with the last parts of the paths to which they are installed.
fn assets(tool: &str) -> Vec<(String, String)> {
    let manifest = String::from_utf8(read(&root().join("Cargo.toml"))).expect("text");
    let manifest: DocumentMut = manifest.parse().expect("TOML");
    let metadata = &manifest["package"]["metadata"][tool]["assets"];
    let rows = metadata.as_array().expect("a list").iter();
    let text = |value: Option<&Value>| value.and_then(Value::as_str).expect("text").to_owned();
    let row = |row: &Value| match row {
        Value::Array(row) => (text(row.get(0)), text(row.get(1))),
        Value::InlineTable(row) => (text(row.get("source")), text(row.get("dest"))),
        other => panic!("{other}"),
    };
    rows.map(row).collect()
}

#[test]
fn both_packages_list_the_same_files_and_all_exist() {
    let sources =
        |tool| assets(tool).into_iter().map(|(source, _)| source).collect::<BTreeSet<String>>();
    assert_eq!(sources("deb"), sources("generate-rpm"));
    for source in sources("deb") {
        let is_there = root().join(&source).is_file();
        assert!(is_there || source.starts_with(GENERATED), "{source}");
    }
}

#[test]
fn package_of_debian_keeps_settings_of_the_machine() {
    let manifest = String::from_utf8(read(&root().join("Cargo.toml"))).expect("text");
    let manifest: DocumentMut = manifest.parse().expect("TOML");
    let files = &manifest["package"]["metadata"]["deb"]["conf-files"];
    let kept: Vec<&str> =
        files.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let of_machine = assets("deb").into_iter().filter(|(_, place)| place.starts_with("etc/"));
    for (source, place) in of_machine {
        let name = source.rsplit('/').next().expect("a name");
        assert!(kept.contains(&format!("/{place}{name}").as_str()), "{place}: {kept:?}");
    }
    assert!(matches!(&manifest["profile"]["dist"]["inherits"], Item::Value(_)));
}

/// Runs a script of a package beside stand-ins of systemd's programs; returns the calls of these.
fn calls_of_systemd(script: &str, arguments: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("log");
    for name in ["systemctl", "deb-systemd-invoke"] {
        let text = format!("#!/bin/sh\necho {name} \"$*\" >>{}\n", log.display());
        let program = directory.path().join(name);
        std::fs::write(&program, text).expect("written");
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("executable");
    }
    let mut command = Command::new("/bin/sh");
    command.arg(root().join("contrib").join(script)).args(arguments);
    output(command.env("PATH", directory.path()));
    let calls = std::fs::read_to_string(&log).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

/// Fails if a removed package leaves the recorder enabled, or an upgrade disables it.
#[test]
fn removal_disables_the_recorder_and_an_upgrade_does_not() {
    let is_disabling = |call: &String| {
        call.contains(" disable ") && call.ends_with(" iotrace-perf-recorder.service")
    };
    for (script, removal, upgrade) in
        [("debian/prerm", "remove", "upgrade"), ("rpm/pre_uninstall.sh", "0", "1")]
    {
        assert!(calls_of_systemd(script, &[removal]).iter().any(is_disabling), "{script}");
        assert_eq!(calls_of_systemd(script, &[upgrade]), [""; 0], "{script}");
    }
}

/// Fails if scripts of packages do anything else than a restart where the recorder may run.
#[test]
fn installation_enables_nothing_and_an_upgrade_restarts_what_runs() {
    let runs_systemd = Path::new("/run/systemd/system").is_dir();
    for (script, first, upgrade) in [
        ("debian/postinst", &["configure"][..], &["configure", "0.1.0-1"][..]),
        ("rpm/post_uninstall.sh", &["0"], &["1"]),
    ] {
        let is_restarting = |call: &String| call.contains("try-restart iotrace-perf-recorder");
        let first = calls_of_systemd(script, first);
        let upgrade = calls_of_systemd(script, upgrade);
        assert!(!first.iter().any(is_restarting), "{script}: {first:?}");
        assert_eq!(upgrade.iter().any(is_restarting), runs_systemd, "{script}: {upgrade:?}");
        let all = first.iter().chain(&upgrade);
        let is_known = |call: &String| call.ends_with(" daemon-reload") || is_restarting(call);
        assert!(all.clone().all(is_known), "{script}: {first:?}, {upgrade:?}");
        assert_eq!(all.count() > 0, runs_systemd, "{script}");
    }
}

/// Fails if the unit of the flight recorder has options that the program refuses.
#[test]
fn options_of_the_flight_recorder_are_accepted() {
    let unit = root().join("contrib/systemd/iotrace-perf-recorder.service");
    let unit = String::from_utf8(read(&unit)).expect("text");
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key}")).trim_matches('"').to_owned()
    };
    let options = value("Environment=\"RECORDER_OPTIONS=");
    let line = value("ExecStart=iotrace-perf ")
        .replace("$RECORDER_OPTIONS", &options)
        .replace("$MAX_INCIDENTS", &value("Environment=MAX_INCIDENTS="));
    let mut command = Command::new(PROGRAM);
    let help = output(command.args(line.split_whitespace()).arg("--help"));
    assert!(help.contains("--trigger"), "{help}");
    let defaults = root().join("contrib/default/iotrace-perf-recorder");
    let defaults = String::from_utf8(read(&defaults)).expect("text");
    assert!(defaults.contains(&format!("#RECORDER_OPTIONS=\"{options}\"")), "{defaults}");
}

#[test]
fn version_is_a_line_or_names_the_build() {
    let short = output(Command::new(PROGRAM).arg("-V"));
    let long = output(Command::new(PROGRAM).arg("--version"));
    assert_eq!(short.lines().count(), 1, "{short}");
    assert_eq!(long.lines().next(), short.lines().next());
    for head in ["commit ", "build ", "formats ", "OTF2 "] {
        assert!(long.lines().any(|line| line.starts_with(head)), "{head}: {long}");
    }
}

/// Fails if `--version` ends with an error, or without a cause, where the library is missing.
#[test]
fn version_says_that_the_library_is_missing() {
    let mut command = Command::new(PROGRAM);
    let long = output(command.arg("--version").env("OTF2_DIR", "/nonexistent"));
    assert!(long.contains("no archives: cannot load the OTF2 library: "), "{long}");
}
