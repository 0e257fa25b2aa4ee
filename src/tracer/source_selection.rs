//! Choice of the source of samples, and its reason.

use nix::unistd::{AccessFlags, access};

use super::tracepoint_plan::SourceKind;
use crate::record::PageLayout;
use crate::sys::proc;
use crate::sys::tracefs::Tracefs;

/// Source that the user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceOption {
    /// The cheapest available source.
    Auto,
    /// The given source.
    Only(SourceKind),
}

/// A source and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceChoice {
    /// The source.
    pub source: SourceKind,
    /// Reason, as text.
    pub reason: String,
}

/// Chooses the source for this request on this machine.
///
/// # Errors
///
/// Reason why the requested source is not available.
pub fn choose(wish: SourceOption, tracefs: &Tracefs) -> Result<SourceChoice, String> {
    let choice = |source, reason: &str| SourceChoice { source, reason: reason.to_owned() };
    match (wish, hindrance(tracefs)) {
        (SourceOption::Only(SourceKind::Perf), _) => Ok(choice(SourceKind::Perf, "as wanted")),
        (SourceOption::Only(SourceKind::Inherited), _) => Ok(choice(
            SourceKind::Inherited,
            "perf events that children inherit: every user may record their own programs",
        )),
        (SourceOption::Only(SourceKind::Tracefs), None) => {
            Ok(choice(SourceKind::Tracefs, "as wanted"))
        }
        (SourceOption::Only(SourceKind::Tracefs), Some(why)) => Err(why),
        (SourceOption::Auto, None) => Ok(choice(SourceKind::Tracefs, "the cheaper one")),
        (SourceOption::Auto, Some(why)) => Ok(choice(SourceKind::Perf, &why)),
    }
}

/// Returns the reason why tracefs cannot be used, if there is one.
pub fn hindrance(tracefs: &Tracefs) -> Option<String> {
    let instances = tracefs.root().join("instances");
    if proc::is_namespaced() {
        let why =
            "tracefs rings carry the host's thread numbers, which this pid namespace does not show";
        return Some(why.into());
    }
    if let Err(errno) = access(&instances, AccessFlags::W_OK | AccessFlags::X_OK) {
        return Some(format!("{} cannot be written to: {errno}", instances.display()));
    }
    match tracefs.text("header_page") {
        Ok(text) if PageLayout::parse(&text).is_some() => None,
        Ok(_) => Some("this kernel's trace pages are laid out in an unknown way".into()),
        Err(error) => Some(error.to_string()),
    }
}
