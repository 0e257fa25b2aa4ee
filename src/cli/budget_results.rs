//! Results of a budget for CI services: JUnit XML and annotations of GitHub.

use quick_junit::{NonSuccessKind, Report as JUnitReport, TestCase, TestCaseStatus, TestSuite};

use crate::report::budget::{BudgetOutcome, BudgetResult};
use crate::text::escape;

/// Returns the results as JUnit XML: a test case for each limited count.
pub(super) fn junit(results: &[BudgetResult]) -> Result<String, quick_junit::SerializeError> {
    let mut suite = TestSuite::new("iotrace-perf check");
    for result in results {
        let status = match &result.outcome {
            BudgetOutcome::Within => TestCaseStatus::success(),
            outcome => {
                let kind = match outcome {
                    BudgetOutcome::Exceeded => NonSuccessKind::Failure,
                    _ => NonSuccessKind::Error,
                };
                let mut status = TestCaseStatus::non_success(kind);
                status.set_message(result.sentence());
                status
            }
        };
        let name = format!("{}: {}", escape::harmless(&result.limit), result.metric.as_str());
        suite.add_test_case(TestCase::new(name, status));
    }
    let mut report = JUnitReport::new("iotrace-perf");
    report.add_test_suite(suite);
    report.to_string()
}

/// Returns a line for each count that is not within its limit, as GitHub's runner reads it.
pub(super) fn annotations(results: &[BudgetResult]) -> String {
    let failed = results.iter().filter(|result| result.outcome != BudgetOutcome::Within);
    let line = |result: &BudgetResult| {
        let title = format!("I/O budget: {}", result.limit);
        format!("::error title={}::{}\n", property(&title), message(&result.sentence()))
    };
    failed.map(line).collect()
}

/// Text of a message: the runner decodes these three.
fn message(text: &str) -> String {
    let text = escape::harmless(text);
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Text of a property.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::budget::BudgetMetric;

    fn results() -> Vec<BudgetResult> {
        let result = |limit: &str, measured, outcome| BudgetResult {
            limit: limit.to_owned(),
            metric: BudgetMetric::Opens,
            measured,
            allowed: 5,
            outcome,
        };
        vec![
            result("all", 5, BudgetOutcome::Within),
            result("a<b>, 5%:\n", 7, BudgetOutcome::Exceeded),
            result("x", 3, BudgetOutcome::Inexact("1 record lost".into())),
        ]
    }

    #[test]
    fn failures_are_annotations() {
        let text = annotations(&results());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("::error title=I/O budget%3A a<b>%2C 5%25%3A"), "{text}");
        assert!(lines[1].contains("1 record lost"), "{text}");
    }

    #[test]
    fn cases_are_counted() {
        let xml = junit(&results()).expect("XML");
        assert!(xml.contains("tests=\"3\"") && xml.contains("failures=\"1\""), "{xml}");
        assert!(xml.contains("errors=\"1\"") && xml.contains("a&lt;b&gt;"), "{xml}");
    }
}
