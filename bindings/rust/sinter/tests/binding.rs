//! From description to launch: on the built-in h200 model, and on the driver that SINTER_LIBCUDA names, which the tests of
//! the repository set to one that needs no GPU. Tests that need a kernel fail if there is neither a cached one nor a run-time
//! compiler; with SINTER_TEST_NO_NVRTC=1 they end early instead.
use sinter::*;
use std::future::Future;
use std::os::unix::io::AsRawFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn gated_ffn() -> Result<Chain> {
    let b = ChainBuilder::new();
    let x = b.input(DType::BF16, &[M, 64]);
    let (gate, up) = (b.constant(DType::BF16, &[256, 64]), b.constant(DType::BF16, &[256, 64]));
    let down = b.constant(DType::BF16, &[64, 256]);
    b.output(x.gated_ffn(gate, up, down, Activation::SILU, &Default::default()));
    b.finish()
}

fn no_compiler() -> bool {
    std::env::var("SINTER_TEST_NO_NVRTC").as_deref() == Ok("1")
}

/// `None` if `no_compiler()` and no kernel is cached.
fn prepared(context: &Context) -> Option<Plan> {
    match context.prepare(&gated_ffn().unwrap(), 20, &PrepareOptions::default()) {
        Err(error) if error.status() == Status::UNAVAILABLE && no_compiler() => {
            eprintln!("skipped: {error}");
            None
        }
        plan => Some(plan.unwrap()),
    }
}

fn refused<T>(result: Result<T>, status: Status, part: &str) {
    let error = result.err().expect(part);
    assert_eq!(error.status(), status, "{error}");
    assert!(error.message().contains(part), "{error}");
}

