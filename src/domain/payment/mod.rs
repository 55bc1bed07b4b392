//! What is paid: orders, refunds and their numbers, money, test cards, and the buyer's page.

pub mod card;
pub mod checkout;
pub mod checkout_token;
pub mod money;
pub mod number;
pub mod order;
pub mod refund;
