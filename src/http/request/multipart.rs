//! Receives the parts of a multipart body into temporary files.

use std::path::{Path, PathBuf};

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::{StatusCode, header};
use tokio::io::AsyncWriteExt;

use crate::http::answer::problem::Problem;
use crate::http::request::part_heads::{HEAD_MAX, PartHeads};
use crate::http::request::received_files::ReceivedFiles;
use crate::http::state::app::App;
use crate::orchestrator::{Error, ZIP_PART};

/// The part that is the zip with the run's own skill.
const PACKAGE_FIELD: &str = "skill_package";

/// After so many bytes of an upload the free space is looked at again.
const LOOK_EVERY_BYTES: u64 = 1024 * 1024;

/// Most bytes of the names of all parts and of their files: they are held in memory until the whole body has come.
const NAMES_MAX: usize = 640 * 1024;

/// What a body may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// One zip.
    Zip,
    /// The files of a run.
    Files,
    /// The files of a run and its skill.
    FilesAndPackage,
}

/// What was received; the files are deleted when this is dropped. None is held open: a body may bring thousands.
#[derive(Default)]
pub(crate) struct Received {
    /// A zip with files.
    pub(crate) zip: Option<PathBuf>,
    /// Files by themselves.
    pub(crate) parts: Vec<ReceivedPart>,
    /// A zip with a skill.
    pub(crate) package: Option<PathBuf>,
    files: ReceivedFiles,
}

impl Received {
    /// Deletes the files, and waits until they are gone.
    pub(crate) async fn remove(self) {
        self.files.remove().await;
    }
}

/// A file that came without a zip.
pub(crate) struct ReceivedPart {
    pub(crate) field: String,
    /// Its name on the client's side.
    pub(crate) file_name: Option<String>,
    pub(crate) file: PathBuf,
}

/// The only zip of a request, deleted when this is dropped.
pub(crate) struct ReceivedZip {
    path: PathBuf,
    files: ReceivedFiles,
}

impl ReceivedZip {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes it, and waits until it is gone.
    pub(crate) async fn remove(self) {
        self.files.remove().await;
    }
}

/// Receives the only zip of a request.
pub(crate) async fn receive_zip(app: &App, request: Request) -> Result<ReceivedZip, Problem> {
    let Received { zip, files, .. } = receive(app, request, Expected::Zip).await?;
    let path = zip.ok_or_else(|| wrong_parts(Expected::Zip, "this part is missing"))?;
    Ok(ReceivedZip { path, files })
}

pub(crate) async fn receive(app: &App, request: Request, expected: Expected) -> Result<Received, Problem> {
    let mut received = Received::default();
    match receive_into(&mut received, app, request, expected).await {
        Ok(()) => Ok(received),
        Err(problem) => {
            received.remove().await;
            Err(problem)
        }
    }
}

