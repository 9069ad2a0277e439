//! epoll by hand, over rustix: what a careful programmer writes who needs nothing else, with the
//! books that a loop cannot do without. Each source has a slot with its owner and a generation, and
//! an event for a registration that is over is not reported.

use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::waiting::{Ready, Waiting, Wake, put};

const WAKER: u64 = u64::MAX;

struct Epoll {
    epoll: OwnedFd,
    waker: Arc<OwnedFd>,
    events: Vec<Event>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Slots, by source.
    places: Vec<usize>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    owner: Option<(Rc<UnixStream>, usize)>,
}

pub(crate) fn make() -> io::Result<Box<dyn Waiting>> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN)?;
    let (events, slots, free, places) = Default::default();
    Ok(Box::new(Epoll { epoll, waker, events, slots, free, places }))
}

impl Epoll {
    fn data(&self, slot: usize) -> EventData {
        EventData::new_u64(u64::from(self.slots[slot].generation) << 32 | slot as u64)
    }
}

impl Waiting for Epoll {
    fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(Slot::default());
        }
        self.slots[slot].owner = Some((Rc::clone(source), number));
        put(&mut self.places, number, slot);
        Ok(epoll::add(&self.epoll, source, self.data(slot), EventFlags::IN)?)
    }

    fn modify(&mut self, source: &Rc<UnixStream>, number: usize, writes: bool) -> io::Result<()> {
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, writes);
        Ok(epoll::modify(&self.epoll, source, self.data(self.places[number]), flags)?)
    }

    fn remove(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        let place = self.places[number];
        let slot = &mut self.slots[place];
        slot.generation = slot.generation.wrapping_add(1);
        slot.owner = None;
        self.free.push(place);
        Ok(epoll::delete(&self.epoll, source)?)
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as _,
            tv_nsec: timeout.subsec_nanos() as _,
        });
        self.events.clear();
        // Room for all that can be ready, and the waker.
        self.events.reserve(self.slots.len() + 1);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        for event in &self.events {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == WAKER {
                rustix::io::read(&self.waker, &mut [0; 8])?;
                continue;
            }
            let (slot, generation) = (data as u32 as usize, (data >> 32) as u32);
            let Some(slot) = self.slots.get(slot) else { continue };
            if let Some((_owner, number)) = &slot.owner
                && slot.generation == generation
            {
                // An error or a hang-up wakes readers and writers.
                let reads = flags.intersects(!EventFlags::OUT);
                let writes = flags.intersects(!EventFlags::IN);
                ready.push(Ready { number: *number, reads, writes });
            }
        }
        Ok(())
    }

    fn waker(&self) -> Wake {
        let waker = Arc::clone(&self.waker);
        Box::new(move || _ = rustix::io::write(&*waker, &1u64.to_ne_bytes()))
    }
}
