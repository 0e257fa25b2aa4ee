//! Replay: what was captured is done again, somewhere else.

mod asynchronous;
pub mod block;
pub mod calls;
pub mod comparison;
mod families;
pub mod file;
pub mod fio;
mod followed;
pub mod found;
pub mod handles;
mod lanes;
pub mod lateness;
pub mod links;
pub mod locks;
mod names;
pub mod order;
pub mod outcome;
pub mod planned;
pub mod planner;
pub mod size;
mod strangers;
mod things;
pub mod timeline;
pub mod traced;
mod under_way;
pub mod world;
