//! Growing tables.

/// Makes room for `wanted` elements in all: a quarter more than that, and not twice as many as there were,
/// for of a table with a place for each descriptor half would lie idle. Amortised O(1) an element.
pub(crate) fn make_room<T>(table: &mut Vec<T>, wanted: usize) {
    if table.capacity() < wanted {
        table.reserve_exact(wanted + wanted / 4 + 4 - table.len());
    }
}
