//! Report of `check`: counts beside their limits.

use super::rows::{column, key_column};
use crate::analysis::budget::BudgetMetric;
use crate::text::quantity::{self, counted, size};
use crate::text::table::{Cell, Report, Table};

/// Result for one limited count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetOutcome {
    /// At most the limit.
    Within,
    /// More than the limit.
    Exceeded,
    /// The count may be wrong, for this reason.
    Inexact(String),
}

impl BudgetOutcome {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Exceeded => "exceeded",
            Self::Inexact(_) => "not exact",
        }
    }
}

/// A count beside its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetResult {
    /// Name of the limit.
    pub limit: String,
    /// Kind of the count.
    pub metric: BudgetMetric,
    /// Count of the run.
    pub measured: u64,
    /// Largest value that is allowed, tolerance included.
    pub allowed: u64,
    /// Result of the check.
    pub outcome: BudgetOutcome,
}

impl BudgetResult {
    /// Makes the count its own limit, if it is exact.
    pub fn allow(&mut self) {
        if !matches!(self.outcome, BudgetOutcome::Inexact(_)) {
            (self.allowed, self.outcome) = (self.measured, BudgetOutcome::Within);
        }
    }

    /// Sentence about a count that is not within its limit.
    pub fn sentence(&self) -> String {
        let Self { limit, metric, measured, allowed, outcome } = self;
        let what = metric.as_str().replace('_', " ");
        let [measured, allowed] = [measured, allowed].map(|value| amount(*metric, *value));
        match outcome {
            BudgetOutcome::Within => format!("{limit}: {what} {measured}, {allowed} allowed"),
            BudgetOutcome::Exceeded => {
                format!("{limit}: {what} {measured}, more than the {allowed} that are allowed")
            }
            BudgetOutcome::Inexact(cause) => {
                format!("{limit}: {what} cannot be checked: {cause} (counted: {measured})")
            }
        }
    }
}

/// Bytes in full, because a limit is exact.
fn amount(metric: BudgetMetric, value: u64) -> String {
    match metric.is_bytes() {
        true if value >= 1000 => format!("{} ({})", quantity::count(value), size(value)),
        _ => quantity::count(value),
    }
}

/// Returns the report on a budget.
pub fn report(results: &[BudgetResult]) -> Report {
    let number = |wanted: fn(&BudgetOutcome) -> bool| {
        let count = results.iter().filter(|result| wanted(&result.outcome)).count();
        Cell::Count(count as u64)
    };
    let failed = results.iter().filter(|result| result.outcome != BudgetOutcome::Within);
    let mut sentences: Vec<String> = failed.map(BudgetResult::sentence).collect();
    if sentences.is_empty() {
        sentences
            .push(format!("all {} are within the budget", counted(results.len() as u64, "count")));
    }
    let row = |result: &BudgetResult| {
        vec![
            Cell::Word(result.limit.clone()),
            Cell::Word(result.metric.as_str().to_owned()),
            Cell::Count(result.measured),
            Cell::Count(result.allowed),
            Cell::Word(result.outcome.as_str().to_owned()),
        ]
    };
    Report {
        kind: "check",
        facts: vec![
            ("within", "", number(|outcome| *outcome == BudgetOutcome::Within)),
            ("exceeded", "", number(|outcome| *outcome == BudgetOutcome::Exceeded)),
            ("inexact", "", number(|outcome| matches!(outcome, BudgetOutcome::Inexact(_)))),
        ],
        tables: vec![
            Table {
                key: "findings",
                title: "Result".into(),
                columns: vec![column("text", "result")],
                rows: sentences.into_iter().map(|text| vec![Cell::Word(text)]).collect(),
            },
            Table {
                key: "counts",
                title: "Counts".into(),
                columns: vec![
                    key_column(0, "limit", "limit"),
                    key_column(1, "metric", "what"),
                    column("measured", "counted"),
                    column("allowed", "allowed"),
                    column("outcome", "result"),
                ],
                rows: results.iter().map(row).collect(),
            },
        ],
        ..Report::default()
    }
}
