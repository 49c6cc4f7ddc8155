//! Clients that read logs, slowly, while runs go on, are sealed and are deleted.

use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::store::{EventStore, IndexKey};
use tokio::time::sleep;

use crate::clients::Client;
use crate::store::ready;

impl Client {
    /// Reads a log in small pages, whatever becomes of the run meanwhile.
    pub async fn read_any(&self, run: Option<RunId>) {
        let Some(run) = run else { return };
        let name = self.world.name(run);
        let head = match self.service.state(run).await {
            Ok(state) => state.head_seq,
            Err(error) => return self.refused("look", &error),
        };
        let in_store = |client: &Client| ready(client.world.disk.head(&run)).is_ok_and(|head| head != Seq::START);
        let began_in_store = in_store(self);
        let mut events = self.service.log().events(run, Seq::START).in_pages_of(400);
        let mut last = Seq::START;
        loop {
            match events.next_page().await {
                Ok(Some(page)) => {
                    for batch in page {
                        if batch.first.0 != last.0 + 1 {
                            self.world.violated(format!("a reader of {name} was given {} after {last}", batch.first));
                        }
                        last = batch.last();
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.world.note(format!("client: {name} is read to {last} and no further"));
                    return self.refused("read", &error);
                }
            }
            sleep(self.world.dice.pause()).await;
        }
        let row = ready(self.world.disk.index(&IndexKey::Run(run)));
        let meanwhile = match () {
            () if row.is_ok_and(|row| row.is_none()) => ", deleted meanwhile",
            () if began_in_store && !in_store(self) => ", sealed meanwhile",
            () => "",
        };
        self.world.note(format!("client: {name} is read to {last}{meanwhile}"));
        // A proper end means that the end was reached, also while the run is deleted.
        if last < head {
            self.world.violated(format!("a reader of {name} came to the end at {last}, and {head} was there"));
        }
    }

    /// Goes on reading a log where it was read to before, wherever that was; it waits a while for more.
    pub async fn follow_any(&self, run: Option<RunId>) {
        let Some(run) = run else { return };
        let name = self.world.name(run);
        let (from, mut bytes) = self.world.book.lock().unwrap().followed.get(&run).cloned().unwrap_or_default();
        let (mut last, mut head) = (Seq(from), self.service.log().watch(run));
        for _ in 0..3 {
            let mut events = self.service.log().events(run, last).in_pages_of(400);
            loop {
                match events.next_page().await {
                    Ok(Some(page)) => {
                        for batch in page {
                            if batch.first.0 != last.0 + 1 {
                                self.world
                                    .violated(format!("a follower of {name} was given {} after {last}", batch.first));
                            }
                            last = batch.last();
                            bytes.extend_from_slice(&batch.ndjson);
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return self.refused("follow", &error),
                }
            }
            let more = tokio::time::timeout(std::time::Duration::from_secs(20), head.changed()).await;
            if !matches!(more, Ok(Ok(()))) {
                break;
            }
        }
        self.world.note(format!("client: has followed {name} from {from} to {last}"));
        let mut book = self.world.book.lock().unwrap();
        let known = book.followed.entry(run).or_default();
        // Another one may have come further meanwhile.
        if known.0 < last.0 {
            *known = (last.0, bytes);
        }
    }
}
