//! Findings about durability, from the cases.

use std::collections::BTreeMap;

use super::super::super::process_names::ProcessNames;
use super::super::durability::{Durability, DurabilityCase, DurabilityResult};
use super::super::finding::AdviceAmount::{Bytes, Count};
use super::super::finding::{AdviceFinding, AdvicePlace, AdviceProof, NotJudged, PROOFS_MAX};
use super::super::rule::{RuleId, Severity};
use super::places::AdvicePlaces;

/// Result of the fold.
pub(super) struct Durable(DurabilityResult);

impl Durable {
    pub(super) fn new(fold: &Durability) -> Self {
        Self(fold.finish())
    }

    /// Returns a finding for each severity of a rule's cases.
    pub(super) fn findings(&self, rule: RuleId, names: &ProcessNames) -> Vec<AdviceFinding> {
        let mut by_severity: BTreeMap<Severity, Vec<&DurabilityCase>> = BTreeMap::new();
        for case in self.0.cases.iter().filter(|case| case.rule == rule) {
            let severity = case.severity.unwrap_or(rule.rule().severity);
            by_severity.entry(severity).or_default().push(case);
        }
        by_severity
            .into_iter()
            .map(|(severity, cases)| finding(rule, severity, &cases, names))
            .collect()
    }

    /// Returns the cases of a rule that are not judged.
    pub(super) fn not_judged(&self, rule: RuleId) -> Vec<NotJudged> {
        let of_rule = self.0.undecided.iter().filter(|(of, _, _)| *of == rule);
        of_rule
            .map(|(rule, reason, count)| NotJudged {
                rule: *rule,
                cases: Some(*count),
                reason: reason.as_str().to_owned(),
            })
            .collect()
    }
}

fn finding(
    rule: RuleId,
    severity: Severity,
    cases: &[&DurabilityCase],
    names: &ProcessNames,
) -> AdviceFinding {
    let mut by_path: BTreeMap<&[u8], AdvicePlace> = BTreeMap::new();
    let mut bytes = 0_u64;
    for case in cases {
        let place = by_path.entry(&case.path).or_insert_with(|| AdvicePlace {
            key: case.path.to_vec(),
            pid: Some(case.pid),
            comm: names.of(case.processes[1]).to_vec(),
            ..AdvicePlace::default()
        });
        if place.pid != Some(case.pid) {
            // Several processes.
            (place.pid, place.comm) = (None, Vec::new());
        }
        place.count += 1;
        place.bytes = place.bytes.saturating_add(case.bytes);
        bytes = bytes.saturating_add(case.bytes);
    }
    let places = AdvicePlaces::new(by_path.into_values().collect(), false);
    let mut amounts = vec![Count(cases.len() as u64, "case"), Count(places.all, "file")];
    if bytes > 0 {
        amounts.push(Bytes(bytes, "unsynced"));
    }
    let proof = |case: &&DurabilityCase| AdviceProof {
        path: std::rc::Rc::clone(&case.path),
        events: case.events.clone(),
        outcome: case.outcome,
    };
    let proofs = cases.iter().take(PROOFS_MAX).map(proof).collect();
    AdviceFinding { severity, count: cases.len() as u64, proofs, ..places.finding(rule, amounts) }
}
