//! Whether the load generator is fast enough: it measures itself against a server that answers without thinking.

use super::{MERCHANT, round};
use crate::Outcome;
use crate::load::{Numbers, Request};
use crate::responder::Responder;
use crate::table::Table;
use crate::usage;

pub(super) async fn measure(table: &mut Table) -> Outcome<()> {
    // As long as a real answer. The number cannot be right, so that this request has no place for one.
    let body = format!("{{\"data\":{{\"subject\":\"{}\"}}}}", "x".repeat(600));
    let answer = format!(
        "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let responder = Responder::start(answer).await?;
    let order =
        r#"{"out_trade_no":"SPEED_0000000000","amount":2990,"currency":"USD","subject":"Pro 年度訂閲"}"#;
    let headers = [("X-Api-Key", MERCHANT), ("Idempotency-Key", "order_0000000000")];
    let request = Request::new("POST", "/v1/orders", &headers, order, 201);
    let before = usage::cpu_seconds(std::process::id());
    let sample = round(responder.address, &request, &Numbers::from(0)).await?;
    let spent = usage::cpu_seconds(std::process::id()).zip(before).map(|(after, before)| after - before);
    let cpu = spent.map_or_else(String::new, |spent| {
        let micros = spent * 1e6 / f64::from(sample.answers);
        format!(", {micros:.0} µs of CPU for each, the server's included")
    });
    table.fact(format!(
        "The load generator alone, against a server that does nothing: {:.0}/s{cpu}.",
        sample.per_second()
    ));
    Ok(())
}
