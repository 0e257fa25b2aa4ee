//! List of an asynchronous call that probes have recorded, in parts.

/// Parts of a list in a program's memory.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedList {
    /// Index of the first element of each part, ascending, and its bytes.
    parts: Vec<(usize, Vec<u8>)>,
}

impl RecordedList {
    /// Adds a part; it replaces an earlier one that begins at the same element.
    pub(super) fn add(&mut self, first: usize, bytes: Vec<u8>) {
        match self.parts.binary_search_by_key(&first, |part| part.0) {
            Ok(place) => self.parts[place].1 = bytes,
            Err(place) => self.parts.insert(place, (first, bytes)),
        }
    }

    /// Returns the elements, of `size` bytes each, from the first one to the first that is missing.
    pub(super) fn joined(&self, size: usize) -> Vec<u8> {
        let mut joined = Vec::new();
        for (first, bytes) in &self.parts {
            if first.checked_mul(size) != Some(joined.len()) {
                break;
            }
            joined.extend_from_slice(bytes);
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_up_to_the_first_missing_element() {
        let joined = |parts: &[(usize, &[u8])]| {
            let mut list = RecordedList::default();
            parts.iter().for_each(|(first, bytes)| list.add(*first, bytes.to_vec()));
            String::from_utf8(list.joined(2)).expect("text")
        };
        assert_eq!(joined(&[]), "");
        assert_eq!(joined(&[(2, b"ccdd"), (0, b"aabb"), (4, b"ee")]), "aabbccddee");
        assert_eq!(joined(&[(2, b"ccdd"), (0, b"aa"), (4, b"ee")]), "aa");
        assert_eq!(joined(&[(2, b"ccdd")]), "");
        assert_eq!(joined(&[(0, b"aa"), (0, b"bbcc"), (2, b"dd")]), "bbccdd");
    }
}
