//! `kukopay-sandbox audit`: asks a running sandbox whether a client is safe to retry, so that a CI job can
//! depend on it. The sandbox judges (`domain::audit`); this file asks and prints.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reqwest::redirect;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

/// The exit status where the client failed the audit.
const FINDINGS: u8 = 1;

/// The exit status where the sandbox gave no answer.
const NO_ANSWER: u8 = 2;

/// How long the answer may take. A full journal is read and judged in about a second.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Whose audit is asked for.
#[derive(Args)]
pub(super) struct Audit {
    /// Where the sandbox is
    #[arg(long, env = "KUKOPAY_URL", default_value = "http://127.0.0.1:5856")]
    url: Url,

    /// The API key that the client used
    #[arg(long, env = "KUKOPAY_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: String,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,

    /// The shortest pause between a failed attempt and the next one, in milliseconds [default: 500]
    #[arg(long, value_name = "N")]
    min_backoff_ms: Option<u32>,
}

/// Without the key.
impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What the sandbox answers; `data` of a success, `message` of an error.
#[derive(Deserialize)]
struct Answer {
    data: Option<Value>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Report {
    verdict: String,
    operations: u64,
    findings: Vec<Finding>,
    journal: Journal,
}

#[derive(Deserialize)]
struct Journal {
    complete: bool,
    dropped: u64,
    through: String,
}

#[derive(Deserialize)]
struct Finding {
    rule: String,
    message: String,
    request_ids: Vec<String>,
    advice: String,
}

/// Asks `GET /sandbox/audit` and prints the answer. The exit status is 0 if the client is safe to retry, 1
/// on findings, and 2 where there was no answer: nobody listens there, the key is not let in, or it is no
/// sandbox.
pub(super) fn run(audit: &Audit) -> ExitCode {
    match ask(audit) {
        Ok((data, report)) => {
            if audit.json {
                println!("{data:#}");
            } else {
                print!("{}", text(&report));
            }
            if report.verdict == "pass" { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) }
        }
        Err(error) => {
            eprintln!("kukopay-sandbox: {error}");
            ExitCode::from(NO_ANSWER)
        }
    }
}

fn ask(audit: &Audit) -> Result<(Value, Report), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let data = runtime.map_err(|error| error.to_string())?.block_on(fetch(audit))?;
    match Report::deserialize(&data) {
        Ok(report) => Ok((data, report)),
        Err(error) => Err(format!("the answer is no audit: {error}")),
    }
}

async fn fetch(audit: &Audit) -> Result<Value, String> {
    let url = address(audit)?;
    // Without the user's name and password, which a URL may have.
    let origin = url.origin().ascii_serialization();
    let no_answer = |error: reqwest::Error| format!("no answer from {origin}: {}", innermost(&error));
    // reqwest is built without a provider of TLS. If the process has one already, that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A redirect would send the key to another host.
    let client = reqwest::Client::builder().timeout(TIMEOUT).redirect(redirect::Policy::none()).build();
    let call = client.map_err(no_answer)?.get(url).header("X-Api-Key", &audit.api_key);
    let response = call.send().await.map_err(no_answer)?;
    let status = response.status();
    let body = response.bytes().await.map_err(no_answer)?;
    match serde_json::from_slice(&body) {
        Ok(Answer { data: Some(data), .. }) if status.is_success() => Ok(data),
        Ok(Answer { message: Some(message), .. }) => Err(format!("{origin} answered {status}: {message}")),
        _ => Err(format!("{origin} answered {status}, but not as a KukoPay sandbox does")),
    }
}

fn address(audit: &Audit) -> Result<Url, String> {
    let mut url = audit.url.clone();
    if !matches!(url.scheme(), "http" | "https") {
        return Err("--url must be an http or https URL".to_owned());
    }
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["sandbox", "audit"]);
    }
    url.set_query(audit.min_backoff_ms.map(|least| format!("min_backoff_ms={least}")).as_deref());
    Ok(url)
}

