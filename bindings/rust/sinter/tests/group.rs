//! Groups of two ranks, which are threads, on the driver that SINTER_LIBCUDA names. The driver of the repository's tests needs
//! no GPU, and has as many as FAKE_LIBCUDA_GPUS says. Ends early without it.
use sinter::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, Once};
use std::time::Duration;

/// `None` without a driver of two GPUs.
fn contexts() -> Option<[Context; 2]> {
    std::env::var_os("SINTER_LIBCUDA")?;
    static TWO_GPUS: Once = Once::new(); // read when the driver is opened
    TWO_GPUS.call_once(|| std::env::set_var("FAKE_LIBCUDA_GPUS", "2"));
    let open = |device| {
        Context::new(&ContextOptions { device, cache_dir: Some(String::new()), log_level: LogLevel::OFF, ..Default::default() }).unwrap()
    };
    Some([open(0), open(1)])
}

fn refused<T>(result: Result<T>, status: Status, part: &str) {
    let error = result.err().expect(part);
    assert_eq!(error.status(), status, "{error}");
    assert!(error.message().contains(part), "{error}");
}

/// An all-gather between two threads, and how often it was called.
struct Meeting {
    parts: Mutex<Vec<Vec<u8>>>,
    met: Barrier,
    calls: AtomicUsize,
}

impl Meeting {
    fn new() -> Arc<Self> {
        Arc::new(Self { parts: Mutex::new(vec![Vec::new(); 2]), met: Barrier::new(2), calls: AtomicUsize::new(0) })
    }
    fn of(self: &Arc<Self>, rank: usize) -> Exchange {
        let meeting = Arc::clone(self);
        Arc::new(move |mine: &[u8]| {
            meeting.calls.fetch_add(1, Ordering::SeqCst);
            meeting.parts.lock().unwrap()[rank] = mine.to_vec();
            meeting.met.wait();
            let all = meeting.parts.lock().unwrap().clone();
            meeting.met.wait();
            Ok(all)
        })
    }
}

/// What `work(rank)` gives, of two threads.
fn on_all<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|rank| scope.spawn({ let work = &work; move || work(rank) })).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn small() -> GroupOptions {
    GroupOptions { slot_bytes: 1 << 16, ..Default::default() }
}

fn make_both(contexts: &[Context; 2]) -> (Arc<Meeting>, Vec<Group>) {
    let meeting = Meeting::new();
    let groups = on_all(|rank| Group::new(&contexts[rank], rank as i32, 2, meeting.of(rank), &small()).unwrap());
    (meeting, groups)
}

fn over_two_ranks() -> Chain {
    let b = ChainBuilder::new();
    b.output(b.input(DType::BF16, &[M, 64]).all_reduce(2));
    b.finish().unwrap()
}

#[test]
fn two_ranks_meet_live_abort_and_close() {
    let contexts = match contexts() {
        Some(contexts) => contexts,
        None => return,
    };
    let (meeting, groups) = make_both(&contexts);
    assert_eq!((groups[1].rank(), groups[1].size(), format!("{:?}", groups[1])), (1, 2, "Group(rank 1 of 2)".to_owned()));
    for group in &groups {
        group.status().unwrap();
        assert_eq!(group.missed(), None);
    }
    groups[1].clone().abort().unwrap();
    refused(groups[1].status(), Status::ABORTED, "rank 1");
    assert_eq!(groups[1].missed(), Some(1));
    let before = meeting.calls.load(Ordering::SeqCst);
    on_all(|rank| groups[rank].close().unwrap());
    assert_eq!(meeting.calls.load(Ordering::SeqCst), before + 2);
    groups[0].close().unwrap();
    assert_eq!(meeting.calls.load(Ordering::SeqCst), before + 2, "closed already");
}

#[test]
fn a_plan_is_bound_by_one_exchange_and_launched_until_the_group_is_closed() {
    let contexts = match contexts() {
        Some(contexts) => contexts,
        None => return,
    };
    let (meeting, groups) = make_both(&contexts);
    let before = meeting.calls.load(Ordering::SeqCst);
    let bindings = on_all(|rank| {
        let plan = match contexts[rank].prepare(&over_two_ranks(), 16, &PrepareOptions::default()) {
            Err(error) if error.status() == Status::UNAVAILABLE && std::env::var("SINTER_TEST_NO_NVRTC").as_deref() == Ok("1") => return None,
            plan => plan.unwrap(),
        };
        // SAFETY: kernels of the driver without a GPU do nothing.
        unsafe {
            refused(plan.bind(&[1 << 20, 2 << 20], 0), Status::FAILED_PRECONDITION, "sinter_plan_bind_group");
            let bound = plan.bind_group(&[1 << 20, 2 << 20], 0, &groups[rank]).unwrap();
            plan.bind_group(&[3 << 20, 4 << 20], 0, &groups[rank]).unwrap();
            bound.launch(Stream::default(), 16, Launch::NONE).unwrap();
            Some(bound)
        }
    });
    if bindings[0].is_some() {
        assert_eq!(meeting.calls.load(Ordering::SeqCst), before + 2, "the second bind knows the plan");
    }
    on_all(|rank| groups[rank].close().unwrap());
    drop(groups);
    for bound in bindings.into_iter().flatten() {
        // SAFETY: as above.
        refused(unsafe { bound.launch(Stream::default(), 16, Launch::NONE) }, Status::FAILED_PRECONDITION, "closed");
    }
}

