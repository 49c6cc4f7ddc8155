//! Names of hosts made addresses, by few threads that nobody else needs.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use tokio::sync::{Semaphore, oneshot};

/// Names that are looked up at once: for one process, and for all. A lookup takes a thread for as long as the machine's
/// resolver waits for an answer, and nobody can end it.
const OF_A_PROCESS: usize = 8;
const OF_ALL: usize = 128;

/// Shared by the runs of this process, because its threads are.
static ALL: Semaphore = Semaphore::const_new(OF_ALL);

/// What looks names up for one process of a run.
pub(crate) struct Names {
    own: Arc<Semaphore>,
}

impl Names {
    pub(crate) fn new() -> Names {
        Names { own: Arc::new(Semaphore::new(OF_A_PROCESS)) }
    }

    /// The addresses of a host. Whoever stops waiting for them does not end the lookup, so its place stays taken.
    pub(crate) async fn find(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(vec![(address, port).into()]);
        }
        let host = (name.to_owned(), port);
        self.by(move || host.to_socket_addrs().map(Iterator::collect)).await
    }

    /// Looks up in a thread of its own: not one of the runtime's, for which files wait, too, and the end of the service.
    async fn by<T: Send + 'static>(&self, lookup: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let own = self.own.clone().acquire_owned().await.map_err(io::Error::other)?;
        let of_all = ALL.acquire().await.map_err(io::Error::other)?;
        let (found, waiting) = oneshot::channel();
        std::thread::Builder::new().name("name lookup".to_owned()).spawn(move || {
            let _ = found.send(lookup());
            drop((own, of_all));
        })?;
        waiting.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lookup_that_nobody_waits_for_keeps_its_place_and_delays_neither_files_nor_the_end() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        let names = Names::new();
        let (answer, hangs) = mpsc::channel::<()>();
        let hangs = Arc::new(std::sync::Mutex::new(hangs));
        runtime.block_on(async {
            for _ in 0..OF_A_PROCESS {
                let hangs = hangs.clone();
                let lookup = names.by(move || Ok(hangs.lock().unwrap().recv().is_ok()));
                // Its thread is begun by the first look at it.
                tokio::time::timeout(Duration::ZERO, lookup).await.unwrap_err();
            }
            assert_eq!(names.own.available_permits(), 0);
            assert_eq!(tokio::task::spawn_blocking(|| 1).await.unwrap(), 1, "the only thread for files is free");
            let other = Names::new().find("127.0.0.1", 9).await.unwrap();
            assert_eq!(other, ["127.0.0.1:9".parse().unwrap()]);
        });
        // It would wait for all threads of its own.
        drop(runtime);
        drop(answer);
    }
}
