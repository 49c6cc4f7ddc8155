//! What nobody but the operator may see: engines' configuration, files of the data folder, keys.

pub mod data_folder;
mod engine_config;
mod foreign;
mod links;
mod shown;
