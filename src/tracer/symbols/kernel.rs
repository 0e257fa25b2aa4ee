//! Functions of the kernel, from `/proc/kallsyms`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use crate::capture::fact::Symbol;

/// Largest size of a kernel function, in bytes: an address further after the last function belongs
/// to no named function.
const KERNEL_FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// Returns the kernel's functions at these addresses.
pub(in super::super) fn functions(addresses: &BTreeSet<u64>) -> io::Result<Vec<Symbol>> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    named_by(addresses, BufReader::new(File::open("/proc/kallsyms")?))
}

/// Start of a function, its name, and the name of its module.
type Function = (u64, Vec<u8>, Vec<u8>);

/// Parses lines `ADDRESS TYPE NAME [MODULE]`, in any order, and stores only the needed ones.
fn named_by(addresses: &BTreeSet<u64>, mut lines: impl BufRead) -> io::Result<Vec<Symbol>> {
    let addresses: Vec<u64> = addresses.iter().copied().collect();
    // For each address, the nearest function before it, unless that is also before the previous
    // address.
    let mut nearest: Vec<Option<Function>> = vec![None; addresses.len()];
    let mut line = Vec::new();
    let mut has_addresses = false;
    while {
        line.clear();
        lines.read_until(b'\n', &mut line)? > 0
    } {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty());
        let start = words.next().and_then(|it| std::str::from_utf8(it).ok());
        let start = start.and_then(|it| u64::from_str_radix(it, 16).ok());
        let is_code = words.next().is_some_and(|it| matches!(it, b"t" | b"T" | b"w" | b"W"));
        let (Some(start), Some(name), true) = (start, words.next(), is_code) else { continue };
        has_addresses |= start != 0;
        // The address is a return address: never the first byte of the function.
        let place = addresses.partition_point(|it| *it <= start);
        if let Some(nearest) = nearest.get_mut(place)
            && start != 0
            && nearest.as_ref().is_none_or(|it| it.0 < start)
        {
            let module = words.next().unwrap_or_default();
            let module = module.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]"));
            *nearest = Some((start, name.to_vec(), module.unwrap_or_default().to_vec()));
        }
    }
    if !has_addresses {
        return Err(io::Error::other("kernel.kptr_restrict hides their addresses"));
    }
    let mut last = None;
    let mut named = Vec::new();
    for (address, found) in addresses.into_iter().zip(nearest) {
        last = found.or(last);
        if let Some((start, name, module)) = &last
            && address - start <= KERNEL_FUNCTION_BYTES_MAX
        {
            let (name, module) = (name.clone(), module.clone());
            named.push(Symbol {
                address,
                name,
                module,
                offset: address - start,
                ..Symbol::default()
            });
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000000 T _text
ffffffff81000100 t first
ffffffff81000180 d data
ffffffffc0000000 t of_module\t[loop]
ffffffff81000200 T second
";

    #[test]
    fn nearest_function_before_an_address_is_found() {
        let start = 0xffff_ffff_8100_0000;
        let of_module = 0xffff_ffff_c000_0009;
        // The last address is in no named function.
        let addresses = [start + 0x101, start + 0x1ff, start + 0x200, start + 0x201, of_module];
        let addresses = addresses.into_iter().chain([of_module + (1 << 24)]).collect();
        let found = named_by(&addresses, KALLSYMS.as_bytes()).expect("memory");
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        let found: Vec<_> =
            found.iter().map(|it| (text(&it.name), text(&it.module), it.offset)).collect();
        let expected = [
            ("first", "", 1),
            ("first", "", 0xff),
            // The return address of the last call in the previous function.
            ("first", "", 0x100),
            ("second", "", 1),
            ("of_module", "loop", 9),
        ];
        let expected = expected.map(|(name, module, at)| (name.to_owned(), module.to_owned(), at));
        assert_eq!(found, expected);
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t first\n";
        let error =
            named_by(&[0xffff_ffff_8100_0000].into(), hidden.as_bytes()).expect_err("hidden");
        assert!(error.to_string().contains("kptr_restrict"));
    }
}