#[test]
fn every_add_reaches_the_library() {
    let b = ChainBuilder::new();
    let x = b.input(DType::F32, &[M, 8]);
    let named = InputOptions { constant: true, name: Some("w".into()), strides: Some(vec![8, 1]), ..Default::default() };
    let w = b.input_with(DType::BF16, &[8, 8], &named);
    let (vector, bias) = (b.constant(DType::F32, &[8]), b.constant(DType::BF16, &[8]));
    let (half, two) = (x.cast(DType::BF16), b.scalar(2.0, DType::F32));
    let row = b.iota(DType::S32, &[8], 0).cast(DType::F32);
    let (left, right) = (x.slice(&[0, 0], &[M, 4]), x.slice_by(&[0, 0], &[M, 8], &[1, 2]));
    let three = b.concat(&[x, x, x], 1);
    let (h, c) = b.concat(&[x, x, x, x], 1).lstm_cell(x);
    let products = GemmChainOptions { bias2: Some(bias), ..Default::default() };
    let gated = GatedFfnOptions { bias_gate: Some(bias), bias_up: Some(bias), ..Default::default() };
    let norm = NormOptions { gamma: Some(vector), ..Default::default() };
    let fixed = QuantizeOptions { granularity: Granularity::STATIC, static_scale: Some(two), ..Default::default() };
    let (codes, weights) = (x.quantize(&QuantizeOptions::default()), w.quantize(&QuantizeOptions::default()));
    let each = QuantizeOptions::default();
    let filter = b.constant(DType::BF16, &[1, 2, 2, 2]);
    let padded = Conv2dOptions { filter: Filter::HWIO, pads: [0, 0, 1, 1], ..Default::default() };
    let window = WindowOptions { window: [2, 1], pads: [1, 0, 0, 0], ..Default::default() };
    let ids = b.input(DType::S64, &[M]);
    let (slots, factors) = (b.input(DType::S32, &[M, 2]), b.input(DType::F32, &[M, 2]));
    let experts = [b.constant(DType::BF16, &[3, 16, 8]), b.constant(DType::BF16, &[3, 8, 8])];
    let expert_ends = b.input(DType::S32, &[3]);
    let of_experts = [b.constant(DType::BF16, &[3, 16]), b.constant(DType::BF16, &[3, 8])];
    let interleaved = GroupedGatedFfnOptions {
        interleaved: true,
        weight_on_input: true,
        bias1: Some(of_experts[0]),
        bias2: Some(of_experts[1]),
        alpha: 1.702,
        beta: 1.0,
        limit: 7.0,
        ..Default::default()
    };
    let up_first = GroupedGatedFfnOptions { up_first: true, ..Default::default() };
    let seed = b.input(DType::S64, &[]);
    let packing = b.constant(DType::S8, &[64, 32]);
    let (columns, of_columns) = (b.constant(DType::S8, &[1, 512]), b.constant(DType::BF16, &[1, 64]));
    let (nibbles, group_scales) = (b.constant(DType::S8, &[4]), b.constant(DType::BF16, &[2]));
    let seen = x.compare(Compare::LT, two);
    let attention = AttentionOptions { bias: Some(vector), mask: Some(seen), causal: true, ..Default::default() };
    let draw = NextTokenOptions {
        count: 4,
        temperature: Some(b.input(DType::F32, &[M])),
        k: Some(b.input(DType::S32, &[M])),
        top_p: Some(two),
        min_p: Some(two),
        log_probability: true,
    };
    let (token, log_probability) = x.next_token(seed, seed, &draw);
    let (largest, none) = x.next_token(seed, seed, &NextTokenOptions::default());
    assert!(none.is_none());
    let parts = [
        (x + x - x) * two / x.unary(Unary::EXP),
        -row.broadcast(&[M, 8]),
        x.binary(Binary::MAX, two),
        x.activation(Activation::GELU_TANH),
        x.compare(Compare::LT, two).select(x, x),
        half.matmul(w),
        half.matmul_transposed(w, false, true),
        half.reshape(&[M, 2, 2, 2]).conv2d(filter, &padded).slice(&[0, 0, 0, 0], &[M, 2, 2, 2]).reshape(&[M, 8]),
        half.reshape(&[M, 2, 2, 2])
            .conv2d(b.constant(DType::BF16, &[1, 2, 1, 2]), &Conv2dOptions { groups: 2, ..padded })
            .slice(&[0, 0, 0, 0], &[M, 2, 2, 2])
            .reshape(&[M, 8]),
        x.reshape(&[M, 2, 2, 2]).window(two, &window).reduce(Reduce::SUM, &[3, 4], false).reshape(&[M, 8]),
        x.reshape(&[M, 2, 2, 2]).max_pool2d(&window).reshape(&[M, 8]),
        x.reshape(&[M, 2, 2, 2]).avg_pool2d(&WindowOptions { exclude_pads: true, ..window }).reshape(&[M, 8]),
        x.reshape(&[M, 2, 4]).transpose(&[0, 2, 1]).reshape(&[M, 8]),
        b.concat(&[left, right], 1),
        b.constant(DType::F32, &[9, 8]).gather(ids, 0),
        x.scatter(ids, x),
        x.all_reduce(1),
        x.all_gather(1, 1),
        x.reduce_scatter(1, 1),
        half.grouped_matmul(experts[1], slots, true).reduce(Reduce::SUM, &[1], false),
        half.grouped_matmul_ends(experts[1], expert_ends, true),
        half.grouped_gated_ffn(slots, factors, experts, Activation::SILU, &up_first),
        half.grouped_gated_ffn(slots, factors, experts, Activation::SILU, &interleaved),
        codes.grouped_matmul(experts[1].quantize(&each), slots).reduce(Reduce::SUM, &[1], false),
        codes.grouped_gated_ffn(
            [slots, factors],
            experts.map(|w| w.quantize(&each)),
            Activation::SILU,
            &each,
            &up_first,
        ),
        x.gather(x.top_k(8), -1),
        x.cumsum(),
        x.argmax().reshape(&[M, 1]).cast(DType::F32).broadcast(&[M, 8]),
        x.argmin().reshape(&[M, 1]).cast(DType::F32).broadcast(&[M, 8]),
        seed.random(seed, &[M, 8]),
        x.reduce(Reduce::SUM, &[1], true).broadcast(&[M, 8]),
        x.softplus(),
        nibbles.dequantize_u4(group_scales, group_scales).broadcast(&[M, 8]),
        nibbles.dequantize_e2m1(group_scales).broadcast(&[M, 8]),
        columns
            .dequantize_u4_packed(of_columns, of_columns)
            .reduce(Reduce::SUM, &[0, 1], false)
            .broadcast(&[M, 8]),
        columns.dequantize_e2m1_packed(of_columns).reduce(Reduce::SUM, &[0, 1], false).broadcast(&[M, 8]),
        packing.pack_codes(Checkpoint::ROWS).cast(DType::F32).reduce(Reduce::SUM, &[0, 1], false).broadcast(&[M, 8]),
        of_columns.cast(DType::F32).pack_scales(Checkpoint::AWQ).reduce(Reduce::SUM, &[0, 1], false).broadcast(&[M, 8]),
        packing.pack_zeros(Checkpoint::GPTQ_V2).reduce(Reduce::SUM, &[0, 1], false).broadcast(&[M, 8]),
        packing.dequantize_e8m0().reduce(Reduce::SUM, &[0, 1], false).broadcast(&[M, 8]),
        x.clamp(-1.0, f64::INFINITY),
        (token.cast(DType::F32) + log_probability.unwrap()).reshape(&[M, 1]).broadcast(&[M, 8]),
        largest.cast(DType::F32).reshape(&[M, 1]).broadcast(&[M, 8]),
        x.swiglu(x),
        x.softmax(-1, &SoftmaxOptions { scale: 0.5, mask: Some(vector) }),
        half.attention(w, w, &attention),
        x.rmsnorm(&norm),
        x.layernorm(&NormOptions { beta: Some(vector), ..norm }),
        x.rope(left, right),
        h + c,
        three.gru_cell(three, x),
        half.linear(w, &LinearOptions { bias: Some(bias), ..Default::default() }),
        half.gemm_chain(w, w, Activation::RELU, &products),
        half.gated_ffn(w, w, w, Activation::SILU, &gated),
        codes.matmul(weights, &LinearOptions::default()),
        codes.matmul(weights, &LinearOptions { accumulate_fast: true, ..Default::default() }),
        codes.gemm_chain(weights, weights, Activation::RELU, &fixed, &products),
        codes.gated_ffn([weights; 3], Activation::SILU, &QuantizeOptions::default(), &gated),
    ];
    let sum = parts[1..].iter().fold(parts[0], |sum, part| sum + *part);
    b.output_with(sum, &OutputOptions { strides: Some(vec![16, 1]), ..Default::default() });
    assert_eq!(b.error(), None);
    let chain = b.finish().unwrap();
    assert_eq!((chain.input_count(), chain.output_count(), chain.uses_m()), (23, 1, true));
    let info = chain.buffer(1, 4).unwrap();
    assert_eq!((info.name.as_str(), info.dims, info.constant, info.bytes), ("w", vec![8, 8], true, 128));
    assert_eq!(chain.buffer(23, 4).unwrap().strides, [16, 1]);
    refused(chain.buffer(24, 4), Status::OUT_OF_RANGE, "24");
}

