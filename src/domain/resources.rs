//! Limits on what a run may use of the machine: what the operator allows, what a skill asks for, what was too much.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A file or folder counts as this much disk space at least: as many files may be made as an ext4 file system of
/// that size has room for.
pub(crate) const BYTES_PER_FILE: u64 = 16 * 1024;

/// A value for each resource, in the order of [`Resource::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerResource<T> {
    /// Bytes of memory of all processes together.
    pub memory_bytes: T,
    /// Processes and threads at the same time.
    pub processes: T,
    /// Seconds of processor time of all processes together.
    pub cpu_seconds: T,
    /// Bytes of each file that is written.
    pub file_bytes: T,
    /// Bytes of all files in the run's own folders together.
    pub disk_bytes: T,
    /// Open files of each process.
    pub open_files: T,
}

/// The limits in force.
pub type ResourceLimits = PerResource<u64>;

/// What a skill asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AskedLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_files: Option<u64>,
}

impl AskedLimits {
    /// Whether nothing is asked for.
    pub(crate) fn is_empty(&self) -> bool {
        *self == AskedLimits::default()
    }

    fn of(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Memory => self.memory_bytes,
            Resource::Processes => self.processes,
            Resource::Cpu => self.cpu_seconds,
            Resource::File => self.file_bytes,
            Resource::Disk => self.disk_bytes,
            Resource::OpenFiles => self.open_files,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Memory,
    Processes,
    Cpu,
    File,
    Disk,
    OpenFiles,
}

impl Resource {
    pub const ALL: [Resource; 6] =
        [Resource::Memory, Resource::Processes, Resource::Cpu, Resource::File, Resource::Disk, Resource::OpenFiles];

    /// The name of its limit, in settings (`limits.NAME`), in runner.json and in events.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Memory => "memory_bytes",
            Resource::Processes => "processes",
            Resource::Cpu => "cpu_seconds",
            Resource::File => "file_bytes",
            Resource::Disk => "disk_bytes",
            Resource::OpenFiles => "open_files",
        }
    }
}

/// What a skill asks for and may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beyond {
    pub(crate) resource: Resource,
    pub(crate) asked: u64,
    pub(crate) most: u64,
}

impl ResourceLimits {
    pub fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Memory => self.memory_bytes,
            Resource::Processes => self.processes,
            Resource::Cpu => self.cpu_seconds,
            Resource::File => self.file_bytes,
            Resource::Disk => self.disk_bytes,
            Resource::OpenFiles => self.open_files,
        }
    }

    /// What of a skill's wishes is more than this, the operator's maximum.
    pub(crate) fn beyond(&self, asked: &AskedLimits) -> Vec<Beyond> {
        let beyond = |resource| {
            let (asked, most) = (asked.of(resource)?, self.of(resource));
            (asked > most).then_some(Beyond { resource, asked, most })
        };
        Resource::ALL.into_iter().filter_map(beyond).collect()
    }

    /// The limits of a skill's run below this, the operator's maximum, which may be lower than when the run was created.
    pub(crate) fn in_force(&self, asked: &AskedLimits) -> ResourceLimits {
        let least = |resource| asked.of(resource).map_or(self.of(resource), |asked| asked.min(self.of(resource)));
        ResourceLimits {
            memory_bytes: least(Resource::Memory),
            processes: least(Resource::Processes),
            cpu_seconds: least(Resource::Cpu),
            file_bytes: least(Resource::File),
            disk_bytes: least(Resource::Disk),
            open_files: least(Resource::OpenFiles),
        }
    }

    /// That so much of a resource was seen, if it is too much.
    pub(crate) fn exceeded(&self, resource: Resource, seen: u64) -> Option<Exceeded> {
        let limit = self.of(resource);
        let too_much = match resource {
            Resource::Memory | Resource::Processes | Resource::Cpu | Resource::Disk => seen > limit,
            // The system gives no more than the limit.
            Resource::File | Resource::OpenFiles => seen >= limit,
        };
        too_much.then_some(Exceeded { resource, limit, seen, files: None })
    }

    /// That the system gave a run all of a resource that it may have, and refused it more.
    pub(crate) fn met(&self, resource: Resource) -> Exceeded {
        let limit = self.of(resource);
        Exceeded { resource, limit, seen: limit, files: None }
    }

    /// That a run's folders hold too much: bytes, or files and folders.
    pub(crate) fn disk_exceeded(&self, bytes: u64, files: u64) -> Option<Exceeded> {
        let limit = self.disk_bytes;
        let too_much = bytes > limit || files > limit / BYTES_PER_FILE;
        too_much.then_some(Exceeded { resource: Resource::Disk, limit, seen: bytes, files: Some(files) })
    }
}