/// The cause at the bottom, which says the most: "Connection refused", and not "error sending request".
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The report for people.
fn text(report: &Report) -> String {
    let operations = counted(report.operations, "operation");
    let mut text = match report.findings.len() {
        0 if report.operations == 0 => {
            "PASS  Nothing to judge: this API key has not written anything.".to_owned()
        }
        0 => format!("PASS  {operations} without a finding: this client is safe to retry."),
        findings => {
            let findings = counted(u64::try_from(findings).unwrap_or(u64::MAX), "finding");
            format!("FAIL  {findings} in {operations}: this client is not safe to retry.")
        }
    };
    text.push('\n');
    text.extend(incomplete(&report.journal));
    text.extend(report.findings.iter().map(lines));
    text
}

/// The warning about an incomplete journal.
fn incomplete(journal: &Journal) -> Option<String> {
    let Journal { complete, dropped, through } = journal;
    let of_dropped = match dropped {
        0 => String::new(),
        dropped => format!(" ({} dropped)", counted(*dropped, "call")),
    };
    let line = format!(
        "The journal is incomplete{of_dropped} and was judged through {through}: what a missing call would explain \
         is not found.\n"
    );
    (!complete).then_some(line)
}

fn lines(finding: &Finding) -> String {
    let Finding { rule, message, request_ids, advice } = finding;
    let requests = match request_ids.as_slice() {
        [] => String::new(),
        ids => format!("    Requests: {}\n", ids.join(", ")),
    };
    format!("\n{rule}\n    {message}\n{requests}    {advice}\n")
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text_of(report: Value) -> String {
        text(&Report::deserialize(report).unwrap())
    }

    #[test]
    fn a_report_is_put_into_lines() {
        let journal = |dropped| json!({"complete": dropped == 0, "dropped": dropped, "through": "2026-11-04T08:30:00.000Z"});
        let pass = |operations: u64| json!({"verdict": "pass", "operations": operations, "findings": [], "journal": journal(0)});
        assert!(text_of(pass(0)).starts_with("PASS  Nothing to judge"));
        assert_eq!(text_of(pass(1)), "PASS  1 operation without a finding: this client is safe to retry.\n");
        let finding = json!({"rule": "gave_up", "message": "It gave up.", "advice": "Ask.",
            "request_ids": ["req_1", "req_2"], "out_trade_no": "A1"});
        let webhook =
            json!({"rule": "unacknowledged_webhook", "message": "m", "advice": "a", "request_ids": []});
        assert_eq!(
            text_of(
                json!({"verdict": "fail", "operations": 3, "findings": [finding, webhook], "journal": journal(0)})
            ),
            "FAIL  2 findings in 3 operations: this client is not safe to retry.\n\n\
             gave_up\n    It gave up.\n    Requests: req_1, req_2\n    Ask.\n\n\
             unacknowledged_webhook\n    m\n    a\n"
        );
        let dropped = json!({"verdict": "pass", "operations": 1, "findings": [], "journal": journal(1)});
        assert_eq!(
            text_of(dropped),
            "PASS  1 operation without a finding: this client is safe to retry.\nThe journal is incomplete (1 call \
             dropped) and was judged through 2026-11-04T08:30:00.000Z: what a missing call would explain is not \
             found.\n"
        );
    }

    #[test]
    fn the_address_stands_below_the_url() {
        let address = |url: &str, min_backoff_ms| {
            let audit =
                Audit { url: url.parse().unwrap(), api_key: String::new(), json: false, min_backoff_ms };
            address(&audit).map(String::from)
        };
        assert_eq!(address("http://127.0.0.1:5856", None).unwrap(), "http://127.0.0.1:5856/sandbox/audit");
        assert_eq!(
            address("https://example.test/pay/?x=1", Some(800)).unwrap(),
            "https://example.test/pay/sandbox/audit?min_backoff_ms=800"
        );
        assert!(address("ftp://example.test", None).is_err());
    }
}