#[test]
fn the_first_error_of_a_description_is_kept() {
    let b = ChainBuilder::new();
    let (x, w) = (b.input(DType::BF16, &[M, 64]), b.constant(DType::BF16, &[256, 32]));
    let y = x.gemm_chain(w, w, Activation::RELU, &Default::default()); // k differs
    b.output(y + b.scalar(1.0, DType::F32));
    refused(b.finish(), Status::INVALID_ARGUMENT, "gemm_chain");

    let (one, other) = (ChainBuilder::new(), ChainBuilder::new());
    other.output(one.input(DType::F32, &[2]));
    refused(other.finish(), Status::INVALID_ARGUMENT, "value 1 of another chain");

    let b = ChainBuilder::new();
    b.input_with(DType::F32, &[2, 2], &InputOptions { strides: Some(vec![1]), ..Default::default() });
    refused(b.finish(), Status::INVALID_ARGUMENT, "input: strides has 1 values, dims has 2");
    let b = ChainBuilder::new();
    b.input(DType::F32, &[2, 2]).slice(&[0, 0], &[2]);
    refused(b.finish(), Status::INVALID_ARGUMENT, "slice: limits has 1 values");
    let b = ChainBuilder::new();
    b.input_with(DType::F32, &[2], &InputOptions { name: Some("a\0b".into()), ..Default::default() });
    refused(b.finish(), Status::INVALID_ARGUMENT, "NUL");
    for length in [0, 1, 7] {
        let b = ChainBuilder::new(); // of a value with two axes
        let options = OutputOptions { strides: Some(vec![1; length]), ..Default::default() };
        b.output_with(b.input(DType::F32, &[2, 2]), &options);
        refused(b.finish(), Status::INVALID_ARGUMENT, "stride");
    }
    refused(ChainBuilder::new().finish(), Status::FAILED_PRECONDITION, "the chain has no output");
    let b = ChainBuilder::new();
    b.output(b.input(DType(77), &[2]));
    refused(b.finish(), Status::INVALID_ARGUMENT, "77");
}

