//! Scope of a recording in words.

use crate::capture::header::CaptureScope;
use crate::text::quantity::counted;

/// Number of attached processes that are shown by their numbers.
const PIDS_SHOWN: usize = 8;

/// Returns the processes or threads to which a recording was attached: the processes of a group by
/// its name.
pub fn attached(scope: &CaptureScope) -> String {
    if !scope.threads.is_empty() {
        let tids: Vec<String> = scope.threads.iter().map(i32::to_string).collect();
        return format!("{} {}", noun(tids.len(), ["thread", "threads"]), tids.join(", "));
    }
    if let Some(group) = &scope.group {
        return format!("{} of {group}", counted(scope.roots.len() as u64, "process"));
    }
    let pids: Vec<String> = scope.roots.iter().take(PIDS_SHOWN).map(i32::to_string).collect();
    let more = match scope.roots.len().saturating_sub(PIDS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} {}{more}", noun(scope.roots.len(), ["process", "processes"]), pids.join(", "))
}

/// Returns the noun for so many: one, or more.
fn noun(count: usize, [one, more]: [&'static str; 2]) -> &'static str {
    if count == 1 { one } else { more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_processes_are_counted() {
        let scope = |pids: i32, group: Option<&str>| CaptureScope {
            roots: (100..100 + pids).collect(),
            group: group.map(str::to_owned),
            ..CaptureScope::default()
        };
        assert_eq!(attached(&scope(1, None)), "process 100");
        assert_eq!(attached(&scope(2, None)), "processes 100, 101");
        let shown = "processes 100, 101, 102, 103, 104, 105, 106, 107";
        assert_eq!(attached(&scope(8, None)), shown);
        assert_eq!(attached(&scope(311, None)), format!("{shown} and 303 more"));
        let group = Some("system.slice");
        assert_eq!(attached(&scope(1311, group)), "1,311 processes of system.slice");
        assert_eq!(attached(&scope(1, group)), "1 process of system.slice");
    }
}
