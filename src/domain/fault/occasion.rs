//! An occasion: what a call or a delivery is about, seen from outside, so that a fault rule can match it and the
//! journal can find it. Its numbers are read even if the rest of it is wrong.

use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::form_urlencoded;

use crate::domain::code::Code;
use crate::domain::id::{RefundNo, TradeNo};
use crate::domain::journal::answer::Answer;
use crate::domain::masking;
use crate::domain::payment::number::MerchantNumber;
use crate::domain::webhook::event::EventType;

/// What is known of a call or a delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Occasion {
    /// The HTTP method; `None` for a delivery.
    pub method: Option<String>,
    /// The path without its query; `None` for a delivery.
    pub path: Option<String>,
    /// The numbers of orders that it names, the merchant's and the gateway's.
    pub order_nos: Vec<String>,
    /// The numbers of refunds that it names, the merchant's and the gateway's.
    pub refund_nos: Vec<String>,
    /// The type of the event; `None` for a call.
    pub event_type: Option<&'static str>,
}

impl Occasion {
    /// The occasion of a request, by its path, its query and its body.
    #[must_use]
    pub fn of_request(method: &str, path: &str, query: Option<&str>, body: &[u8]) -> Self {
        let mut occasion =
            Self { method: Some(method.to_owned()), path: Some(path.to_owned()), ..Self::default() };
        let mut segments = path.split('/').skip(2);
        if let (Some(kind), Some(no)) = (segments.next(), segments.next()) {
            let no = percent_decode_str(no).decode_utf8_lossy();
            let numbers = if kind == "refunds" { &mut occasion.refund_nos } else { &mut occasion.order_nos };
            add(numbers, &no);
        }
        // The body comes first: the first number of a write is its own.
        if let Ok(body) = serde_json::from_slice(body) {
            occasion.learn_from_object(&body);
        }
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if name == "out_trade_no" {
                add(&mut occasion.order_nos, &value);
            }
        }
        occasion
    }

    /// The occasion of an event that is about to be delivered.
    #[must_use]
    pub fn of_event(event_type: EventType, payload: &str) -> Self {
        let mut occasion = Self { event_type: Some(event_type.code()), ..Self::default() };
        if let Ok(payload) = serde_json::from_str::<Value>(payload) {
            occasion.learn_from_object(&payload["data"]["object"]);
        }
        occasion
    }

    /// Adds the numbers of the order or refund in an answer; those of a list do not count.
    pub fn learn_from_answer(&mut self, answer: &Answer) {
        for [gateways, merchants] in answer.numbers.as_chunks().0.iter().filter(|_| !answer.is_list) {
            let is_refund = gateways.parse::<RefundNo>().is_ok();
            let numbers = if is_refund { &mut self.refund_nos } else { &mut self.order_nos };
            add(numbers, merchants);
            add(numbers, gateways);
        }
    }

    fn learn_from_object(&mut self, object: &Value) {
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        add(&mut self.order_nos, text("out_trade_no"));
        add(&mut self.order_nos, text("trade_no"));
        add(&mut self.refund_nos, text("out_refund_no"));
        add(&mut self.refund_nos, text("refund_no"));
    }

    /// Whether a text is one of the numbers that are named.
    #[must_use]
    pub fn names(&self, text: &str) -> bool {
        self.order_nos.iter().chain(&self.refund_nos).any(|number| number == text)
    }
}

/// Adds a number, if it has the form of one.
fn add(numbers: &mut Vec<String>, no: &str) {
    let is_number =
        MerchantNumber::new(no).is_some() || no.parse::<TradeNo>().is_ok() || no.parse::<RefundNo>().is_ok();
    // An API key in the place of a number goes no further.
    if is_number && !masking::holds_api_key(no) && !numbers.iter().any(|number| number == no) {
        numbers.push(no.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(target: &str, body: &str) -> (Vec<String>, Vec<String>) {
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let occasion = Occasion::of_request("POST", path, query, body.as_bytes());
        assert_eq!(occasion.path.as_deref(), Some(path));
        (occasion.order_nos, occasion.refund_nos)
    }

    #[test]
    fn a_request_names_its_numbers_in_path_query_or_body() {
        let (a1, r1) = (vec!["A1".to_owned()], vec!["R1".to_owned()]);
        let none = Vec::new;
        assert_eq!(read("/v1/orders", r#"{"out_trade_no":"A1","amount":1}"#), (a1.clone(), none()));
        assert_eq!(
            read("/v1/refunds", r#"{"out_refund_no":"R1","out_trade_no":"A1"}"#),
            (a1.clone(), r1.clone())
        );
        assert_eq!(read("/v1/orders/A%31/close", "{}"), (a1.clone(), none()));
        assert_eq!(read("/v1/refunds/R1", ""), (none(), r1));
        assert_eq!(read("/v1/refunds?limit=1&out_trade_no=A1", ""), (a1, none()));
        for nothing in [
            "",
            "[]",
            "{",
            r#"{"out_trade_no":"kuko_live_abcdefgh"}"#,
            r#"{"out_trade_no":1}"#,
            r#"{"out_trade_no":"A 1"}"#,
        ] {
            assert_eq!(read("/v1/orders", nothing), (none(), none()), "{nothing}");
        }
    }

    #[test]
    fn responses_and_events_name_both_kinds_of_numbers() {
        let trade_no = TradeNo::generate().to_string();
        let object = format!(r#"{{"out_trade_no":"A1","trade_no":"{trade_no}"}}"#);
        let mut call = Occasion::of_request("GET", "/v1/orders/A1", None, b"");
        let mut learn = |body: &str| call.learn_from_answer(&Answer::read(body.as_bytes()));
        learn(&format!(r#"{{"data":{object}}}"#));
        learn(&format!(
            r#"{{"data":{{"items":[{{"out_trade_no":"B","trade_no":"{}"}}]}}}}"#,
            TradeNo::generate()
        ));
        assert_eq!(call.order_nos, ["A1".to_owned(), trade_no.clone()]);
        assert!(call.names("A1") && call.names(&trade_no) && !call.names("B"));
        let event =
            Occasion::of_event(EventType::OrderClosed, &format!(r#"{{"data":{{"object":{object}}}}}"#));
        assert_eq!((event.event_type, event.order_nos), (Some("order.closed"), call.order_nos));
    }
}
