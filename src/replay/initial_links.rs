//! Symbolic links of a plan's initial files, to resolve paths of the plan.

use rustc_hash::FxHashMap;

use super::plan::plan_file::{FileBefore, FileKind};

/// Links that are followed in one path, as in the kernel (`MAXSYMLINKS`, `include/linux/namei.h`).
const FOLLOWED_MAX: usize = 40;

/// Targets of the initial symbolic links, by their paths from the root of the replay.
#[derive(Debug, Default)]
pub(super) struct InitialLinks {
    targets: FxHashMap<Vec<u8>, Vec<u8>>,
}

impl InitialLinks {
    /// Selects the links whose target is known.
    pub(super) fn new(files: impl IntoIterator<Item = FileBefore>) -> Self {
        let links = files.into_iter().filter(|file| file.kind == FileKind::Link);
        Self { targets: links.filter_map(|link| Some((link.path, link.text?))).collect() }
    }

    /// Returns the path that an absolute path leads to; `None` for too many links.
    pub(super) fn resolve(&self, path: &[u8]) -> Option<Vec<u8>> {
        let components = |path: &[u8]| -> Vec<Vec<u8>> {
            path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect()
        };
        let mut resolved: Vec<u8> = Vec::new();
        let mut rest = components(path);
        let mut followed = 0;
        while let Some(component) = rest.pop() {
            let parent = resolved.len();
            match &component[..] {
                b"" | b"." => continue,
                b".." => {
                    let slash = resolved.iter().rposition(|byte| *byte == b'/');
                    resolved.truncate(slash.unwrap_or(0));
                    continue;
                }
                name => {
                    resolved.push(b'/');
                    resolved.extend_from_slice(name);
                }
            }
            if let Some(target) = self.targets.get(&resolved) {
                followed += 1;
                if followed > FOLLOWED_MAX {
                    return None;
                }
                resolved.truncate(if target.starts_with(b"/") { 0 } else { parent });
                rest.extend(components(target));
            }
        }
        if resolved.is_empty() {
            resolved.push(b'/');
        }
        Some(resolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(pairs: &[(&str, &str)]) -> InitialLinks {
        InitialLinks::new(pairs.iter().map(|(path, target)| FileBefore {
            text: Some(target.as_bytes().to_vec()),
            ..FileBefore::new(path.as_bytes(), FileKind::Link)
        }))
    }

    #[test]
    fn links_on_the_way_are_followed() {
        let links = links(&[
            ("/lib", "usr/lib"),
            ("/usr/lib/z.so.1", "z.so.1.2"),
            ("/usr/up", "../usr/./lib/"),
            ("/all", "/"),
        ]);
        let resolved = |path: &str| links.resolve(path.as_bytes());
        assert_eq!(resolved("/lib/z.so.1").as_deref(), Some(&b"/usr/lib/z.so.1.2"[..]));
        assert_eq!(resolved("/usr/up/z.so.1").as_deref(), Some(&b"/usr/lib/z.so.1.2"[..]));
        assert_eq!(resolved("/all/lib/a").as_deref(), Some(&b"/usr/lib/a"[..]));
        assert_eq!(resolved("/library/a").as_deref(), Some(&b"/library/a"[..]));
        assert_eq!(resolved("/all").as_deref(), Some(&b"/"[..]));
    }

    #[test]
    fn circular_links_have_no_end() {
        assert_eq!(links(&[("/a", "b"), ("/b", "a")]).resolve(b"/a/x"), None);
    }
}
