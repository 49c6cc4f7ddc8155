//! Receives the zips of a multipart body into temporary files.

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::{StatusCode, header};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;

use crate::http::answer::problem::Problem;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::Error;

/// The part that is the zip with the input files.
const FILE_FIELD: &str = "file";
/// The part that is the zip with the run's own skill.
const PACKAGE_FIELD: &str = "skill_package";

/// After so many bytes of an upload the free space is looked at again.
const LOOK_EVERY_BYTES: u64 = 1024 * 1024;

/// The received zips; the files are deleted when this is dropped.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) files: Option<NamedTempFile>,
    pub(crate) package: Option<NamedTempFile>,
}

/// Receives the only zip of a request.
pub(crate) async fn receive_zip(app: &App, request: Request) -> Result<NamedTempFile, Problem> {
    let received = receive(app, request, false).await?;
    received.files.ok_or_else(|| wrong_parts(false, "this part is missing"))
}

pub(crate) async fn receive(app: &App, request: Request, temporary: bool) -> Result<Received, Problem> {
    let limits = &app.orchestrator().settings().limits;
    let whole = limits.max_upload_bytes.max(limits.temp_skill_package_max_bytes);
    let mut parts = multipart(request).await?;
    let mut received = Received::default();
    while let Some(field) = parts.next_field().await.map_err(|error| broken(&error, whole))? {
        let (place, limit) = match field.name() {
            Some(FILE_FIELD) => (&mut received.files, limits.max_upload_bytes),
            Some(PACKAGE_FIELD) if temporary => (&mut received.package, limits.temp_skill_package_max_bytes),
            _ => return Err(wrong_parts(temporary, &also(&field))),
        };
        if place.is_some() {
            return Err(wrong_parts(temporary, &also(&field)));
        }
        *place = Some(store(app, field, limit).await?);
    }
    let complete = if temporary { received.package.is_some() } else { received.files.is_some() };
    if complete { Ok(received) } else { Err(wrong_parts(temporary, "this part is missing")) }
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
        return Err(Problem::UnsupportedMediaType { given, expected: "multipart/form-data with the part \"file\"" });
    }
    Multipart::from_request(request, &())
        .await
        .map_err(|error| Problem::InvalidRequest { message: error.body_text(), details: Vec::new() })
}

/// Writes a part to a file in the folder that each start empties, so that nothing stays if this process dies.
async fn store(app: &App, mut field: Field<'_>, limit: u64) -> Result<NamedTempFile, Problem> {
    let folder = app.orchestrator().layout().tmp();
    let (zip, file) = blocking(move || {
        let made = std::fs::create_dir_all(&folder).and_then(|()| {
            let zip = tempfile::Builder::new().prefix("upload-").suffix(".zip").tempfile_in(&folder)?;
            let file = zip.reopen()?;
            Ok((zip, file))
        });
        made.map_err(Error::io(format!("create a file in {}", folder.display())))
    })
    .await?;
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
    Ok(zip)
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

fn wrong_parts(temporary: bool, reason: &str) -> Problem {
    let message = if temporary {
        format!(
            "the body must have the part \"skill_package\" with the skill's zip, and may have \"file\" with the inputs; {reason}"
        )
    } else {
        format!("the body must have exactly one part, \"file\", with the zip; {reason}")
    };
    Problem::InvalidRequest { message, details: Vec::new() }
}
