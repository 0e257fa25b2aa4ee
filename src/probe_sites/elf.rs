//! Parts of an ELF file that matter here: the code, its position in the file, and the beginnings of
//! functions.

use object::elf::{EM_X86_64, FileHeader64, PF_X};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{
    Endianness, Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind,
};

use super::error::SitesError;

/// An executable or a library.
#[derive(Debug)]
pub(super) struct CodeImage<'a> {
    /// Segments with code: address, position in the file, bytes.
    segments: Vec<(u64, u64, &'a [u8])>,
    /// Entries of functions: sorted, each once.
    functions: Vec<u64>,
    /// Exported functions, address and name: sorted.
    exported: Vec<(u64, &'a str)>,
}

/// Header of `.eh_frame_hdr` as all linkers write it: version, then the encodings of its three
/// parts (Linux Standard Base, "Exception Frames": `DW_EH_PE_*`).
const TABLE_HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

impl<'a> CodeImage<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, SitesError> {
        let file: ElfFile64<'a> = ElfFile64::parse(bytes).map_err(|_| SitesError::NoElf)?;
        if file.elf_header().e_machine.get(file.endian()) != EM_X86_64 {
            return Err(SitesError::Machine);
        }
        let mut segments = Vec::new();
        for segment in file.segments() {
            let SegmentFlags::Elf { p_flags } = segment.flags() else { continue };
            if p_flags & PF_X != 0 {
                let code = segment.data().map_err(|_| SitesError::NoElf)?;
                segments.push((segment.address(), segment.file_range().0, code));
            }
        }
        let mut exported: Vec<(u64, &'a str)> = functions(file.dynamic_symbols()).collect();
        exported.sort_unstable();
        let functions = functions(file.symbols()).chain(exported.iter().copied());
        let mut functions: Vec<u64> = functions.map(|function| function.0).collect();
        if let Some(section) = file.section_by_name(".eh_frame_hdr") {
            functions.extend(unwound(section.address(), section.data().unwrap_or_default()));
        }
        functions.sort_unstable();
        functions.dedup();
        Ok(Self { segments, functions, exported })
    }

    /// Creates code at this address, with functions at these entries.
    #[cfg(test)]
    pub(super) fn of(address: u64, code: &'a [u8], functions: &[u64]) -> Self {
        let functions = functions.to_vec();
        Self { segments: vec![(address, 0, code)], functions, exported: Vec::new() }
    }

    /// Exports a function under this name.
    #[cfg(test)]
    pub(super) fn exporting(mut self, function: u64, name: &'a str) -> Self {
        self.exported.push((function, name));
        self
    }

    /// Code of this number of bytes before an address, or as much as there is.
    pub(super) fn before(&self, address: u64, bytes: u64) -> &'a [u8] {
        let start = address.saturating_sub(bytes);
        let length = usize::try_from(address - start).unwrap_or(0);
        self.at(start).get(..length).unwrap_or_default()
    }

    /// Code from this address to the end of its segment; empty outside of segments.
    pub(super) fn at(&self, address: u64) -> &'a [u8] {
        let found = self.segments.iter().find_map(|&(start, _, code)| {
            let place = usize::try_from(address.checked_sub(start)?).ok()?;
            code.get(place..).filter(|code| !code.is_empty())
        });
        found.unwrap_or_default()
    }

    /// Position in the file of the code at this address.
    pub(super) fn file_offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|&(start, offset, code)| {
            let place = address.checked_sub(start)?;
            (place < code.len() as u64).then(|| offset.saturating_add(place))
        })
    }

    /// Entry of the function that contains an address.
    pub(super) fn function_of(&self, address: u64) -> Option<u64> {
        let behind = self.functions.partition_point(|&function| function <= address);
        self.functions.get(behind.checked_sub(1)?).copied()
    }

    /// True if an exported function begins there.
    pub(super) fn is_exported(&self, address: u64) -> bool {
        self.exported.binary_search_by_key(&address, |function| function.0).is_ok()
    }

    /// Entries of the exported functions with this name; versions of a symbol share one.
    pub(super) fn exported_as(&self, name: &str) -> impl Iterator<Item = u64> {
        self.exported.iter().filter(move |function| function.1 == name).map(|function| function.0)
    }

    /// Addresses after all occurrences of these bytes in the code.
    pub(super) fn after(&self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        let in_segment = move |&(start, _, code): &(u64, u64, &'a [u8])| {
            let windows = code.windows(bytes.len().max(1)).zip(0_u64..);
            let equal = windows.filter(move |window| window.0 == bytes);
            let length = bytes.len() as u64;
            equal.map(move |window| start.wrapping_add(window.1).wrapping_add(length))
        };
        self.segments.iter().flat_map(in_segment)
    }

    /// Addresses of these bytes in the code.
    pub(super) fn places(&self, bytes: [u8; 2]) -> impl Iterator<Item = u64> {
        let in_segment = move |&(start, _, code): &(u64, u64, &'a [u8])| {
            let pairs = code.windows(2).zip(0_u64..);
            pairs.filter(move |pair| pair.0 == bytes).map(move |pair| start.wrapping_add(pair.1))
        };
        self.segments.iter().flat_map(in_segment)
    }

    /// Addresses of all bytes that may be a `call` or `jmp` with a 32-bit distance, and their
    /// targets.
    pub(super) fn jumps(&self) -> impl Iterator<Item = (u64, u64)> {
        let in_segment = |&(start, _, code): &(u64, u64, &'a [u8])| {
            let windows = code.windows(5).zip(0_u64..);
            windows.filter_map(move |(bytes, place)| {
                let address = start.wrapping_add(place);
                let (opcode, distance) = bytes.split_first()?;
                let distance = i32::from_le_bytes(distance.try_into().ok()?);
                let target = address.wrapping_add(5).wrapping_add_signed(i64::from(distance));
                matches!(opcode, 0xe8 | 0xe9).then_some((address, target))
            })
        };
        self.segments.iter().flat_map(in_segment)
    }
}

/// Interpreter of a program, as its headers have it.
pub(super) fn interpreter(head: &[u8]) -> Option<String> {
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, head).ok()?;
    let path = headers.iter().find_map(|header| header.interpreter(endian, head).ok()?)?;
    String::from_utf8(path.to_vec()).ok()
}

/// Entries and names of the functions of this symbol table.
fn functions<'a>(
    symbols: impl Iterator<Item = impl ObjectSymbol<'a>>,
) -> impl Iterator<Item = (u64, &'a str)> {
    let own = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    own.map(|function| (function.address(), function.name().unwrap_or_default()))
}

/// Functions of the unwind table: nearly all, even without symbols.
fn unwound(address: u64, table: &[u8]) -> Vec<u64> {
    let Some(rest) = table.strip_prefix(&TABLE_HEADER) else { return Vec::new() };
    // Position of the frames, and number of entries.
    let entries = rest.get(8..).unwrap_or_default();
    let (entries, _) = entries.as_chunks::<8>();
    let function = |&[a, b, c, d, ..]: &[u8; 8]| {
        address.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d])))
    };
    entries.iter().map(function).collect()
}
