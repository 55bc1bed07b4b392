//! Identifiers that the gateway gives out: a prefix and 32 lower-case hex digits over a UUID.
//! The merchant's own numbers are in `number`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::domain::time::real_time;

/// A text that is not an identifier of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnId;

macro_rules! prefixed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $generate:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// A new identifier that no other call returns.
            #[must_use]
            pub fn generate() -> Self {
                Self($generate)
            }

            /// The identifier over a stored UUID.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// What the database stores.
            #[must_use]
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let hex = text.strip_prefix($prefix).ok_or(NotAnId)?;
                let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                if hex.len() != 32 || !hex.bytes().all(is_hex) {
                    return Err(NotAnId);
                }
                Uuid::try_parse(hex).map(Self).map_err(|_| NotAnId)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

prefixed_id! {
    /// The gateway's number of an order, `trd_…`; sorts by time of creation (contract, section 2).
    TradeNo, "trd_", real_time::new_uuid()
}
prefixed_id! {
    /// The gateway's number of a refund, `rfd_…`; sorts by time of creation (contract, section 3).
    RefundNo, "rfd_", real_time::new_uuid()
}
prefixed_id! {
    /// An event, `evt_…`; sorts by time of creation.
    EventId, "evt_", real_time::new_uuid()
}
prefixed_id! {
    /// A fault rule, `flt_…`; sorts by time of creation.
    FaultId, "flt_", real_time::new_uuid()
}
prefixed_id! {
    /// One HTTP request and its response, `req_…` (contract, section 1); sorts by time of arrival.
    RequestId, "req_", real_time::new_uuid()
}

/// One merchant: all that one API key owns. Derived from the key's digest, see `api_key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MerchantId(Uuid);

impl MerchantId {
    /// The merchant over a stored UUID.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// What the database stores.
    #[must_use]
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_only_in_its_own_exact_form() {
        let id = TradeNo::generate();
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(text.to_uppercase().parse::<TradeNo>(), Err(NotAnId));
        assert_eq!(text.parse::<RefundNo>(), Err(NotAnId));
        assert_eq!(text[..35].parse::<TradeNo>(), Err(NotAnId));
    }

    #[test]
    fn trade_numbers_sort_by_time_of_creation() {
        let ids: Vec<_> = (0..1000).map(|_| TradeNo::generate().to_string()).collect();
        assert!(ids.is_sorted());
    }
}
