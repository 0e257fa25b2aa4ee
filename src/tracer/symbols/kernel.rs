//! Functions of the kernel: those of `/proc/kallsyms`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use crate::capture::fact::Symbol;

/// No function of the kernel has so much code, in bytes: what is further behind the last one is in none that has a name.
const KERNEL_FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// The kernel's functions at these addresses.
pub(in super::super) fn functions(addresses: &BTreeSet<u64>) -> io::Result<Vec<Symbol>> {
    if addresses.is_empty() {
        return Ok(Vec::new());
    }
    named_by(addresses, BufReader::new(File::open("/proc/kallsyms")?))
}

/// Where a function begins, its name, and its module's.
type Function = (u64, Vec<u8>, Vec<u8>);

/// By lines `ADDRESS TYPE NAME [MODULE]`, in any order, of which nothing is kept that is not needed.
fn named_by(addresses: &BTreeSet<u64>, mut lines: impl BufRead) -> io::Result<Vec<Symbol>> {
    let addresses: Vec<u64> = addresses.iter().copied().collect();
    // The nearest function before each address that has none nearer to the address before it.
    let mut nearest: Vec<Option<Function>> = vec![None; addresses.len()];
    let mut line = Vec::new();
    let mut is_told = false;
    while {
        line.clear();
        lines.read_until(b'\n', &mut line)? > 0
    } {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|it| !it.is_empty());
        let start = words.next().and_then(|it| std::str::from_utf8(it).ok());
        let start = start.and_then(|it| u64::from_str_radix(it, 16).ok());
        let is_code = words.next().is_some_and(|it| matches!(it, b"t" | b"T" | b"w" | b"W"));
        let (Some(start), Some(name), true) = (start, words.next(), is_code) else { continue };
        is_told |= start != 0;
        // Behind a call: never the first byte of the function.
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
    if !is_told {
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
    fn the_nearest_function_before_an_address_is_it() {
        let start = 0xffff_ffff_8100_0000;
        let of_module = 0xffff_ffff_c000_0009;
        // The last one is in nothing that has a name.
        let addresses = [start + 0x101, start + 0x1ff, start + 0x200, start + 0x201, of_module];
        let addresses = addresses.into_iter().chain([of_module + (1 << 24)]).collect();
        let found = named_by(&addresses, KALLSYMS.as_bytes()).expect("memory");
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        let found: Vec<_> =
            found.iter().map(|it| (text(&it.name), text(&it.module), it.offset)).collect();
        let expected = [
            ("first", "", 1),
            ("first", "", 0xff),
            // Behind the last call of the one before.
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
