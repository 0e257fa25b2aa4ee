//! Arguments of the verbs that write files for shells and for `man`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Arguments of `completions`.
#[derive(Debug, ClapArgs)]
pub(super) struct CompletionsArgs {
    /// Shell of the completions
    pub(super) shell: ShellArg,
}

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ShellArg {
    /// The shell bash
    Bash,
    /// The shell zsh
    Zsh,
    /// The shell fish
    Fish,
    /// The shell elvish
    Elvish,
}

/// Arguments of `man`.
#[derive(Debug, ClapArgs)]
pub(super) struct ManArgs {
    /// Subcommand of the page, such as summary or replay-run [default: the page of the program]
    pub(super) subcommand: Option<String>,
    /// Write the pages of the program and of all subcommands into this directory; earlier pages are
    /// replaced
    #[arg(long, value_name = "DIR", conflicts_with = "subcommand")]
    pub(super) all: Option<PathBuf>,
}
