//! Findings: numbers, places, and events that prove them.

use std::rc::Rc;

use super::super::completed_op::OpKind;
use super::rule::{RuleId, Severity};
use crate::units::{KernelTime, Pid};

/// Number of places that a finding keeps.
pub const PLACES_MAX: usize = 20;

/// Number of proofs that a finding keeps.
pub const PROOFS_MAX: usize = 20;

/// Amount in the sentence of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdviceAmount {
    /// Number of things, with their noun.
    Count(u64, &'static str),
    /// Bytes, and what they are.
    Bytes(u64, &'static str),
    /// Time in ns, and what it is.
    Ns(u64, &'static str),
}

/// File, directory or device that a finding concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdvicePlace {
    /// Key of the file ([`super::super::summary::KeyParts`]), or name of the directory or device.
    pub key: Vec<u8>,
    /// Process with most of it; `None`: not known, or no process.
    pub pid: Option<Pid>,
    /// Name of that process.
    pub comm: Vec<u8>,
    /// Operations or cases.
    pub count: u64,
    /// Bytes; 0 if the rule is not about bytes.
    pub bytes: u64,
    /// Time, ns; 0 if the rule is not about time.
    pub time_ns: u64,
}

/// Operation that is part of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofEvent {
    /// Begin of the operation.
    pub start: KernelTime,
    /// End of the operation.
    pub end: KernelTime,
    /// Kind of the operation.
    pub what: OpKind,
    /// Process number.
    pub pid: Pid,
    /// Descriptor, if it has one.
    pub fd: Option<i32>,
    /// Error number (positive), if it failed.
    pub errno: Option<i32>,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Path of the file, or the new path of a rename.
    pub path: Rc<[u8]>,
}

/// Order of events that proves a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdviceProof {
    /// Final path of the file.
    pub path: Rc<[u8]>,
    /// Operations in the order of their ends.
    pub events: Vec<ProofEvent>,
    /// Result of the order, as a sentence.
    pub outcome: &'static str,
}

/// Finding of a rule.
#[derive(Clone, Debug)]
pub struct AdviceFinding {
    /// Rule that found it.
    pub rule: RuleId,
    /// Severity, at most that of the rule.
    pub severity: Severity,
    /// Number of cases or operations.
    pub count: u64,
    /// Amounts of the sentence.
    pub amounts: Vec<AdviceAmount>,
    /// Places with most of it.
    pub places: Vec<AdvicePlace>,
    /// Number of all places.
    pub all_places: u64,
    /// First proofs.
    pub proofs: Vec<AdviceProof>,
}

/// Reason why a rule, or some of its cases, was not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotJudged {
    /// The rule.
    pub rule: RuleId,
    /// Cases that were not judged; `None`: the rule as a whole.
    pub cases: Option<u64>,
    /// Reason of the lack.
    pub reason: String,
}

/// Result of all rules.
#[derive(Clone, Debug, Default)]
pub struct Advice {
    /// Findings, the most severe first.
    pub findings: Vec<AdviceFinding>,
    /// Rules and cases that were not judged.
    pub not_judged: Vec<NotJudged>,
    /// Rules that were judged.
    pub judged: u64,
    /// Rules that were ignored, on demand or because the folds are those of a summary.
    pub ignored: u64,
}

impl Advice {
    /// Returns the highest severity of all findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}
