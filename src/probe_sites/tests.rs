use super::*;

/// Address of the tests' code.
const CODE: u64 = 0x1000;
/// Address of a second function in it.
const SECOND: u64 = 0x1040;

/// Checks the sites of this code, as `POSITION REGISTERS CALLS`, with an asterisk where the kernel
/// emulates; then the hidden calls, and the number of unknown ones.
#[track_caller]
fn check(code: &[&[u8]], second: &[&[u8]], expected: &str) {
    let mut bytes = code.concat();
    bytes.resize(usize::try_from(SECOND - CODE).expect("small"), 0x90);
    bytes.extend(second.concat());
    let wanted: Vec<CallId> = CallId::all().filter(|call| call.call().has_path()).collect();
    let sites = find_in(&CodeImage::of(CODE, &bytes, &[CODE, SECOND]), &wanted);
    let names = |calls: &mut dyn Iterator<Item = &CallId>| {
        calls.map(|call| call.call().name).collect::<Vec<_>>().join(",")
    };
    let site = |site: &Site| {
        let star = if site.emulated { "*" } else { "" };
        let (registers, calls) = (site.registers.join(","), names(&mut site.calls.iter()));
        format!("{}{star} {registers} {calls}", site.offset)
    };
    let mut found: Vec<String> = sites.sites.iter().map(site).collect();
    if !sites.hidden.is_empty() {
        found.push(format!("hidden {}", names(&mut sites.hidden.iter())));
    }
    if sites.unknown > 0 {
        found.push(format!("unknown {}", sites.unknown));
    }
    assert_eq!(found.join("; "), expected);
}

const RET: &[u8] = &[0xc3];
const SYSCALL: &[u8] = &[0x0f, 0x05];
/// `mov $NUMBER,%eax`.
const RENAME: &[u8] = &[0xb8, 0x52, 0, 0, 0];
const UNLINK: &[u8] = &[0xb8, 0x57, 0, 0, 0];
const OPENAT: &[u8] = &[0xb8, 0x01, 0x01, 0, 0];
const FUTEX: &[u8] = &[0xb8, 0xca, 0, 0, 0];

#[test]
fn the_instruction_before_a_plain_call() {
    check(&[UNLINK, SYSCALL, RET], &[], "0 di unlink");
    check(&[RENAME, SYSCALL, RET], &[], "0 di,si rename");
    check(&[FUTEX, SYSCALL, RET], &[], "");
}

/// `test $0x40,%sil; jne .; mov %rdi,%rsi; mov $-100,%edi`.
#[test]
fn emulated_instruction_is_preferred() {
    let before: &[&[u8]] = &[
        &[0x40, 0xf6, 0xc6, 0x40],
        &[0x75, 0x00],
        &[0x48, 0x89, 0xfe],
        &[0xbf, 0x9c, 0xff, 0xff, 0xff],
    ];
    check(&[before, &[OPENAT, SYSCALL, RET]].concat(), &[], "4* di openat");
}

/// `test %esi,%esi; je` to after the call.
#[test]
fn instruction_before_a_return_is_not_a_site() {
    check(&[&[0x85, 0xf6], &[0x74, 0x07], UNLINK, SYSCALL, RET], &[], "4 di unlink");
}

/// `cmpb $0,(%rdx); je` to a second call; one position is on the path to both.
#[test]
fn one_site_serves_two_calls() {
    let code: &[&[u8]] =
        &[&[0x80, 0x3a, 0], &[0x74, 0x08], UNLINK, SYSCALL, RET, UNLINK, SYSCALL, RET];
    check(code, &[], "3* di unlink");
}

/// `sub $24,%rsp; mov %rdi,8(%rsp); movl $7,4(%rsp); call SECOND; mov 8(%rsp),%rdi`.
#[test]
fn a_path_is_followed_over_the_stack() {
    let kept = |store: &[u8]| {
        let call = [0xe8, 0x29, 0, 0, 0];
        let code: &[&[u8]] = &[
            &[0x48, 0x83, 0xec, 0x18],
            &[0x48, 0x89, 0x7c, 0x24, 0x08],
            store,
            &call,
            &[0x48, 0x8b, 0x7c, 0x24, 0x08],
            UNLINK,
            SYSCALL,
            RET,
        ];
        code.iter().map(|code| code.to_vec()).collect::<Vec<_>>()
    };
    let check = |store: &[u8], expected| {
        let code = kept(store);
        let code: Vec<&[u8]> = code.iter().map(Vec::as_slice).collect();
        check(&code, &[RET], expected);
    };
    check(&[0xc7, 0x44, 0x24, 0x04, 7, 0, 0, 0], "17* di unlink");
    // Another path is stored there: `movl $7,12(%rsp)`.
    check(&[0xc7, 0x44, 0x24, 0x0c, 7, 0, 0, 0], "27 di unlink");
}

