//! Descriptors received in messages (`SCM_RIGHTS`, unix(7)). Their numbers are in memory, their
//! files in `/proc`. Both are read when the receiving call ends, before the program continues.

use super::target_memory::bytes_at;
use crate::capture::fact::Fact;
use crate::event::SysEnter;
use crate::event::syscall_table::Role;
use crate::sys::proc;
use crate::units::{Fd, Tid};

/// Size of `struct user_msghdr` on a 64-bit machine (`include/linux/socket.h`), and the offsets of
/// address and length of the control data.
const MESSAGE_BYTES: usize = 56;
const CONTROL: usize = 32;
const CONTROL_LENGTH: usize = 40;

/// Size of `struct mmsghdr`: one of several messages.
const MESSAGES_BYTES: u64 = 64;

/// Largest number of messages of one call (`UIO_MAXIOV`).
const MESSAGES_MAX: u64 = 1024;

/// Size of `struct cmsghdr`: total length, level, type.
const HEAD_BYTES: usize = 16;

/// `SOL_SOCKET` and `SCM_RIGHTS` (`include/linux/socket.h`).
const RIGHTS: [u32; 2] = [1, 1];

/// Largest size of control data that is examined: the kernel passes at most 253 descriptors
/// (`SCM_MAX_FD`).
const CONTROL_MAX: usize = 4096;

/// Returns the descriptors that this call has received.
pub(super) fn received(tid: Tid, enter: &SysEnter, ret: i64) -> Vec<Fact> {
    let call = enter.call.call();
    let argument = |role| call.arg(role).and_then(|it| enter.args.get(it)).copied();
    let messages: Vec<u64> = match (argument(Role::Message), argument(Role::Messages)) {
        (Some(message), _) if ret >= 0 => vec![message],
        (None, Some(first)) => {
            let count = u64::try_from(ret).unwrap_or(0).min(MESSAGES_MAX);
            (0..count).map(|it| first.wrapping_add(it * MESSAGES_BYTES)).collect()
        }
        _ => return Vec::new(),
    };
    let fds: Vec<Fd> = messages.into_iter().flat_map(|it| of_message(tid, it)).collect();
    let Some(pid) = (!fds.is_empty()).then(|| proc::process_of(tid)).flatten() else {
        return Vec::new();
    };
    // The descriptors are shared: the sender has them, too, or had them.
    fds.into_iter()
        .filter_map(|fd| proc::descriptor_fact(&proc::descriptor(pid, fd)?, true))
        .collect()
}

fn of_message(tid: Tid, address: u64) -> Vec<Fd> {
    let Ok(message) = bytes_at(tid, address, MESSAGE_BYTES) else { return Vec::new() };
    let number = |at: usize| message.get(at..)?.first_chunk().map(|it| u64::from_le_bytes(*it));
    let length = number(CONTROL_LENGTH).and_then(|it| usize::try_from(it).ok()).unwrap_or(0);
    let Some(control) = number(CONTROL).filter(|_| length >= HEAD_BYTES) else { return Vec::new() };
    bytes_at(tid, control, length.min(CONTROL_MAX)).map_or_else(|_| Vec::new(), |it| rights(&it))
}

/// Returns the descriptors in control data: a sequence of headers with data, each aligned to 8
/// bytes.
fn rights(mut control: &[u8]) -> Vec<Fd> {
    let mut fds = Vec::new();
    while let Some((head, _)) = control.split_at_checked(HEAD_BYTES) {
        let (words, _) = head.as_chunks::<4>();
        let [low, _, level, kind] = *words else { break };
        let Ok(length) = usize::try_from(u32::from_le_bytes(low)) else { break };
        if length < HEAD_BYTES {
            break;
        }
        let data = control.get(HEAD_BYTES..length.min(control.len())).unwrap_or_default();
        if [level, kind].map(u32::from_le_bytes) == RIGHTS {
            fds.extend(data.as_chunks::<4>().0.iter().map(|it| Fd(i32::from_le_bytes(*it))));
        }
        control = control.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    fds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: u32, data: &[i32]) -> Vec<u8> {
        let length = u64::try_from(HEAD_BYTES + 4 * data.len()).expect("short");
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend([1, kind].iter().flat_map(|it| it.to_le_bytes()));
        bytes.extend(data.iter().flat_map(|it| it.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn descriptors_are_found_between_other_things() {
        let credentials = part(2, &[7, 8, 9]);
        let control = [credentials, part(1, &[5]), part(1, &[6, 11])].concat();
        assert_eq!(rights(&control), [Fd(5), Fd(6), Fd(11)]);
        assert_eq!(rights(&control[..control.len() - 8]), [Fd(5)]);
        assert_eq!(rights(&[0; 40]), []);
    }
}