#[test]
fn errors_carry_status_and_message() {
    refused(Chain::from_text("gemm_chain act=rleu"), Status::INVALID_ARGUMENT, "gemm_chain");
    assert!(Chain::from_text("softmax rows=8 cols=64 scale=1 dtype=bf16").unwrap().input_count() > 0);
    refused(Chain::from_text("a\0b"), Status::INVALID_ARGUMENT, "NUL");
    refused(Context::for_target("h20"), Status::NOT_FOUND, "h20");
    let options = ContextOptions { target: Some("h200".into()), tuning_set: Some("/no/set".into()), ..Default::default() };
    refused(Context::new(&options), Status::INVALID_ARGUMENT, "tuning set /no/set");
    let text = Context::new(&options).unwrap_err().to_string();
    assert!(text.starts_with("INVALID_ARGUMENT: "), "{text}");
    assert_eq!((format!("{:?}", Status::CACHE_MISS), format!("{:?}", DType(77))), ("CACHE_MISS".into(), "DType(77)".into()));
    assert_eq!(Status(-3).name(), "UNKNOWN_STATUS");
    assert!(version() >= 100 && build_info().contains('.'));
}

#[test]
fn errors_have_what_their_message_names() {
    let b = ChainBuilder::new();
    let x = b.input(DType::F32, &[M, 64]);
    b.output(x.reduce(Reduce::SUM, &[5], false));
    let error = b.finish().unwrap_err();
    assert_eq!((error.op(), error.field()), (Some(1), Some("axis")), "{error}");
    assert_eq!((error.value(), error.bound()), (Some("5"), Some("in [0, 1]")), "{error}");
    let error = Chain::from_text("").unwrap_err();
    assert_eq!((error.op(), error.field(), error.value(), error.bound()), (None, None, None, None), "{error}");
}

#[test]
fn a_search_finds_what_a_prepare_chooses() {
    let options = ContextOptions { target: Some("h200".into()), cache_dir: Some("".into()), ..Default::default() };
    let context = Context::new(&options).unwrap();
    let chain = gated_ffn().unwrap();
    let found = context.search(&chain, 20, &PrepareOptions::default()).unwrap();
    assert!(found.bucket == 32 && found.kernel_count > 0 && !found.measured && !found.name.is_empty(), "{found:?}");
    assert!(0.0 < found.predicted_us && found.predicted_us <= found.unfused_us, "{found:?}");
    assert!(found.choice == Choice::FUSED || found.choice == Choice::UNFUSED, "{found:?}");
    assert_eq!(context.search(&chain, 32, &PrepareOptions::default()).unwrap(), found);
    let stats = context.stats().unwrap();
    assert_eq!((stats.searched, stats.kernels_compiled, stats.nvrtc_loaded), (1, 0, 0));
    if let Some(plan) = prepared(&context) {
        assert_eq!((plan.bucket(), plan.workspace_size()), (found.bucket, found.workspace_size));
        assert_eq!(context.stats().unwrap().searched, 1);
    }
    let must_hit = PrepareOptions { must_hit: true, ..Default::default() };
    refused(context.search(&chain, 64, &must_hit), Status::CACHE_MISS, "");
}

/// As sinter.h promises: everything may be shared between threads but a description, which may be sent.
#[test]
fn handles_are_sent_and_shared() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<(Context, Chain, Plan, Binding)>();
    shared::<(Pending, Slot, Cancel, TuningSet, Error)>();
    shared::<(ContextOptions, PrepareOptions, Stream)>();
    sent::<ChainBuilder>();
}

#[test]
fn contexts_and_tuning_sets() {
    let context = Context::for_target("h200").unwrap();
    assert!(!context.has_device());
    assert_eq!(context.tuning_digest().unwrap(), [0; 32]);
    context.deny_toolchains("12.0").unwrap();
    refused(context.deny_toolchains("everything"), Status::INVALID_ARGUMENT, "everything");
    assert_eq!(context.stats().unwrap().prepares, 0);
    assert!(context.metrics().unwrap().contains("\nsinter_prepares_total 0\n"));
    let set = TuningSet::new().unwrap();
    assert_eq!(set.count(), 0);
    assert!(set.digest().is_ok());
    refused(set.add_file("/no/such/set"), Status::INVALID_ARGUMENT, "/no/such/set");
    refused(set.write("/no/such/folder/set"), Status::INVALID_ARGUMENT, "/no/such/folder");
    let options = TuneOptions { into: Some(set), deadline: Some(Duration::from_millis(1)), ..Default::default() };
    refused(context.tune(&gated_ffn().unwrap(), 20, &options), Status::UNAVAILABLE, "");
}

