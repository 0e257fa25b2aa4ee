//! Why a text is not a `format` file.

/// A text that no kernel prints as a `format` file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct FormatError {
    /// The line at fault, counted from 1. One past the last line when the text
    /// ends too early.
    pub line: usize,
    /// What is wrong with it.
    pub reason: FormatReason,
}

/// What is wrong with a line of a `format` file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatReason {
    /// Something else stands where the grammar has only one choice.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The text ends without a newline: the kernel always prints one, so the
    /// end is missing.
    #[error("the text ends in the middle of a line")]
    Truncated,
    /// Not a decimal number as the kernel prints it.
    #[error("`{text}` is not a number from 0 to 4294967295, as `{column}` needs")]
    Number {
        /// The word before the number, such as `offset`.
        column: &'static str,
        /// What stands there.
        text: String,
    },
    /// A field's declaration lacks its type or its name.
    #[error("`{0}` does not declare a type and a name")]
    Declaration(String),
}
