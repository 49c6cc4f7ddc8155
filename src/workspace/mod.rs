//! Every path under the data folder, and the files of a run.

mod engine_home;
mod entry_name;
mod folders;
mod foreign;
mod keep_only;
mod layout;
mod ranges;
pub(crate) mod removable;
mod sessions;
mod share;
pub(crate) mod shared_skills;
mod signing_key;
mod skill_copy;
mod snapshot;
mod spare_copies;
mod tokens;
mod unpack;
mod upload;
mod upload_copy;
mod upload_error;
mod upload_fields;
mod zip_end;

pub use crate::domain::request::UploadedFile;
pub(crate) use engine_home::{COPIES, EngineHome};
pub use folders::{create_for_engine, create_run};
pub(crate) use folders::{reclaim, remove_run, remove_sealed, remove_unused, sync_run};
pub(crate) use foreign::{foreign_to_agent_home, foreign_to_data};
pub(crate) use keep_only::keep_only;
pub use layout::Layout;
pub(crate) use layout::{KEPT_REQUEST, NEW_STORE, OLD_STORE, RunPaths};
pub(crate) use ranges::{RangeError, read_range};
#[cfg(test)]
pub(crate) use sessions::MOST as SESSIONS_MOST;
pub(crate) use sessions::{Bound, Session, Sessions};
pub(crate) use share::{link_or_copy, share_file};
pub(crate) use shared_skills::SharedSkills;
pub(crate) use signing_key::{read_signing_key, signing_key};
pub(crate) use skill_copy::{copy_skill, write_skill};
pub(crate) use snapshot::{Most, PackError, Packed, What, pack, unpack};
pub(crate) use spare_copies::Lent;
pub(crate) use tokens::{
    NamedToken, Scope, Shown, TokenError, Tokens, add_token, create_token, new_secret, read_tokens, remove_token,
    revoke_token,
};
pub use unpack::{Archive, UploadLimits};
pub(crate) use upload::begins_like_a_zip;
pub use upload::{Manifest, Sent, SentPart, Staged, promote_uploads, stage_uploads};
pub(crate) use upload_copy::{CopyError, copy_uploads};
pub use upload_error::UploadError;
pub use upload_fields::UploadFields;
