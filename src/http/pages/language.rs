//! The language of a page: the order's, else the one that the buyer's browser prefers, else English.

use axum::http::{HeaderMap, header};

use crate::domain::payment::order::Locale;

/// The language of a page about an order with this locale, or about none.
pub(in crate::http) fn choose(order: Option<Locale>, headers: &HeaderMap) -> Locale {
    order.unwrap_or_else(|| {
        let values = headers.get_all(header::ACCEPT_LANGUAGE).iter();
        preferred(values.filter_map(|value| value.to_str().ok()))
    })
}

/// The supported language that a browser prefers: the one with the highest weight; among equals, the first.
fn preferred<'a>(values: impl Iterator<Item = &'a str>) -> Locale {
    let mut best = (0.0, Locale::En);
    for entry in values.flat_map(|value| value.split(',')) {
        let (range, weight) = entry.split_once(';').map_or((entry, Some(1.0)), |(range, parameter)| {
            let weight = parameter.trim().strip_prefix("q=").and_then(|weight| weight.trim().parse().ok());
            (range, weight.filter(|weight| (0.0..=1.0).contains(weight)))
        });
        if let (Some(locale), Some(weight)) = (of_range(range.trim()), weight)
            && weight > best.0
        {
            best = (weight, locale);
        }
    }
    best.1
}

/// The language of `zh`, `zh-Hant-HK`, `en-US`, `*` and the like.
fn of_range(range: &str) -> Option<Locale> {
    match range.split('-').next()?.to_ascii_lowercase().as_str() {
        "zh" => Some(Locale::Zh),
        "en" | "*" => Some(Locale::En),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_decides_by_weight_then_by_order() {
        for (header, locale) in [
            ("", Locale::En),
            ("zh", Locale::Zh),
            ("zh-TW,zh;q=0.9,en-US;q=0.8,en;q=0.7", Locale::Zh),
            ("en-US,en;q=0.9,zh-TW;q=0.8", Locale::En),
            ("en;q=0.5, ZH-Hant-HK;q=0.8", Locale::Zh),
            ("fr,de;q=0.9,zh;q=0.1", Locale::Zh),
            ("fr,de", Locale::En),
            ("zh;q=0", Locale::En),
            ("zh;q=0,*", Locale::En),
            ("zh;q=2,en;q=0.1", Locale::En),
            ("zhx,;,q=1", Locale::En),
        ] {
            assert_eq!(preferred([header].into_iter()), locale, "{header}");
        }
        assert_eq!(preferred(["fr", "zh"].into_iter()), Locale::Zh);
    }
}
