//! Runs of equal numbers, and packed numbers: the format's encoding of levels and dictionary
//! indices (`RLE`).

/// Numbers that are packed as one.
const GROUP: usize = 8;

/// Returns the bits that the numbers below this one need.
pub(super) fn width_below(numbers: usize) -> u32 {
    usize::BITS - numbers.saturating_sub(1).leading_zeros()
}

/// Appends numbers that have at most so many bits, of 16.
pub(super) fn put_runs(out: &mut Vec<u8>, numbers: &[u32], width: u32) {
    let groups: Vec<&[u32]> = numbers.chunks(GROUP).collect();
    for part in groups.chunk_by(|one, next| only_number(one) == only_number(next)) {
        match part.first().and_then(|group| only_number(group)) {
            Some(number) => {
                let length: u64 = part.iter().map(|group| group.len() as u64).sum();
                put_length(out, length << 1);
                out.extend(number.to_le_bytes().iter().take(width.div_ceil(8) as usize));
            }
            None => {
                put_length(out, (part.len() as u64) << 1 | 1);
                for group in part {
                    let packed = |bits: u128, number: &u32| bits << width | u128::from(*number);
                    let bits = group.iter().rev().fold(0, packed);
                    // Eight numbers have as many bytes as one has bits.
                    out.extend(bits.to_le_bytes().iter().take(width as usize));
                }
            }
        }
    }
}

/// Returns the number of a group that has no other.
fn only_number(group: &[u32]) -> Option<u32> {
    let first = *group.first()?;
    group.iter().all(|number| *number == first).then_some(first)
}

/// Appends a number with seven bits in each byte, of which all but the last have the eighth.
fn put_length(out: &mut Vec<u8>, mut length: u64) {
    let lowest = |length: u64| length.to_le_bytes()[0];
    while length >= 0x80 {
        out.push(lowest(length) | 0x80);
        length >>= 7;
    }
    out.push(lowest(length));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(numbers: &[u32], width: u32) -> Vec<u8> {
        let mut out = Vec::new();
        put_runs(&mut out, numbers, width);
        out
    }

    #[test]
    fn numbers_are_runs_or_packed() {
        assert_eq!([0, 1, 2, 3, 256, 257, 65_536].map(width_below), [0, 0, 1, 2, 8, 9, 16]);
        // The example of the format's description: 0 to 7 in three bits each.
        assert_eq!(runs(&[0, 1, 2, 3, 4, 5, 6, 7], 3), [3, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        assert_eq!(runs(&[1; 100], 1), [0xc8, 1, 1]);
        assert_eq!(runs(&[0x0102; 3], 9), [6, 2, 1]);
        assert_eq!(runs(&[0; 9], 0), [18]);
        // A run of eight, a group of both numbers, and what remains.
        let numbers = [vec![1; 8], vec![0, 1, 1, 1, 1, 1, 1, 1], vec![0; 2]].concat();
        assert_eq!(runs(&numbers, 1), [16, 1, 3, 0xfe, 4, 0]);
        assert!(runs(&[], 5).is_empty());
    }
}
