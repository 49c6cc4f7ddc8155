//! Shared files: what every place for them promises, and what a folder does besides.

mod contract;
mod folder;
