//! `replay init`: the files that must exist before the first operation.

use std::fmt;
use std::process::ExitCode;

use rustc_hash::FxHashSet;

use super::super::error::CliError;
use super::super::message::print_line;
use super::super::user_arg;
use super::super::values::{ContentArg, InitContentArg};
use super::args::InitArgs;
use super::common::{bar, contents, damaged, open, usage};
use super::dirs;
use crate::replay::execute::init::{self, CreatedCounts, InitOptions};
use crate::replay::execute::originals::Originals;
use crate::replay::plan::plan_file::FileKind;
use crate::text::quantity::{counted, counted_with};

/// `replay init`.
pub(super) fn run(args: &InitArgs) -> Result<ExitCode, CliError> {
    let user = args.user.as_deref().map(|arg| user_arg::listed("--user", arg, "do a replay"));
    let user = user.transpose()?;
    let (reader, index) = open(&args.plan)?;
    let before = reader.files(&index).map_err(|error| damaged(&args.plan, &error))?;
    let plan = reader.fingerprint(&index).map_err(|error| damaged(&args.plan, &error))?;
    let (made_up, originals) = match args.content {
        InitContentArg::MadeUp(it) => (it, None),
        InitContentArg::Original => (ContentArg::RANDOM, Some(Originals::new().map_err(usage)?)),
    };
    let wish = InitOptions {
        contents: contents(made_up),
        originals: originals.as_ref(),
        user: user.as_ref(),
    };
    let mut places = dirs::make(args, user.as_ref(), plan, &before)?;
    let files = before.iter().filter(|file| file.kind == FileKind::File);
    let bytes = files.fold(0_u64, |sum, it| sum.saturating_add(it.size));
    let bar = bar(bytes, "{bar:40} {bytes}/{total_bytes} {bytes_per_sec}");
    let made = init::init(&mut places, &before, wish, &mut |init| bar.inc(init));
    bar.finish_and_clear();
    report(args, &made.map_err(usage)?);
    if let Some(it) = &user {
        print_line(&format!("they belong to {}, the user of the replay", it.name()));
    }
    let made: FxHashSet<&[u8]> = before.iter().map(|file| &*file.path).collect();
    for it in index.given.iter().filter(|given| !made.contains(&*given.path)) {
        print_line(&format!(
            "{} was open before the capture, and is not made",
            String::from_utf8_lossy(&it.path)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn report(args: &InitArgs, made: &CreatedCounts) {
    let CreatedCounts {
        directories,
        files,
        names,
        links,
        bytes,
        hole_bytes,
        other_layouts,
        sources,
    } = made;
    let holes = match hole_bytes {
        0 => String::new(),
        bytes => format!(" ({bytes} in holes)"),
    };
    print_line(&format!(
        "made {}, {} with {}{holes}, {} of these and {} in {}; now: iotrace-perf replay run {} --root {}",
        counted(*directories, "directory"),
        counted(*files, "file"),
        counted(*bytes, "byte"),
        counted(*names, "more name"),
        counted(*links, "symbolic link"),
        args.root.display(),
        args.plan.display(),
        args.root.display()
    ));
    for (source, count, first) in sources.all() {
        let first = String::from_utf8_lossy(first);
        let which = if count == 1 { first } else { format!("{first} and others").into() };
        print_line(&format!("contents of {} ({which}): {source}", counted(count, "file")));
    }
    if *other_layouts > 0 {
        print_line(&format!(
            "{} all holes and data of the captured ones: the file system makes larger ones or none, or the originals are other \
             ones now; seeks for them (SEEK_DATA, SEEK_HOLE) may have other results",
            counted_with(*other_layouts, "file", ["does not have", "do not have"])
        ));
    }
}

impl fmt::Display for InitContentArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original => f.write_str("original"),
            Self::MadeUp(it) => it.fmt(f),
        }
    }
}