#[test]
fn a_plan_is_prepared_from_many_threads_and_outlives_its_context() {
    let context = Context::for_target("h200").unwrap();
    let plan = match prepared(&context) {
        Some(plan) => plan,
        None => return,
    };
    assert_eq!((plan.bucket(), plan.max_m(), plan.buffer_count()), (32, 32, 5));
    let digest = plan.digest().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(prepared(&context).unwrap().digest(), Ok(digest)));
        }
    });
    drop(context);
    let text = plan.clone().explain().unwrap();
    assert!(text.contains("m<=32") && !text.contains('\0'), "{text}");
    let told = plan.to_string();
    assert!(told.contains("m<=32") && told.contains("predicted") && told.len() < text.len(), "{told}");
    refused(unsafe { plan.bind(&[0; 5], 0) }, Status::UNAVAILABLE, "");
}

/// What a panic carries, and whose drop panics again.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in the drop of a panic's payload");
    }
}

#[test]
fn a_callback_may_panic_with_anything() {
    let context = Context::new(&ContextOptions {
        target: Some("h200".into()),
        cache_dir: Some(String::new()),
        log_level: LogLevel::OFF,
        ..Default::default()
    })
    .unwrap();
    let progress: ProgressCallback = Arc::new(|_, _| std::panic::panic_any(Bomb));
    let options = PrepareOptions { progress: Some(progress), ..Default::default() };
    context.prepare(&gated_ffn().unwrap(), 8, &options).unwrap();
}

#[test]
fn options_reach_the_library() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let log: LogCallback = Arc::new(move |level, line| {
        let mut lines = sink.lock().unwrap();
        lines.push((level, line.to_owned()));
        let count = lines.len();
        drop(lines);
        assert!(count > 1, "a panic that is caught before it reaches C");
    });
    let held = Arc::downgrade(&log);
    let context = Context::new(&ContextOptions {
        target: Some("h200".into()),
        log: Some(log),
        log_level: LogLevel::DEBUG,
        cache_dir: Some(String::new()),
        packs: Some(vec!["/no/such/pack".into()]),
        ..Default::default()
    })
    .unwrap();
    assert!(lines.lock().unwrap().iter().any(|(_, line)| line.contains("/no/such/pack")), "{lines:?}");
    let chain = gated_ffn().unwrap();
    let must_hit = PrepareOptions { must_hit: true, ..Default::default() };
    refused(context.prepare(&chain, 20, &must_hit), Status::CACHE_MISS, "");
    let no_build = PrepareOptions { no_build: true, ..Default::default() };
    refused(context.prepare(&chain, 20, &no_build), Status::NOT_FOUND, "is not in the cache");
    let measured = PrepareOptions { measure: 11, measure_budget: Some(Duration::from_secs(1)), ..Default::default() };
    refused(context.prepare(&chain, 20, &measured), Status::UNAVAILABLE, "prepare.measure is 11");
    let late = PrepareOptions { deadline: Some(Duration::ZERO), ..Default::default() };
    refused(context.prepare(&chain, 4000, &late), Status::DEADLINE_EXCEEDED, "");
    let cancel = Cancel::new().unwrap();
    cancel.clone().request();
    let cancelled = PrepareOptions { cancel: Some(cancel), ..Default::default() };
    refused(context.prepare(&chain, 4096, &cancelled), Status::CANCELLED, "");

    let stages = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&stages);
    let progress: ProgressCallback = Arc::new(move |stage, done| sink.lock().unwrap().push((stage.to_owned(), done)));
    let watched = PrepareOptions { progress: Some(progress), choice: Choice::UNFUSED, ..Default::default() };
    let many = context.prepare_many(&[(&chain, 20), (&chain, -1), (&chain, -2)], &watched);
    let stages = stages.lock().unwrap();
    assert!(!stages.is_empty() && stages.iter().all(|(stage, done)| !stage.is_empty() && (0.0..=1.0).contains(done)));
    refused(many[1].clone(), Status::INVALID_ARGUMENT, "1");
    refused(many[2].clone(), Status::INVALID_ARGUMENT, "item 2");
    if !no_compiler() {
        assert_eq!(many[0].as_ref().unwrap().bucket(), 32);
    }
    drop(many);
    drop(context);
    assert!(held.upgrade().is_none(), "the log closure outlives its context");
}

