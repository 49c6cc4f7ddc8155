//! Every path under the data folder, and the files of a run.
