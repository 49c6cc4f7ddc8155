//! Shared files: what every place for them promises, and what a folder and an object store do besides.

mod contract;
mod folder;
mod lying;
mod s3;
