//! An order or refund has two numbers, the merchant's and the gateway's. A client may write by one and look up by the
//! other. The gateway's answers show which belong together.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Call;

/// The merchant's number of each order and refund by the gateway's.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    /// Notes which numbers belong together in an answer.
    pub(super) fn learn_from(&mut self, call: &Call) {
        let pairs = call.answered_numbers();
        self.0.extend(pairs.map(|(gateways, merchants)| (gateways.to_owned(), merchants.to_owned())));
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
        let numbers = ["trd_1", "A1", "rfd_1", "R1"].map(str::to_owned).to_vec();
        names.learn_from(&Call { answer_nos: numbers, ..call() });
        let merchants = |number: &'static str| names.merchants(number.into()).into_owned();
        assert_eq!([merchants("trd_1"), merchants("rfd_1"), merchants("A2")], ["A1", "R1", "A2"]);
    }
}