struct Unpark(std::thread::Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match Pin::new(&mut future).poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Whether its descriptor becomes readable within a minute, as an event loop asks.
fn is_readable(pending: &Pending) -> bool {
    #[repr(C)]
    struct PollFd {
        fd: i32,
        events: i16,
        revents: i16,
    }
    extern "C" {
        fn poll(fds: *mut PollFd, count: std::os::raw::c_ulong, timeout_ms: i32) -> i32;
    }
    let fd = pending.as_fd().expect("a descriptor").as_raw_fd();
    let mut asked = PollFd { fd, events: 1, revents: 0 };
    unsafe { poll(&mut asked, 1, 60_000) == 1 && asked.revents == 1 && pending.is_ready() }
}

#[test]
fn a_pending_prepare_is_waited_for_awaited_and_dropped() {
    let context = Context::for_target("h200").unwrap();
    if prepared(&context).is_none() {
        return;
    }
    let (chain, options) = (gated_ffn().unwrap(), PrepareOptions::default());
    let pending = context.prepare_async(&chain, 20, &options).unwrap();
    assert_eq!(pending.wait().unwrap().bucket(), 32);
    assert!(pending.is_ready() && pending.wait_timeout(Duration::ZERO).unwrap().is_ok());
    assert!(is_readable(&context.prepare_async(&chain, 20, &options).unwrap()));
    assert_eq!(block_on(context.prepare_async(&chain, 20, &options).unwrap()).unwrap().bucket(), 32);
    refused(context.prepare_async(&chain, -1, &options).and_then(|pending| pending.wait()), Status::INVALID_ARGUMENT, "-1");

    // A cold context, in memory only: it takes a while, and dropping it does not.
    let cold = ContextOptions { target: Some("h200".into()), cache_dir: Some(String::new()), ..Default::default() };
    let cold = Context::new(&cold).unwrap();
    let long = PrepareOptions { deadline: Some(Duration::from_millis(3)), ..Default::default() };
    refused(block_on(cold.prepare_async(&chain, 4096, &long).unwrap()), Status::DEADLINE_EXCEEDED, "");
    // It passes where the slot looks up, or where it builds.
    let at_once = PrepareOptions { deadline: Some(Duration::ZERO), ..Default::default() };
    let slot = cold.slot(&chain, 3000, &at_once);
    refused(slot.and_then(|slot| slot.build()?.wait()), Status::DEADLINE_EXCEEDED, "");
    let many = cold.prepare_many(&[(&chain, 3500)], &at_once);
    refused(many[0].clone(), Status::DEADLINE_EXCEEDED, "");
    let began = Instant::now();
    let dropped = cold.prepare_async(&chain, 200, &options).unwrap();
    assert!(!dropped.is_ready() && dropped.wait_timeout(Duration::from_millis(1)).is_none());
    drop(dropped);
    let mut awaited = cold.prepare_async(&chain, 20, &options).unwrap();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    assert!(Pin::new(&mut awaited).poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    drop(awaited);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// A progress closure that goes on once the sender is dropped.
fn held() -> (std::sync::mpsc::Sender<()>, ProgressCallback) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let receiver = Mutex::new(receiver);
    (sender, Arc::new(move |_, _| receiver.lock().unwrap().recv().unwrap_or(())))
}

#[test]
fn a_wait_without_end_waits() {
    let cold = ContextOptions { target: Some("h200".into()), cache_dir: Some(String::new()), ..Default::default() };
    let (context, chain) = (Context::new(&cold).unwrap(), gated_ffn().unwrap());
    if prepared(&context).is_none() {
        return;
    }
    let (hold, progress) = held();
    let options = PrepareOptions { progress: Some(progress), ..Default::default() };
    let pending = context.prepare_async(&chain, 200, &options).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| pending.wait_timeout(Duration::MAX));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished(), "it gave up at once");
        drop(hold);
        assert!(waiter.join().unwrap().unwrap().is_ok());
    });
}

