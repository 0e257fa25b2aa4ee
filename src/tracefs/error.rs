//! Reasons why a text is not a `format` file.

/// Error: no kernel prints this text as a `format` file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct FormatError {
    /// Number of the faulty line, counted from 1. It is one after the last line when the text ends
    /// too early.
    pub line: usize,
    /// Description of the fault.
    pub reason: FormatReason,
}

/// Fault of a line of a `format` file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatReason {
    /// Another text is at a place where the grammar has only one choice.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The text ends without a newline. The kernel always prints one, so the end is missing.
    #[error("the text ends in the middle of a line")]
    Truncated,
    /// The text is not a decimal number as the kernel prints it.
    #[error("`{text}` is not a number from 0 to 4294967295, as `{column}` needs")]
    Number {
        /// Word before the number, such as `offset`.
        column: &'static str,
        /// Text in the number's place.
        text: String,
    },
    /// A field's declaration lacks its type or its name.
    #[error("`{0}` does not declare a type and a name")]
    Declaration(String),
}
