//! What the pure rules cost that every call pays for, and the audit: without a database and without a network.
//! How fast the whole is stands in `speed`.
//!
//! ```sh
//! cargo bench --bench micro
//! ```

#![allow(clippy::expect_used, reason = "what is made up here is well-formed, or there is nothing to measure")]

use std::hint::black_box;
use std::time::Duration;

use kukopay_sandbox::domain::audit::{Call, Reach, Report, Thresholds, judge};
use kukopay_sandbox::domain::id::RequestId;
use kukopay_sandbox::domain::idempotency::{BoundRequest, Fingerprint};
use kukopay_sandbox::domain::journal::entry::{Outcome, body_hash};
use kukopay_sandbox::domain::json::strict;
use kukopay_sandbox::domain::masking;
use kukopay_sandbox::domain::payment::order::OrderContent;
use kukopay_sandbox::domain::webhook::signature;
use kukopay_sandbox::domain::webhook::web_url::NotifyPolicy;
use time::OffsetDateTime;
use uuid::Uuid;

/// An order with all that it may have.
const ORDER: &[u8] =
    r#"{"out_trade_no":"ORDER_20261104_0001","amount":2990,"currency":"USD","subject":"Pro 年度訂閲",
"return_url":"https://shop.example/thanks","notify_url":"https://shop.example/hooks/kukopay","locale":"zh",
"metadata":{"cart":"c_481516","customer":"u_2342"}}"#
        .as_bytes();

fn main() {
    divan::main();
}

/// What a key is bound to.
#[divan::bench]
fn fingerprint(bencher: divan::Bencher<'_, '_>) {
    let request =
        BoundRequest { method: "POST".to_owned(), path: "/v1/orders".to_owned(), body: ORDER.to_vec() };
    bencher.bench(|| -> Fingerprint { black_box(&request).fingerprint() });
}

/// The header over the body of a webhook, under one secret.
#[divan::bench]
fn signature_of_a_webhook() -> String {
    signature::header(&[black_box("whsec_0123456789abcdef")], 1_764_553_200, black_box(&[b'x'; 1024]))
}

/// From the bytes of a body to an order that may be written.
#[divan::bench]
fn validation_of_an_order() -> OrderContent {
    let object = strict::parse_object(black_box(ORDER)).expect("a JSON object");
    OrderContent::from_json(object, NotifyPolicy::Anywhere).content.expect("an order")
}

/// What is taken out of a body before it is kept: here nothing, as in most.
#[divan::bench]
fn masking_of_an_order() -> usize {
    masking::whole_body(black_box(str::from_utf8(ORDER).expect("text"))).len()
}

/// Each order was sent, and sent again after a lost answer.
#[divan::bench(sample_count = 20)]
fn audit_over_10_000_calls(bencher: divan::Bencher<'_, '_>) {
    let calls: Vec<_> = (0..5000).flat_map(|order| [call(order, 0), call(order, 1)]).collect();
    bencher.bench(|| -> Report {
        judge(black_box(&calls), &[], Thresholds::default(), Reach::whole(OffsetDateTime::UNIX_EPOCH))
    });
}

/// An attempt to create an order; the first one's answer is lost.
fn call(order: u32, attempt: u32) -> Call {
    let no = format!("ORDER_{order}");
    let body = format!(r#"{{"out_trade_no":"{no}","amount":2990,"currency":"USD","subject":"Pro"}}"#);
    let at = OffsetDateTime::UNIX_EPOCH + Duration::from_secs(u64::from(2 * order + attempt));
    Call {
        request_id: RequestId::from_uuid(Uuid::from_u128(u128::from(2 * order + attempt))),
        at,
        received_at: at,
        duration: Duration::from_millis(5),
        method: "POST".to_owned(),
        path: "/v1/orders".to_owned(),
        idempotency_key: Some(format!("key_{order}")),
        body_hash: Some(body_hash(body.as_bytes())),
        request_body: body,
        answer_nos: vec![format!("trd_{order:032x}"), no.clone()],
        order_nos: vec![no],
        refund_nos: Vec::new(),
        outcome: if attempt == 0 { Outcome::Executed } else { Outcome::Replayed },
        status: Some(201),
        code: None,
        answered: attempt == 1,
        client_hung_up: false,
    }
}