#[test]
fn a_slot_holds_the_best_plan_so_far() {
    let memory = ContextOptions { target: Some("h200".into()), cache_dir: Some(String::new()), ..Default::default() };
    let context = Context::new(&memory).unwrap();
    let held = match prepared(&context) {
        Some(plan) => plan,
        None => return,
    };
    let (chain, options) = (gated_ffn().unwrap(), PrepareOptions::default());
    let hit = context.slot(&chain, held.bucket(), &options).unwrap();
    assert_eq!(hit.plan().unwrap().unwrap().digest().unwrap(), held.digest().unwrap());
    refused(hit.switch(), Status::FAILED_PRECONDITION, "SINTER_SLOT_MANUAL");
    hit.offer(&held).unwrap();
    assert_eq!(hit.generation(), 3);

    let slot = context.manual_slot(&chain, 200, &options).unwrap();
    let build = slot.build().unwrap();
    assert!(slot.plan().unwrap().is_none());
    assert!(block_on(build).unwrap().bucket() >= 200);
    assert!(slot.plan().unwrap().is_none() && slot.generation() == 2);
    slot.clone().switch().unwrap();
    assert!(slot.plan().unwrap().unwrap().bucket() >= 200);
    assert_eq!(context.stats().unwrap().slot_upgrades, 2);
    refused(slot.offer(&held), Status::INVALID_ARGUMENT, "bucket");
    refused(context.slot(&chain, -1, &options).map(drop), Status::INVALID_ARGUMENT, "-1");

    let strict = PrepareOptions { must_hit: true, ..Default::default() };
    let failed = context.slot(&chain, 4000, &strict).unwrap();
    refused(failed.build().and_then(|build| build.wait()), Status::CACHE_MISS, "");
    refused(failed.plan(), Status::CACHE_MISS, "");
    drop(context.slot(&chain, 5000, &options).unwrap()); // cancelled
}

#[test]
fn a_forked_child_prepares() {
    extern "C" {
        fn fork() -> i32;
        fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
        fn alarm(seconds: u32) -> u32;
    }
    let context = Context::for_target("h200").unwrap();
    let held = match prepared(&context) {
        Some(plan) => plan,
        None => return,
    };
    let chain = gated_ffn().unwrap();
    // SAFETY: the child calls the library, which promises that, and ends.
    unsafe {
        let child = fork();
        if child == 0 {
            alarm(60);
            let again = context.prepare(&chain, 20, &PrepareOptions::default());
            _exit(i32::from(again.is_err()));
        }
        let mut status = -1;
        assert_eq!((waitpid(child, &mut status, 0), status), (child, 0));
    }
    drop(held);
}

#[test]
fn a_plan_is_bound_and_launched_on_a_driver() {
    if std::env::var_os("SINTER_LIBCUDA").is_none() {
        return;
    }
    let context = Context::open(0).unwrap();
    assert!(context.has_device());
    let plan = match prepared(&context) {
        Some(plan) => plan,
        None => return,
    };
    let buffers: Vec<DevicePtr> = (1..6).map(|i| i << 20).collect();
    let workspace = 6 << 20;
    let stream = Stream::default();
    // SAFETY: kernels of the driver without a GPU do nothing.
    unsafe {
        refused(plan.bind(&buffers[..2], workspace), Status::INVALID_ARGUMENT, "buffer_count is 2");
        refused(plan.bind(&[2, 16, 16, 16, 16], workspace), Status::INVALID_ARGUMENT, "16");
        let binding = plan.bind(&buffers, workspace).unwrap();
        drop(plan.clone());
        binding.launch(stream, 20, Launch::NONE).unwrap();
        // An invalid graph of the fake driver: the library asks the driver, and reports its answer.
        let graph = 1 as Graph;
        refused(binding.add_to_graph(std::ptr::null_mut(), &[], 20, Launch::NONE), Status::INVALID_ARGUMENT, "graph is null");
        refused(binding.add_to_graph(graph, &[], 20, Launch::PDL), Status::DRIVER, "cuGraphAddNode");
        refused(binding.add_to_graph(graph, &[], 33, Launch::PDL), Status::OUT_OF_RANGE, "33");
        binding.launch(stream, 0, Launch::PDL).unwrap();
        plan.launch(stream, 7, &buffers, workspace, Launch::NONE).unwrap();
        refused(binding.launch(stream, 33, Launch::NONE), Status::OUT_OF_RANGE, "33");
        refused(binding.launch(stream, None, Launch::NONE), Status::INVALID_ARGUMENT, "symbol_count");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| binding.launch(stream, 20, Launch::NONE).unwrap());
            }
        });
    }
    let stats = context.stats().unwrap();
    assert!(stats.launches >= 5 && stats.modules_loaded > 0);
}
