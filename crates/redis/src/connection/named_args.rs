//! Arguments with names: one MessagePack map in `ARGV[1]`, which a script reads by `cmsgpack`.
//!
//! The writer is our own, because Redis's `cmsgpack` rejects the `bin` types that `rmp-serde` writes
//! for bytes: here text and bytes are both `str`. Lua has no integers above 2^53, so larger numbers
//! travel as text, and larger counts as 2^53.

use bytes::Bytes;

/// The named arguments of a script, or of one item in them.
#[derive(Debug, Clone)]
pub(crate) struct NamedArgs {
    packed: Vec<u8>,
    count: u32,
}

impl NamedArgs {
    pub(crate) fn new() -> Self {
        Self { packed: vec![MAP_32, 0, 0, 0, 0], count: 0 }
    }

    /// Adds an argument. One that is `None` is left out, and `nil` in the script.
    pub(crate) fn set(&mut self, name: &str, value: impl Pack) {
        if value.is_absent() {
            return;
        }
        name.pack(&mut self.packed);
        value.pack(&mut self.packed);
        self.count += 1;
        self.packed[1..HEADER_BYTES].copy_from_slice(&self.count.to_be_bytes());
    }

    /// Adds an argument, as [`set`](Self::set).
    pub(crate) fn with(mut self, name: &str, value: impl Pack) -> Self {
        self.set(name, value);
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.packed
    }
}

/// A value that is packed already.
#[derive(Debug)]
pub(crate) struct Packed(pub(crate) Vec<u8>);

/// A value of a named argument.
pub(crate) trait Pack {
    fn pack(&self, out: &mut Vec<u8>);

    /// Whether there is no value.
    fn is_absent(&self) -> bool {
        false
    }
}

const NIL: u8 = 0xc0;
const FALSE: u8 = 0xc2;
const TRUE: u8 = 0xc3;
const UINT_64: u8 = 0xcf;
const INT_64: u8 = 0xd3;
const STR_8: u8 = 0xd9;
const STR_32: u8 = 0xdb;
const ARRAY_32: u8 = 0xdd;
const MAP_32: u8 = 0xdf;

/// Bytes of a map's type and length.
const HEADER_BYTES: usize = 5;

/// The largest integer that Lua keeps exactly.
const MAX_INTEGER: u64 = 1 << 53;

impl Pack for [u8] {
    fn pack(&self, out: &mut Vec<u8>) {
        match u8::try_from(self.len()) {
            // Up to 31 bytes have their length in the type.
            Ok(length) if length < 32 => out.push(0xa0 | length),
            Ok(length) => out.extend([STR_8, length]),
            Err(_) => {
                out.push(STR_32);
                push_length(out, self.len());
            }
        }
        out.extend_from_slice(self);
    }
}

impl Pack for str {
    fn pack(&self, out: &mut Vec<u8>) {
        self.as_bytes().pack(out);
    }
}

impl Pack for String {
    fn pack(&self, out: &mut Vec<u8>) {
        self.as_bytes().pack(out);
    }
}

impl Pack for Bytes {
    fn pack(&self, out: &mut Vec<u8>) {
        self[..].pack(out);
    }
}

impl Pack for bool {
    fn pack(&self, out: &mut Vec<u8>) {
        out.push(if *self { TRUE } else { FALSE });
    }
}

impl Pack for u64 {
    fn pack(&self, out: &mut Vec<u8>) {
        match u8::try_from(*self) {
            Ok(small) if small < 128 => out.push(small),
            _ if *self <= MAX_INTEGER => {
                out.push(UINT_64);
                out.extend(self.to_be_bytes());
            }
            _ => self.to_string().pack(out),
        }
    }
}

impl Pack for i64 {
    fn pack(&self, out: &mut Vec<u8>) {
        match u64::try_from(*self) {
            Ok(number) => number.pack(out),
            Err(_) if self.unsigned_abs() <= MAX_INTEGER => {
                out.push(INT_64);
                out.extend(self.to_be_bytes());
            }
            Err(_) => self.to_string().pack(out),
        }
    }
}

impl Pack for u32 {
    fn pack(&self, out: &mut Vec<u8>) {
        u64::from(*self).pack(out);
    }
}

impl Pack for usize {
    fn pack(&self, out: &mut Vec<u8>) {
        // A count: more than Lua can keep is as good as unlimited.
        (*self as u64).min(MAX_INTEGER).pack(out);
    }
}

impl Pack for NamedArgs {
    fn pack(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packed);
    }
}

impl Pack for Packed {
    fn pack(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl<T: Pack> Pack for [T] {
    fn pack(&self, out: &mut Vec<u8>) {
        out.push(ARRAY_32);
        push_length(out, self.len());
        self.iter().for_each(|item| item.pack(out));
    }
}

impl<T: Pack, const N: usize> Pack for [T; N] {
    fn pack(&self, out: &mut Vec<u8>) {
        self[..].pack(out);
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, out: &mut Vec<u8>) {
        self[..].pack(out);
    }
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.pack(out),
            None => out.push(NIL),
        }
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Pack + ?Sized> Pack for &T {
    fn pack(&self, out: &mut Vec<u8>) {
        (**self).pack(out);
    }

    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(value: impl Pack) -> Vec<u8> {
        let mut out = Vec::new();
        value.pack(&mut out);
        out
    }

    #[test]
    fn bytes_are_written_as_str_which_scripts_can_read() {
        assert_eq!(packed(&b"\xff"[..]), [0xa1, 0xff]);
        assert_eq!(packed(&[7_u8; 32][..])[..2], [STR_8, 32]);
        assert_eq!(packed(&[7_u8; 256][..])[..5], [STR_32, 0, 0, 1, 0]);
    }

    #[test]
    fn numbers_that_lua_cannot_keep_travel_as_text() {
        assert_eq!(packed(127_u64), [127]);
        assert_eq!(packed(128_u64), [UINT_64, 0, 0, 0, 0, 0, 0, 0, 128]);
        assert_eq!(packed(-1_i64)[0], INT_64);
        assert_eq!(packed(MAX_INTEGER)[0], UINT_64);
        assert_eq!(packed(MAX_INTEGER + 1), packed("9007199254740993"));
        assert_eq!(packed(i64::MIN), packed("-9223372036854775808"));
        assert_eq!(packed(usize::MAX), packed(MAX_INTEGER));
    }

    #[test]
    fn an_absent_argument_is_left_out() {
        let args = NamedArgs::new().with("a", None::<u64>).with("b", vec!["c"]).with("d", true);
        let expected =
            [&[MAP_32, 0, 0, 0, 2, 0xa1, b'b', ARRAY_32, 0, 0, 0, 1, 0xa1, b'c', 0xa1, b'd', TRUE][..]];
        assert_eq!(args.as_bytes(), expected.concat());
    }
}
