//! What the result of an operation shows of what it was given.

use super::{Out, Planner};
use crate::event::syscall_table::Class;
use crate::operation::model::SyscallOperation;
use crate::replay::found;
use crate::replay::handles::{Behind, Handle};
use crate::replay::world::{NodeId, Thing};

impl<O: Out> Planner<O> {
    /// What its result says of what was there. What is behind a descriptor that it has made.
    pub(super) fn learn(
        &mut self,
        operation: &SyscallOperation,
        ret: i64,
        (nodes, handle): ([Option<NodeId>; 2], Option<Handle>),
    ) -> Option<Behind> {
        let (call, args) = (operation.call.call(), &operation.args);
        if let Some(errno) = operation.errno() {
            found::failed(&mut self.world, operation, errno, nodes);
            return None;
        }
        match (call.class, nodes[0]) {
            // An open file gets a name (`linkat` with `AT_EMPTY_PATH`).
            (Class::Name, None) => {
                let file = handle.and_then(|it| self.handles.file(it));
                let (new, file) = nodes[1].zip(file)?;
                self.world.made(new, Thing::File(file));
                None
            }
            (Class::Open, Some(node)) => {
                let stat = operation.file.as_ref().and_then(|it| it.stat);
                let flags = found::open_flags(operation);
                let is_open = |it| self.handles.has_open(it);
                let file = found::opened(&mut self.world, node, flags, stat, is_open);
                Some(file.map_or(Behind::Directory, Behind::File))
            }
            _ => {
                found::named(&mut self.world, call, args, ret, nodes);
                None
            }
        }
    }
}
