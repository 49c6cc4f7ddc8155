//! A run's artifacts: index, manifest, bundle.