#[test]
fn memory_may_be_shared_by_file_descriptors() {
    let contexts = match contexts() {
        Some(contexts) => contexts,
        None => return,
    };
    let meeting = Meeting::new();
    on_all(|rank| {
        let options = GroupOptions { descriptors: true, ..small() };
        let group = Group::new(&contexts[rank], rank as i32, 2, meeting.of(rank), &options).unwrap();
        group.status().unwrap();
        group.close().unwrap();
    });
}

#[test]
fn a_group_that_nobody_closed_ends_and_keeps_its_memory() {
    let contexts = match contexts() {
        Some(contexts) => contexts,
        None => return,
    };
    let (_, groups) = make_both(&contexts);
    let left: Vec<_> = groups.iter().map(|group| group.as_raw()).collect();
    drop(groups);
    for (rank, group) in left.into_iter().enumerate() {
        let (mut missed, mut error) = (-1, std::ptr::null_mut());
        // SAFETY: the handle was kept; here no other process has its memory open, so it may go.
        unsafe {
            assert_eq!(Status(sys::sinter_group_get_status(group, &mut missed, &mut error)), Status::ABORTED);
            sys::sinter_error_release(error);
            sys::sinter_group_release(group);
        }
        assert_eq!(missed, rank as i32);
    }
}

#[test]
fn ranks_of_one_process_need_no_exchange() {
    let contexts = match contexts() {
        Some(contexts) => contexts,
        None => return,
    };
    let groups = Group::local(&[&contexts[0], &contexts[1]], &small()).unwrap();
    assert_eq!((groups[0].rank(), groups[1].rank(), groups[1].size()), (0, 1, 2));
    groups[0].abort().unwrap();
    assert_eq!(groups[0].missed(), Some(0));
    refused(Group::local(&[&contexts[0]], &small()), Status::INVALID_ARGUMENT, "size is 1");
    refused(Group::local(&[], &small()), Status::INVALID_ARGUMENT, "size is 0");
    refused(Group::local(&[&contexts[0], &contexts[0]], &small()), Status::FAILED_PRECONDITION, "same GPU");
}

#[test]
fn ranks_that_differ_and_bad_options_are_named() {
    let contexts = match contexts() {
        Some(contexts) => contexts,
        None => return,
    };
    let meeting = Meeting::new();
    for made in on_all(|rank| {
        let options = GroupOptions { slot_bytes: (1 + rank as u64) << 16, timeout: Some(Duration::from_millis(5)), ..Default::default() };
        Group::new(&contexts[rank], rank as i32, 2, meeting.of(rank), &options)
    }) {
        refused(made, Status::FAILED_PRECONDITION, "rank 1 has group.slot_bytes 131072, rank 0 has 65536");
    }
    let made = |size, options: &GroupOptions| Group::new(&contexts[0], 0, size, meeting.of(0), options);
    refused(made(1, &small()), Status::INVALID_ARGUMENT, "group.size is 1, must be 2 to 8");
    let peers = GroupOptions { peers: vec![1 << 20], timeout: None, ..small() };
    refused(made(2, &peers), Status::INVALID_ARGUMENT, "see Group::with_peers");
    // SAFETY: refused before they are looked at.
    let given = unsafe { Group::with_peers(&contexts[0], 0, 2, meeting.of(0), &peers) };
    refused(given, Status::INVALID_ARGUMENT, "group.peers are 1, must be 2");
}

#[test]
fn an_exchange_may_fail_panic_and_give_too_little() {
    let contexts = match contexts() {
        Some(contexts) => contexts,
        None => return,
    };
    let fails: [(Exchange, &str); 3] = [
        (Arc::new(|_: &[u8]| Err("no network".into())), "group.exchange: no network"),
        (Arc::new(|_: &[u8]| panic!("in a callback")), "group.exchange panicked"),
        (Arc::new(|mine: &[u8]| Ok(vec![mine.to_vec()])), "bytes, must be 2 times"),
    ];
    std::panic::set_hook(Box::new(|_| {}));
    for (exchange, message) in fails {
        refused(Group::new(&contexts[0], 0, 2, exchange, &small()), Status::UNKNOWN, message);
    }
    let _ = std::panic::take_hook();
}

#[test]
fn groups_are_sent_and_shared() {
    fn is_sent_and_shared<T: Send + Sync + Clone>() {}
    is_sent_and_shared::<Group>();
    is_sent_and_shared::<GroupOptions>();
}