/// `mov %rdi,%rsi; mov $87,%edi; call SECOND`, which is `mov %rdi,%rax; mov %rsi,%rdi; syscall`.
#[test]
fn syscall_wrapper_is_found() {
    let forwarder: &[&[u8]] = &[&[0x48, 0x89, 0xf8], &[0x48, 0x89, 0xf7], SYSCALL, RET];
    let caller: &[&[u8]] =
        &[&[0x48, 0x89, 0xfe], &[0xbf, 0x57, 0, 0, 0], &[0xe8, 0x33, 0, 0, 0], RET];
    check(caller, forwarder, "8* si unlink");
}

/// `push $87; call SECOND`, which is `mov 8(%rsp),%rax; syscall`.
#[test]
fn a_number_on_the_stack() {
    let forwarder: &[&[u8]] = &[&[0x48, 0x8b, 0x44, 0x24, 0x08], SYSCALL, RET];
    let caller: &[&[u8]] = &[&[0x6a, 0x57], &[0xe8, 0x39, 0, 0, 0], &[0x58], RET];
    check(caller, forwarder, "2* di unlink");
}

/// `mov (%rdi),%eax`.
#[test]
fn unknown_call_number_is_reported() {
    check(&[&[0x8b, 0x07], SYSCALL, RET], &[], "unknown 1");
}

#[test]
fn call_outside_functions_is_reported() {
    let bytes = [UNLINK, SYSCALL, RET].concat();
    let unlink: Vec<CallId> = CallId::by_name("unlink").into_iter().collect();
    let sites = find_in(&CodeImage::of(CODE, &bytes, &[]), &unlink);
    assert_eq!(sites, Sites { unknown: 1, ..Sites::default() });
}

/// `mov (%rdi),%rdi` directly before the call: only the call itself would be suitable, which is not
/// permitted.
#[test]
fn syscall_instruction_is_never_a_site() {
    check(&[UNLINK, &[0x48, 0x8b, 0x3f], SYSCALL, RET], &[], "hidden unlink");
}

/// `xor %edi,%edi`.
#[test]
fn call_without_a_path_has_no_site() {
    check(&[&[0x31, 0xff], UNLINK, SYSCALL, RET], &[], "");
}

#[test]
fn non_elf_file_has_no_sites() {
    assert_eq!(find(b"#!/bin/sh", &[]), Err(SitesError::NoElf));
    assert_eq!(interpreter(b"#!/bin/sh"), None);
}

/// The C library of the test process.
#[test]
fn sites_of_the_loaded_library_are_found() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    let path = maps.lines().find_map(|line| {
        line.split_whitespace().nth(5).filter(|path| path.ends_with("/libc.so.6"))
    });
    // Other C libraries, or architectures, may differ from the following.
    let Some(path) = path.filter(|_| cfg!(target_arch = "x86_64")) else { return };
    let bytes = std::fs::read(path).expect("readable");
    let wanted: Vec<CallId> = CallId::default_set().filter(|call| call.call().has_path()).collect();
    let sites = find(&bytes, &wanted).expect("an ELF file");
    for call in ["openat", "unlink", "rename", "mkdir", "chdir", "truncate"] {
        let call = CallId::by_name(call).expect("in the table");
        let places: Vec<&Site> =
            sites.sites.iter().filter(|site| site.calls.contains(&call)).collect();
        assert!(!places.is_empty(), "{call:?}");
        let is_open = call.call().name == "openat";
        // `syscall(2)` is rarely used for this call.
        let mut places = places.into_iter().filter(|place| place.number.is_none());
        assert!(
            !is_open || places.all(|place| place.emulated),
            "an open is made often: {:?}",
            sites.sites
        );
    }
    let of_all: Vec<_> = sites.sites.iter().filter_map(|site| site.number).collect();
    assert_eq!(of_all, ["di"], "syscall(2)");
    for site in &sites.sites {
        let at = usize::try_from(site.offset).expect("in the file");
        assert_ne!(bytes.get(at..at + 2), Some(SYSCALL), "{site:?}");
    }
    assert_eq!(sites.hidden, [], "none is made where it cannot be seen");
}

/// `mov %rdi,%rax; mov %rsi,%rdi; mov %rdx,%rsi; syscall; ret`: the code of `syscall(2)`.
#[test]
fn exported_function_is_probed_at_its_entry() {
    let forwarder: &[&[u8]] =
        &[&[0x48, 0x89, 0xf8], &[0x48, 0x89, 0xf7], &[0x48, 0x89, 0xd6], SYSCALL, RET];
    let bytes = forwarder.concat();
    let call = |name| CallId::by_name(name).expect(name);
    let wanted = ["unlink", "rename", "read"].map(call);
    let hidden = find_in(&CodeImage::of(CODE, &bytes, &[CODE]), &wanted);
    assert_eq!(hidden.sites, []);
    let sites =
        find_in(&CodeImage::of(CODE, &bytes, &[CODE]).exporting(CODE, "syscall"), &wanted).sites;
    let expected = Site {
        offset: 0,
        registers: vec!["dx", "si"],
        calls: BTreeSet::from([call("unlink"), call("rename")]),
        emulated: false,
        number: Some("di"),
    };
    assert_eq!(sites, [expected]);
}
