//! What is judged of calls that are not known whole: broken uploads, bodies that were cut, and a journal that lacks
//! calls.

use serde_json::json;

use super::rules::End::{Broken, Code, Lost, Status};
use super::rules::{Journal, ORDER, TRADE_NO};
use super::{rule_names, whole};
use crate::domain::audit::Reach;

#[test]
fn what_came_of_a_broken_upload_is_unknown_and_any_next_step_may_have_found_it_out() {
    let finding = Journal::new().order("k1", ORDER, Broken).finding("gave_up");
    assert_eq!(finding["request_ids"], json!([1]));
    let order = json!({"data": {"trade_no": TRADE_NO, "out_trade_no": "A1"}});
    Journal::new().order("k1", ORDER, Broken).get("/v1/orders/A1", 200, &order).passes();
    Journal::new().order("k1", ORDER, Broken).pause(500).order("k2", ORDER, Status(201)).passes();
    // Its own key has no body yet: the whole body that follows may be any.
    let other = r#"{"out_trade_no":"A1","amount":2991}"#;
    Journal::new().order("k1", ORDER, Broken).pause(500).order("k1", other, Status(201)).passes();
    let mut journal = Journal::new();
    journal.call("POST /v1/orders/A1/close", Some("c1"), "{}", Broken).finding("gave_up");
}

#[test]
fn bodies_that_differ_beyond_what_is_kept_have_changed() {
    let mut journal = Journal::new();
    let refused = Code(400, "idempotency_key_reused");
    journal.order("k1", ORDER, Lost).pause(500).order("k1", ORDER, refused);
    journal.calls[1].body_hash = Some(0);
    let finding = journal.finding("body_changed");
    assert!(finding["message"].as_str().unwrap().ends_with("with another body."));
    // And one that was mended there is not the same request.
    let mut journal = Journal::new();
    let invalid = Code(400, "amount_invalid");
    journal.order("k1", ORDER, invalid).order("k2", ORDER, invalid);
    journal.calls[1].body_hash = Some(0);
    journal.passes();
}

#[test]
fn nothing_is_found_that_a_missing_call_would_explain() {
    let mut journal = Journal::new();
    journal.order("k1", ORDER, Lost).pause(500).order("k2", ORDER, Status(200)).pause(500);
    journal.order("k3", r#"{"out_trade_no":"A2"}"#, Status(500));
    let [first, second, third] = [0, 1, 2].map(|call| journal.calls[call].received_at);
    let found = |reach: Reach| rule_names(&journal.judged(reach)).into_iter().collect::<Vec<_>>();
    assert_eq!(found(whole()), ["gave_up", "new_key_per_retry"]);
    // Before the first: its operation is whole, and the one that ended unknown may have been done before.
    assert_eq!(found(Reach { missing_before: Some(first), ..whole() }), ["new_key_per_retry"]);
    assert_eq!(found(Reach { missing_before: Some(second), ..whole() }), Vec::<String>::new());
    // After the last: a retry may be missing; and what came later is not judged.
    assert_eq!(found(Reach { missing_after: Some(third), ..whole() }), ["new_key_per_retry"]);
    assert_eq!(found(Reach { missing_after: Some(first), ..whole() }), Vec::<String>::new());
    let report = journal.judged(Reach { missing_after: Some(first), dropped: 3, ..whole() });
    assert_eq!(
        serde_json::to_value(report.journal).unwrap(),
        json!({"complete": false, "dropped": 3, "through": "2026-11-04T08:30:00.000Z"})
    );
    // No call that is missing gives a write its key.
    let mut journal = Journal::new();
    journal.order("", ORDER, Status(201));
    let reach = Reach { missing_before: Some(journal.real), missing_after: Some(journal.real), ..whole() };
    assert_eq!(rule_names(&journal.judged(reach)), ["missing_key".to_owned()].into());
}
