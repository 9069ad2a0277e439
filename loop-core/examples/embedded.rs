//! A program whose main loop belongs to a toolkit, with ours as its guest: the toolkit's events start tasks, and
//! what the tasks find out is shown in the toolkit's window. Both live on one thread.
//!
//! The toolkit is made up, but it has what they all have: a queue of events that any thread may post to.
//!
//! `cargo run -p loop-core --example embedded`

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use loop_core::{EventLoop, HostWaker, LoopRef, sleep};

/// What the toolkit hands to the program.
enum Event {
    Click(u32),
    /// The guest has something to do.
    Guest,
    Quit,
}

/// Two clicks, two lines each; then the user has seen enough.
const LINES: usize = 4;

/// A text field of the window.
#[derive(Clone, Default)]
struct Label(Rc<RefCell<Vec<String>>>);

impl Label {
    /// Shows another line, and says how many there are.
    fn show(&self, text: String) -> usize {
        self.0.borrow_mut().push(text);
        self.0.borrow().len()
    }
}

/// What a click starts: it waits, asks a thread, and shows the answer, all without blocking the window.
async fn answer(number: u32, label: Label, toolkit: Sender<Event>) {
    label.show(format!("{number}: working"));
    sleep(Duration::from_millis(2)).await;
    let square = LoopRef::current().run_blocking(move || number * number).await;
    let square = square.expect("the thread does not panic");
    if label.show(format!("{number}: {square}")) == LINES {
        let _ = toolkit.send(Event::Quit);
    }
}

/// The program. Returns what the label has shown.
pub fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let (toolkit, events) = mpsc::channel();
    let mut guest = EventLoop::new()?;
    let post = toolkit.clone();
    let waker = HostWaker::new(&guest, move || drop(post.send(Event::Guest)))?;
    let label = Label::default();

    let user = toolkit.clone();
    let user =
        thread::spawn(move || (2..=3).try_for_each(|number| user.send(Event::Click(number))));

    while let Ok(event) = events.recv() {
        match event {
            Event::Click(number) => {
                guest.spawn(answer(number, label.clone(), toolkit.clone())).detach();
            }
            Event::Guest => {}
            Event::Quit => break,
        }
        // One step for what the event has brought; then the toolkit has the thread again.
        guest.run_once(Some(Duration::ZERO))?;
        waker.arm(guest.prepare_wait());
    }
    user.join().expect("the user does not panic")?;
    drop(waker);
    Ok(label.0.take())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error>> {
    for text in run()? {
        println!("{text}");
    }
    Ok(())
}
