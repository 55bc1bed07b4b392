//! The numbers and the error code in a response, for the journal. They are read from the whole body; of the body
//! itself, the journal keeps only the beginning.

use serde::Deserialize;

/// What the journal notes of an answer.
#[derive(Debug, Default)]
pub struct Answer {
    /// The code of an error.
    pub code: Option<String>,
    /// The numbers of the orders and refunds in it: the gateway's and the merchant's in turn.
    pub numbers: Vec<String>,
    /// Whether it is a list, and so not about one order or refund.
    pub is_list: bool,
}

#[derive(Deserialize)]
struct Body {
    code: Option<String>,
    data: Option<Data>,
}

/// An order, a refund, or a list of them.
#[derive(Deserialize)]
struct Data {
    items: Option<Vec<Data>>,
    trade_no: Option<String>,
    out_trade_no: Option<String>,
    refund_no: Option<String>,
    out_refund_no: Option<String>,
}

impl Answer {
    /// Reads a response's body. A body that is not JSON holds nothing.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        let Ok(Body { code, data }) = serde_json::from_slice(body) else { return Self::default() };
        let mut answer = Self { code, ..Self::default() };
        match data {
            Some(Data { items: Some(items), .. }) => {
                answer.is_list = true;
                for item in items {
                    answer.add(item);
                }
            }
            Some(object) => answer.add(object),
            None => {}
        }
        answer
    }

    fn add(&mut self, object: Data) {
        let Data { items: _, trade_no, out_trade_no, refund_no, out_refund_no } = object;
        for (gateways, merchants) in [(refund_no, out_refund_no), (trade_no, out_trade_no)] {
            // Every refund of an order names it.
            if let Some((gateways, merchants)) = gateways.zip(merchants)
                && !self.numbers.contains(&gateways)
            {
                self.numbers.extend([gateways, merchants]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_lists_name_their_numbers_and_errors_their_code() {
        let read = |body: &str| Answer::read(body.as_bytes());
        let order = r#"{"trade_no":"trd_1","out_trade_no":"A1","amount":1}"#;
        assert_eq!(read(&format!(r#"{{"request_id":"req_1","data":{order}}}"#)).numbers, ["trd_1", "A1"]);
        let refund = |no| {
            format!(
                r#"{{"refund_no":"rfd_{no}","out_refund_no":"R{no}","trade_no":"trd_1","out_trade_no":"A1"}}"#
            )
        };
        let list = format!(r#"{{"data":{{"items":[{},{}],"has_more":false}}}}"#, refund(1), refund(2));
        assert_eq!(read(&list).numbers, ["rfd_1", "R1", "trd_1", "A1", "rfd_2", "R2"]);
        assert!(read(&list).is_list && !read(r#"{"data":{}}"#).is_list);
        let error = read(r#"{"type":"api_error","code":"x"}"#);
        assert_eq!((error.code.as_deref(), error.numbers.len()), (Some("x"), 0));
        assert_eq!(read("half of a").numbers.len(), 0);
    }
}
