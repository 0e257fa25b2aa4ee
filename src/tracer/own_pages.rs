//! Pages of a recording that does not follow the children of its processes: the kernel's list of
//! threads grows at each fork, so the rings have the children's samples, too.

use super::pieces::summary;
use super::process_tree::Tree;
use crate::capture::writer::DataFrame;
use crate::record::{Layout, PageLayout, page};

/// Removes the samples of threads outside of the tree from pages, and adds their number to
/// `dropped`. Returns the header of the rest.
pub(super) fn drop_others(
    tree: Option<&Tree>,
    frame: DataFrame,
    layout: PageLayout,
    bytes: &mut Vec<u8>,
    dropped: &mut u64,
) -> DataFrame {
    let Some(tree) = tree.filter(|tree| !tree.follows_children()) else { return frame };
    let before = *dropped;
    layout.retain(bytes, |entry| {
        let keeps = page::payload(entry).is_none_or(|payload| tree.keeps_sample(payload));
        *dropped += u64::from(!keeps);
        keeps
    });
    if *dropped == before { frame } else { summary(frame, bytes, Layout::Pages(layout)) }
}
