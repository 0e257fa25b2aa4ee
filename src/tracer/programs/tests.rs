use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::*;
use crate::sys::cancellation::testing::{ended_by, endless};

/// Runs the helper, if a test starts this program as one.
#[test]
#[ignore = "run by a_script_is_read_once_more_than_its_interpreter"]
fn helper() {
    super::helper_main::answer().expect("there is a question");
}

fn read(paths: &[&Path], cancellation: &mut Cancellation<'_>) -> HeaderCache {
    let mut files = HeaderCache::new();
    files.read_with_next(paths.iter().map(|it| (*it).to_owned()).collect(), cancellation);
    files
}

#[test]
fn a_script_is_read_once_more_than_its_interpreter() {
    let dir = tempfile::tempdir().expect("a directory");
    let (script, private) = (dir.path().join("script"), dir.path().join("private"));
    std::fs::write(&script, "#! /bin/sh -e\n").expect("write it");
    // A file that only its owner may read is opened before the helper gives up its privileges.
    std::fs::copy("/bin/sh", &private).expect("write it");
    std::fs::set_permissions(&private, PermissionsExt::from_mode(0o700))
        .expect("the test owns the file");
    let shell = Path::new("/bin/sh");
    let files = read(&[&script, shell, &private], endless());
    let (_, of_script) = files.reads_of(&script).expect("it is there");
    let (_, of_shell) = files.reads_of(shell).expect("it is there");
    assert_eq!(of_script.first(), Some(&14));
    assert_eq!(of_script.get(1..), Some(of_shell.as_slice()));
    assert_eq!((of_shell.len(), of_shell.first()), (5, Some(&256)));
    assert_eq!(files.reads_of(&private).expect("it is there").1, of_shell);
}

#[test]
fn non_program_is_not_described() {
    let dir = tempfile::tempdir().expect("a directory");
    for (number, text) in ["", "text", "#!", "#!sh\n", "\x7fELF\x02\x01"].iter().enumerate() {
        std::fs::write(dir.path().join(number.to_string()), text).expect("write it");
    }
    let others: Vec<PathBuf> = (0..5).map(|it| dir.path().join(it.to_string())).collect();
    let [fifo, gone, script] = ["fifo", "gone", "script"].map(|it| dir.path().join(it));
    let made = Command::new("mkfifo").arg(&fifo).status().expect("it runs");
    assert!(made.success());
    std::fs::write(&script, format!("#!{}\n", fifo.display())).expect("write it");
    let mut paths: Vec<&Path> = others.iter().map(PathBuf::as_path).collect();
    paths.extend([&*fifo, dir.path(), &*gone, &*script]);
    let files = read(&paths, endless());
    for path in others.iter().chain([&gone]) {
        assert_eq!(files.reads_of(path), Err(None), "{path:?}");
    }
    let why = "it is not a regular file, or is in a file system of the kernel";
    for path in [&*fifo, dir.path()] {
        assert_eq!(files.reads_of(path), Err(Some(why.to_owned())), "{path:?}");
    }
    let of_script = format!("its {}: {why}", fifo.display());
    assert_eq!(files.reads_of(&script), Err(Some(of_script)));
}

/// Fails if a signal leaves files out silently.
#[test]
fn files_skipped_for_a_signal_are_reported() {
    let mut seen = SeenPrograms::default();
    seen.paths.extend(["/bin/sh", "/bin/cat"].map(PathBuf::from));
    let (facts, unread) = seen.describe(ended_by(libc::SIGTERM));
    assert!(facts.is_empty(), "{facts:?}");
    assert_eq!((unread.programs, unread.first.len()), (2, 2));
    assert_eq!(unread.first.first().map(|it| it.reason.as_str()), Some("a signal came"));
}

#[test]
fn question_and_answer_are_understood() {
    let paths: Vec<PathBuf> = ["/a", "/b c", "/d"].map(PathBuf::from).into();
    let bytes = HeadersQuestion { paths: paths.clone() }.encode();
    assert_eq!(HeadersQuestion::decode(&bytes[..bytes.len() - 1]), None);
    assert_eq!(HeadersQuestion::decode(&bytes), Some(HeadersQuestion { paths }));
    let script = ProgramFormat::Script { interpreter: "/bin/sh".into() };
    let elf = ProgramFormat::Elf { table_bytes: 56, loader: Some("/ld".into()) };
    let read = |format| HeaderReply::Read(Headers { changed_ns: -7, head_bytes: 256, format });
    let replies = [(1, read(script)), (0, HeaderReply::Gone), (2, read(elf))];
    let mut answer = Vec::new();
    for (file, reply) in &replies {
        protocol::at_hand(&mut answer, *file).expect("memory");
        protocol::write_reply(&mut answer, *file, reply).expect("memory");
    }
    let decoded = HeadersAnswer::decode(&answer, 3);
    assert_eq!(decoded, HeadersAnswer { replies: replies.clone().into(), at_hand: None });
    // The last result is cut off.
    let decoded = HeadersAnswer::decode(&answer[..answer.len() - 1], 3);
    assert_eq!((decoded.replies.len(), decoded.at_hand), (2, Some(2)));
    // Results for a file that is not in the question, and a second result for the same file, are
    // rejected.
    assert_eq!(HeadersAnswer::decode(&answer, 2).replies.len(), 2);
    let twice = [answer.clone(), answer].concat();
    assert_eq!(HeadersAnswer::decode(&twice, 3).replies.len(), 3);
    // The kernel does not read that many bytes.
    let long = ProgramFormat::Elf { table_bytes: 65537, loader: None };
    let mut answer = Vec::new();
    protocol::write_reply(&mut answer, 0, &read(long)).expect("memory");
    assert_eq!(
        HeadersAnswer::decode(&answer, 1),
        HeadersAnswer { replies: Vec::new(), at_hand: Some(0) }
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_an_answer(bytes in proptest::collection::vec(0_u8..9, 0..200)) {
        let decoded = HeadersAnswer::decode(&bytes, 3);
        proptest::prop_assert!(decoded.replies.len() <= 3);
        proptest::prop_assert!(decoded.at_hand.is_none_or(|it| it < 3));
    }
}