/// A limit that a run has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    pub resource: Resource,
    pub limit: u64,
    /// What was seen of it.
    pub seen: u64,
    /// How many files and folders were seen, where they count.
    pub files: Option<u64>,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exceeded { resource, limit, seen, files } = self;
        match resource {
            Resource::Memory => write!(f, "its processes used {seen} bytes of memory, the limit is {limit}"),
            Resource::Processes => write!(f, "it had {seen} processes and threads at once, the limit is {limit}"),
            Resource::Cpu => write!(f, "its processes used {seen} s of processor time, the limit is {limit}"),
            Resource::File => write!(f, "one of its files reached the largest size of {limit} bytes"),
            Resource::OpenFiles => {
                write!(
                    f,
                    "one of its processes had {seen} open files, or all of them as many places in sets of epoll; the limit is {limit}"
                )
            }
            Resource::Disk if files.is_none() => {
                write!(f, "the events of what it said took {seen} bytes, the limit is {limit}")
            }
            Resource::Disk => {
                let files = files.unwrap_or_default();
                let most = limit / BYTES_PER_FILE;
                write!(f, "its folders held {seen} bytes in {files} files and folders, ")?;
                write!(f, "more than {limit} bytes or {most} files and folders")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits() -> impl Strategy<Value = ResourceLimits> {
        prop::array::uniform6(1u64..100).prop_map(|[memory_bytes, processes, cpu_seconds, file_bytes, disk, open]| {
            ResourceLimits { memory_bytes, processes, cpu_seconds, file_bytes, disk_bytes: disk, open_files: open }
        })
    }

    fn asked() -> impl Strategy<Value = AskedLimits> {
        prop::array::uniform6(prop::option::of(1u64..100)).prop_map(
            |[memory_bytes, processes, cpu_seconds, file_bytes, disk_bytes, open_files]| AskedLimits {
                memory_bytes,
                processes,
                cpu_seconds,
                file_bytes,
                disk_bytes,
                open_files,
            },
        )
    }

    proptest! {
        #[test]
        fn a_skill_gets_what_it_asks_for_and_never_more_than_the_operator_allows(most in limits(), asked in asked()) {
            let (force, beyond) = (most.in_force(&asked), most.beyond(&asked));
            for resource in Resource::ALL {
                let refused = beyond.iter().any(|beyond| beyond.resource == resource);
                let expected = asked.of(resource).filter(|_| !refused).unwrap_or(most.of(resource));
                prop_assert_eq!(force.of(resource), expected);
                prop_assert_eq!(refused, asked.of(resource).is_some_and(|asked| asked > most.of(resource)));
            }
        }
    }

    #[test]
    fn what_the_kernel_stops_at_is_met_and_what_is_only_seen_must_be_more() {
        let limits = ResourceLimits {
            memory_bytes: 10,
            processes: 10,
            cpu_seconds: 10,
            file_bytes: 10,
            disk_bytes: 4 * BYTES_PER_FILE,
            open_files: 10,
        };
        let met: Vec<Resource> =
            Resource::ALL.into_iter().filter(|resource| limits.exceeded(*resource, 10).is_some()).collect();
        assert_eq!(met, [Resource::File, Resource::OpenFiles]);
        assert_eq!(limits.disk_exceeded(0, 4), None);
        let files = Exceeded { resource: Resource::Disk, limit: 65_536, seen: 0, files: Some(5) };
        assert_eq!(limits.disk_exceeded(0, 5), Some(files));
        assert!(limits.disk_exceeded(65_537, 1).is_some());
        assert_eq!(
            files.to_string(),
            "its folders held 0 bytes in 5 files and folders, more than 65536 bytes or 4 files and folders"
        );
    }
}