async fn receive_into(received: &mut Received, app: &App, request: Request, expected: Expected) -> Result<(), Problem> {
    let limits = &app.orchestrator().settings().limits;
    let whole = limits.max_upload_bytes.max(limits.temp_skill_package_max_bytes);
    let heads = PartHeads::default();
    let mut parts = multipart(request.map(|body| heads.bound(body))).await?;
    let (mut loose_bytes, mut name_bytes) = (0, 0);
    loop {
        let next = parts.next_field().await;
        if next.is_err() && heads.exceeded() {
            return Err(wrong_parts(expected, &format!("the head of a part is longer than {HEAD_MAX} bytes")));
        }
        let Some(field) = next.map_err(|error| broken(&error, whole))? else { break };
        heads.content_follows();
        let (place, limit) = match (field.name(), expected) {
            (Some(ZIP_PART), _) => (&mut received.zip, limits.max_upload_bytes),
            (Some(PACKAGE_FIELD), Expected::FilesAndPackage) => {
                (&mut received.package, limits.temp_skill_package_max_bytes)
            }
            (Some(name), Expected::Files | Expected::FilesAndPackage) if !name.is_empty() => {
                if received.parts.len() as u64 >= limits.max_entries {
                    return Err(wrong_parts(expected, &format!("it has more than {} parts", limits.max_entries)));
                }
                name_bytes += name.len() + field.file_name().map_or(0, str::len);
                if name_bytes > NAMES_MAX {
                    return Err(Problem::PartNamesTooLong { limit: NAMES_MAX });
                }
                let (name, file_name) = (name.to_owned(), field.file_name().map(str::to_owned));
                let left = limits.max_upload_bytes.saturating_sub(loose_bytes);
                let (file, size) =
                    store(app, &mut received.files, field, left).await.map_err(|problem| match problem {
                        Problem::BodyTooLarge { .. } => Problem::BodyTooLarge { limit: limits.max_upload_bytes },
                        other => other,
                    })?;
                loose_bytes += size;
                received.parts.push(ReceivedPart { field: name, file_name, file });
                heads.head_follows();
                continue;
            }
            _ => return Err(wrong_parts(expected, &also(&field))),
        };
        if place.is_some() {
            return Err(wrong_parts(expected, &also(&field)));
        }
        *place = Some(store(app, &mut received.files, field, limit).await?.0);
        heads.head_follows();
    }
    let complete = match expected {
        Expected::Zip => received.zip.is_some(),
        Expected::Files => received.zip.is_some() || !received.parts.is_empty(),
        Expected::FilesAndPackage => received.package.is_some(),
    };
    if complete { Ok(()) } else { Err(wrong_parts(expected, "this part is missing")) }
}

fn also(field: &Field<'_>) -> String {
    let name: String = field.name().unwrap_or_default().chars().take(64).collect();
    format!("there is also a part named {name:?}")
}

pub(crate) async fn multipart(request: Request) -> Result<Multipart, Problem> {
    let given = request.headers().get(header::CONTENT_TYPE);
    let given = given.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
    if !given.trim_start().to_ascii_lowercase().starts_with("multipart/form-data") {
        let given = given.chars().take(100).collect();
        return Err(Problem::UnsupportedMediaType { given, expected: "multipart/form-data, as `curl -F` does" });
    }
    Multipart::from_request(request, &())
        .await
        .map_err(|error| Problem::InvalidRequest { message: error.body_text(), details: Vec::new() })
}

/// Writes a part to a file.
async fn store(
    app: &App,
    files: &mut ReceivedFiles,
    mut field: Field<'_>,
    limit: u64,
) -> Result<(PathBuf, u64), Problem> {
    let (path, file) = files.create(app.orchestrator().layout().tmp()).await?;
    let mut file = tokio::fs::File::from_std(file);
    let (mut size, mut looked_at) = (0, 0);
    while let Some(chunk) = field.chunk().await.map_err(|error| broken(&error, limit))? {
        size += chunk.len() as u64;
        if size > limit {
            return Err(Problem::BodyTooLarge { limit });
        }
        if size - looked_at >= LOOK_EVERY_BYTES {
            looked_at = size;
            app.orchestrator().has_room()?;
        }
        file.write_all(&chunk).await.map_err(Error::io("keep the upload"))?;
    }
    file.flush().await.map_err(Error::io("keep the upload"))?;
    Ok((path, size))
}

fn broken(error: &MultipartError, limit: u64) -> Problem {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::BodyTooLarge { limit };
    }
    Problem::InvalidRequest {
        message: format!("the multipart body cannot be read: {}", error.body_text()),
        details: Vec::new(),
    }
}

fn wrong_parts(expected: Expected, reason: &str) -> Problem {
    let message = match expected {
        Expected::Zip => format!("the body must have exactly one part, \"file\", with the zip; {reason}"),
        Expected::Files => format!(
            "the body must have the part \"file\" with a zip of the inputs, or a part named like each file input; {reason}"
        ),
        Expected::FilesAndPackage => format!(
            "the body must have the part \"skill_package\" with the skill's zip, and may have \"file\" with a zip of the \
             inputs or a part named like each file input; {reason}"
        ),
    };
    Problem::InvalidRequest { message, details: Vec::new() }
}
