//! Looking for separators.

/// Where the needle that ends first begins and ends; the shorter one of two that end together.
pub(super) fn find_first(haystack: &[u8], needles: &[&[u8]]) -> Option<(usize, usize)> {
    let mut found: Option<(usize, usize)> = None;
    for needle in needles {
        // Nothing that ends later is of interest.
        let within = found.map_or(haystack, |(_, end)| &haystack[..end]);
        if let Some(start) = find(within, needle) {
            let end = start + needle.len();
            if found.is_none_or(|(other, other_end)| (end, other) < (other_end, start)) {
                found = Some((start, end));
            }
        }
    }
    found
}

/// Where `needle` begins. Linear for the short separators of line protocols.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    match needle {
        [byte] => haystack.iter().position(|other| other == byte),
        _ => haystack.windows(needle.len()).position(|window| window == needle),
    }
}
