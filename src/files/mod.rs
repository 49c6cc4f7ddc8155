//! File operations that every IO module shares: whole writes, syncs, safe opens, bounded reads, removals.

mod aside;
pub(crate) mod child;
mod chunks;
mod copy;
mod copy_tree;
mod cut;
mod descriptors;
mod error;
mod folder;
mod group_sync;
mod links;
mod marks;
mod mode;
mod names;
mod open;
mod own_process;
mod preview;
mod private;
mod read;
mod regain;
mod remove;
mod rename;
mod room;
mod shortage;
mod step;
mod sync;
mod threads;
mod tree_size;
mod unnamed;
mod way;
mod write;

pub(crate) use aside::{ensure_absent, ensure_folder, move_aside};
pub(crate) use chunks::for_each_chunk;
pub(crate) use copy::copy_new;
pub(crate) use copy_tree::{Copying, copy_tree};
pub(crate) use cut::cut;
pub(crate) use descriptors::{inherited_open_files, open_files, open_files_within, raise_open_files};
pub(crate) use error::Error;
pub(crate) use folder::{
    create_folder, create_folder_with_mode, create_new_folder, create_parent, create_private_folder, parent,
};
pub(crate) use links::{link, link_to};
pub(crate) use marks::{Mark, Marks};
pub(crate) use mode::set_mode;
pub(crate) use names::{LINKED, names_in};
pub(crate) use open::{
    LookupError, create_new, folder_beneath, list_beneath, open_beneath, open_followed, open_regular,
    open_regular_to_write,
};
pub(crate) use own_process::own_process;
pub(crate) use preview::Preview;
pub(crate) use private::{Reach, close_folder, create_for_owner_alone, open_lock};
pub(crate) use read::{read_beneath, read_followed, read_optional, read_regular};
pub(crate) use regain::regain;
pub(crate) use remove::{remove_empty, remove_file, remove_hidden, remove_tree, set_aside};
pub(crate) use rename::rename;
pub(crate) use room::{WithinRoom, disk_bytes, free_bytes, mount_point};
pub(crate) use shortage::{Shortage, not_started};
pub(crate) use step::{step, stepwise};
pub(crate) use sync::{sync, sync_file_system, sync_files};
pub(crate) use threads::can_start_threads;
pub(crate) use tree_size::{sizes_below, tree_size};
pub(crate) use unnamed::Unnamed;
pub(crate) use way::clear_way;
pub(crate) use write::{
    create_private_durably, write_durably, write_own, write_private, write_private_durably, write_private_durably_with,
    write_whole, write_whole_with,
};
