//! What the compiler refuses, as tests. Functions bear the ids of what they show, for `cargo test` to list.

/// Two reads of one stream cannot wait at once (B-STR-11):
///
/// ```compile_fail,E0499
/// # fn example(mut reader: loop_net::StreamReader) {
/// let first = reader.read(10);
/// let second = reader.read_line();
/// drop((first, second));
/// # }
/// ```
///
/// One after the other they can:
///
/// ```
/// # fn example(mut reader: loop_net::StreamReader) {
/// let first = reader.read(10);
/// drop(first);
/// let second = reader.read_line();
/// drop(second);
/// # }
/// ```
pub fn b_str_11_two_reads_cannot_wait_at_once() {}
