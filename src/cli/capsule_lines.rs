//! Sentences about an anonymised capsule.

use crate::capture::header::CapsuleCounts;
use crate::pipeline::Summary;
use crate::text::quantity::counted;

/// Returns the note on a log that is a capsule.
pub(super) fn note(summary: &Summary) -> Option<String> {
    let counts = summary.header.capsule.as_ref()?;
    Some(format!("anonymised capsule: names are pseudonyms; {}", left_out(counts)))
}

/// Returns the parts that a capsule has left out.
pub(super) fn left_out(counts: &CapsuleCounts) -> String {
    let all = [
        (counts.command_lines, "command line"),
        (counts.texts, "text"),
        (counts.payloads, "record of an unknown tracepoint"),
        (counts.payload_parts, "record with a field of unknown contents"),
        (counts.records, "record of an unknown kind"),
        (counts.user_stacks, "copy of a stack"),
        (counts.chain_words, "word of call chains outside of known code"),
        (counts.facts, "fact of an unknown kind"),
        (counts.frames, "unknown or damaged frame"),
    ];
    let named = all.iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = named.map(|(count, noun)| plural(*count, noun)).collect();
    if parts.is_empty() {
        parts.push("nothing".to_owned());
    }
    let mut line = format!("left out: {}", parts.join(", "));
    if counts.shared_pseudonyms > 0 {
        line.push_str(&format!(
            "; {} with the pseudonym of another name",
            counted(counts.shared_pseudonyms, "name")
        ));
    }
    line
}

/// Formats a count; the plural is that of the first noun.
fn plural(count: u64, noun: &str) -> String {
    match noun.split_once(' ') {
        Some((first, rest)) if count != 1 && matches!(first, "record" | "word" | "fact") => {
            format!("{} {rest}", counted(count, first))
        }
        _ if noun.starts_with("copy") && count != 1 => format!("{count} copies of stacks"),
        _ => counted(count, noun),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_words_and_facts_have_plurals() {
        let counts = CapsuleCounts { chain_words: 2, facts: 1, ..CapsuleCounts::default() };
        let line = "left out: 2 words of call chains outside of known code, \
                    1 fact of an unknown kind";
        assert_eq!(left_out(&counts), line);
    }

    #[test]
    fn parts_are_named_with_their_numbers() {
        assert_eq!(left_out(&CapsuleCounts::default()), "left out: nothing");
        let counts = CapsuleCounts {
            command_lines: 2,
            records: 3,
            user_stacks: 1,
            shared_pseudonyms: 1,
            ..CapsuleCounts::default()
        };
        let line = "left out: 2 command lines, 3 records of an unknown kind, 1 copy of a stack; \
                    1 name with the pseudonym of another name";
        assert_eq!(left_out(&counts), line);
    }
}
