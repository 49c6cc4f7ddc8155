//! Every code that the runner gives, each in one table row: errors, warnings, and findings about skills.

mod error;
mod exit;
mod finding;
mod table;
mod warning;

pub use error::{ErrorCode, ErrorInfo, Hint, Kind};
pub use exit::Exit;
pub use finding::FindingCode;
pub use warning::WarningCode;
