//! Rows by kind of operation and class of I/O. That of a system call is found without a search.

use super::bounded_map::BoundedMap;
use super::completed_op::OpKind;
use crate::operation::io_class::IoClass;

/// Number of classes of I/O.
const CLASSES: usize = 4;

/// Mark of a call that has no row yet.
const NO_ROW: usize = usize::MAX;

/// Rows by kind of operation and class of I/O.
#[derive(Clone, Debug)]
pub struct OpKindRows<V> {
    /// Numbers of the rows of system calls, [`CLASSES`] for each of them.
    of_calls: Vec<usize>,
    rows: BoundedMap<(OpKind, IoClass), V>,
}

impl<V> Default for OpKindRows<V> {
    fn default() -> Self {
        Self { of_calls: Vec::new(), rows: BoundedMap::default() }
    }
}

/// Returns the place of a system call in the numbers; `None`: the operation is none.
fn place_of_call(what: OpKind, io: IoClass) -> Option<usize> {
    let OpKind::Call(call) = what else { return None };
    let class = match io {
        IoClass::File => 0,
        IoClass::Waiting => 1,
        IoClass::Unknown => 2,
        IoClass::Nothing => 3,
    };
    Some(usize::from(call.0) * CLASSES + class)
}

impl<V: Default> OpKindRows<V> {
    /// Returns the row of a kind of operation in a class of I/O.
    pub fn row(&mut self, what: OpKind, io: IoClass) -> &mut V {
        let place = place_of_call(what, io);
        let known = place.and_then(|place| self.of_calls.get(place)).copied();
        if let Some(row) = known.filter(|row| *row != NO_ROW) {
            return self.rows.at(row);
        }
        let key = (what, io);
        let row = self.rows.place(&key, || key);
        if let Some(place) = place {
            if self.of_calls.len() <= place {
                self.of_calls.resize(place + 1, NO_ROW);
            }
            self.of_calls.iter_mut().skip(place).take(1).for_each(|number| *number = row);
        }
        self.rows.at(row)
    }

    /// Returns the row of a kind of operation in a class of I/O, if there is one.
    pub fn get(&self, what: OpKind, io: IoClass) -> Option<&V> {
        self.rows.get(&(what, io))
    }

    /// Returns all rows in the order of their keys.
    pub fn sorted(&self) -> Vec<((OpKind, IoClass), &V)> {
        let mut rows: Vec<_> = self.rows.iter().map(|(key, row)| (*key, row)).collect();
        rows.sort_by_key(|(key, _)| *key);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::async_table::{Interface, Opcode};
    use crate::event::syscall_table::CallId;

    #[test]
    fn each_kind_and_class_has_a_row() {
        let opcode = |number| OpKind::Async(Opcode { interface: Interface::IoUring, number });
        let calls = CallId::all().map(OpKind::Call).chain([7, 8].map(opcode));
        let classes = [IoClass::File, IoClass::Waiting, IoClass::Unknown, IoClass::Nothing];
        let keys: Vec<_> = calls.flat_map(|what| classes.map(|io| (what, io))).collect();
        let mut rows: OpKindRows<usize> = OpKindRows::default();
        // Each row gets the numbers of its key only, at the first time and at the second.
        for (number, (what, io)) in keys.iter().rev().chain(&keys).enumerate() {
            *rows.row(*what, *io) += number;
        }
        let sum = |what, io| rows.get(what, io).copied();
        let all = 2 * keys.len() - 1;
        assert!(keys.iter().all(|(what, io)| sum(*what, *io) == Some(all)));
        let sorted: Vec<_> = rows.sorted().into_iter().map(|(key, _)| key).collect();
        assert!(sorted.is_sorted() && sorted.len() == keys.len());
    }
}
