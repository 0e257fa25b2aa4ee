//! Tables of disks: by the processes that caused requests, and by file.

use maud::{Markup, html};

use super::page_table::page_table;
use super::reports::{PageReports, table};

/// Returns the block; none without requests.
pub(super) fn block(reports: &PageReports) -> Option<Markup> {
    let disks = table(&reports.disk, "disks")?;
    Some(html! {
        p class="note" {
            "Bytes count for the process that wrote them, not for the kernel thread that wrote them back. Certain and inferred causes \
             are in columns of their own."
        }
        (page_table(disks))
        @for key in ["causes", "files"] {
            @if let Some(table) = table(&reports.disk, key) { (page_table(table)) }
        }
        @if let Some(devices) = table(&reports.summary, "devices") { (page_table(devices)) }
    })
}
