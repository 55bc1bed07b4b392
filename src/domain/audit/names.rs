//! One order or refund by two numbers, the merchant's and the gateway's: what a client wrote by the one,
//! it may look up by the other. The gateway's answers tell which belong together.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;

use super::Call;

/// The numbers of the orders and refunds in an answer.
#[derive(Debug, Deserialize)]
#[expect(clippy::struct_field_names, reason = "these are the names on the wire")]
pub(super) struct Numbers {
    pub(super) trade_no: Option<String>,
    pub(super) out_trade_no: Option<String>,
    pub(super) refund_no: Option<String>,
    pub(super) out_refund_no: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Data {
    List { items: Vec<Numbers> },
    Object(Numbers),
}

#[derive(Deserialize)]
struct Success {
    data: Data,
}

/// The orders and refunds that an answer tells of.
pub(super) fn in_answer(call: &Call) -> Vec<Numbers> {
    match serde_json::from_slice(&call.response_body) {
        Ok(Success { data: Data::List { items } }) => items,
        Ok(Success { data: Data::Object(object) }) => vec![object],
        Err(_) => Vec::new(),
    }
}

/// The merchant's number of each order and refund by the gateway's.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    /// Notes which numbers belong together in an answer.
    pub(super) fn learn_from(&mut self, call: &Call) {
        let pairs = in_answer(call)
            .into_iter()
            .flat_map(|it| [(it.trade_no, it.out_trade_no), (it.refund_no, it.out_refund_no)]);
        self.0.extend(pairs.filter_map(|(gateways, merchants)| gateways.zip(merchants)));
    }

    /// The merchant's number for either one; an unknown number stays as it is.
    pub(super) fn merchants<'a>(&'a self, number: Cow<'a, str>) -> Cow<'a, str> {
        self.0.get(number.as_ref()).map_or(number, |known| Cow::Borrowed(known))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn an_answer_tells_which_numbers_belong_together() {
        let mut names = Names::default();
        for body in [
            r#"{"request_id":"req_1","data":{"trade_no":"trd_1","out_trade_no":"A1","amount":1}}"#,
            r#"{"data":{"items":[{"refund_no":"rfd_1","out_refund_no":"R1","trade_no":"trd_1"}],"has_more":false}}"#,
            r#"{"type":"api_error"}"#,
        ] {
            names.learn_from(&Call { response_body: body.into(), ..call() });
        }
        let merchants = |number: &'static str| names.merchants(number.into()).into_owned();
        assert_eq!([merchants("trd_1"), merchants("rfd_1"), merchants("A2")], ["A1", "R1", "A2"]);
    }
}
