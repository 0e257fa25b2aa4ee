//! A finding of `doctor`.

/// Result of one test of the machine.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    /// Finding, for people.
    pub(super) found: String,
    /// A remedy, unless all is well.
    pub(super) fix: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, ok: true, found: found.into(), fix: None }
    }

    pub(super) fn bad(
        name: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { name, ok: false, found: found.into(), fix: Some(fix.into()) }
    }
}
