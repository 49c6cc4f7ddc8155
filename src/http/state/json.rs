//! Answers in JSON that may be long: they are written on another thread, so that nobody waits for them.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::http::answer::problem::Problem;
use crate::http::state::task::blocking;

/// About so many bytes are written in place: another thread would cost more than it saves.
const IN_PLACE: usize = 256 * 1024;

/// A value of about so many bytes as an answer.
pub(crate) async fn json<T: Serialize + Send + 'static>(value: T, about: usize) -> Result<Response, Problem> {
    let write = move || Json(value).into_response();
    if about <= IN_PLACE { Ok(write()) } else { blocking(|| Ok::<_, Problem>(write())).await }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread::{self, ThreadId};

    use serde::Serializer;

    use super::*;

    /// Tells where it is written.
    #[derive(Default, Clone)]
    struct Written(Arc<Mutex<Option<ThreadId>>>);

    impl Serialize for Written {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            *self.0.lock().unwrap() = Some(thread::current().id());
            serializer.serialize_unit()
        }
    }

    #[tokio::test]
    async fn what_is_long_is_written_on_another_thread_and_what_is_short_in_place() {
        let written = Written::default();
        for (about, in_place) in [(IN_PLACE, true), (IN_PLACE + 1, false)] {
            assert!(json(written.clone(), about).await.unwrap().status().is_success());
            assert_eq!(*written.0.lock().unwrap() == Some(thread::current().id()), in_place);
        }
    }
}
