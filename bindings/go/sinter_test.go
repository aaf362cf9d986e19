package sinter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sinter/cuda"
)

// From description to launch: on the built-in h200 model, and on the driver that SINTER_LIBCUDA names, which the tests of
// the repository set to one that needs no GPU.

// TestMain fails when a handle is left: all tests close theirs, and finalizers take what errors left behind.
func TestMain(m *testing.M) {
	os.Setenv("FAKE_LIBCUDA_GPUS", "2") // of the driver without a GPU, read when it is opened: groups have two ranks
	status := m.Run()
	for i := 0; i < 100 && atomic.LoadInt64(&live) > 0; i++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if left := atomic.LoadInt64(&live); left != 0 && status == 0 {
		fmt.Fprintln(os.Stderr, left, "handles are left")
		status = 1
	}
	os.Exit(status)
}

func gatedFFN(t *testing.T) *Chain {
	t.Helper()
	b := NewBuilder()
	x := b.Input(BF16, []int64{M, 64})
	gate, up := b.Constant(BF16, []int64{256, 64}), b.Constant(BF16, []int64{256, 64})
	b.Output(b.GatedFFN(x, gate, up, b.Constant(BF16, []int64{64, 256}), SiLU, GatedFFNOptions{}))
	chain, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Close)
	return chain
}

func target(t *testing.T, options Options) *Context {
	t.Helper()
	options.Target = "h200"
	c, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// noCompiler is whether SINTER_TEST_NO_NVRTC=1 says that this machine has no run-time compiler. Without it, tests that find none fail.
func noCompiler() bool { return os.Getenv("SINTER_TEST_NO_NVRTC") == "1" }

// prepare skips the test if noCompiler and no kernel is cached.
func prepare(t *testing.T, c *Context, chain *Chain) *Plan {
	t.Helper()
	plan, err := c.Prepare(context.Background(), chain, 20)
	var failed *Error
	if errors.As(err, &failed) && failed.Status == Unavailable && noCompiler() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plan.Close)
	return plan
}

func refused(t *testing.T, err error, status Status, part string) {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) || failed.Status != status || !strings.Contains(failed.Message, part) {
		t.Errorf("%v, not %v: ..%s..", err, status, part)
	}
}

func TestEveryAddReachesTheLibrary(t *testing.T) {
	b := NewBuilder()
	rows, pixels := []int64{M, 8}, []int64{M, 2, 2, 2}
	x := b.Input(F32, rows)
	w := b.InputWith(BF16, []int64{8, 8}, InputOptions{Constant: true, Name: "w", Strides: []int64{8, 1}})
	vector, bias := b.Constant(F32, []int64{8}), b.Constant(BF16, []int64{8})
	half, two := b.Cast(x, BF16), b.Scalar(2, F32)
	left, right := b.Slice(x, []int64{0, 0}, []int64{M, 4}, nil), b.Slice(x, []int64{0, 0}, rows, []int64{1, 2})
	three := b.Concat(1, x, x, x)
	h, c := b.LSTMCell(b.Concat(1, x, x, x, x), x)
	codes, weights := b.Quantize(x, QuantizeOptions{}), b.Quantize(w, QuantizeOptions{})
	sum := b.Mul(b.Add(x, x), two)
	ids, slots := b.Input(S64, []int64{M}), b.Input(S32, []int64{M, 2})
	wide := b.Quantize(b.Constant(BF16, []int64{3, 16, 8}), QuantizeOptions{})
	experts := b.Quantize(b.Constant(BF16, []int64{3, 8, 8}), QuantizeOptions{})
	seed, packing := b.Input(S64, []int64{}), b.Constant(S8, []int64{64, 32})
	token, logProbability := b.NextToken(x, seed, seed, NextTokenOptions{Count: 4, Temperature: b.Input(F32, []int64{M}),
		K: b.Input(S32, []int64{M}), TopP: two, MinP: two, LogProbability: true})
	largest, none := b.NextToken(x, seed, seed, NextTokenOptions{})
	if none != (Value{}) {
		t.Error("a log probability that was not asked for")
	}
	window := WindowOptions{Window: [2]int{2, 1}, Pads: [4]int{1, 0, 0, 0}}
	for _, part := range []Value{
		b.Unary(UnaryExp, x),
		b.Binary(BinaryMax, x, two),
		b.Broadcast(b.Cast(b.Iota(S32, []int64{8}, 0), F32), rows),
		b.Select(b.Compare(CompareLt, x, two), x, x),
		b.Matmul(half, w),
		b.MatmulTransposed(half, w, false, true),
		b.Reshape(b.Slice(b.Conv2D(b.Reshape(half, pixels), b.Constant(BF16, []int64{1, 2, 2, 2}),
			Conv2DOptions{Filter: HWIO, Pads: [4]int{0, 0, 1, 1}}), []int64{0, 0, 0, 0}, pixels, nil), rows),
		b.Reshape(b.Slice(b.Conv2D(b.Reshape(half, pixels), b.Constant(BF16, []int64{1, 2, 1, 2}),
			Conv2DOptions{Filter: HWIO, Pads: [4]int{0, 0, 1, 1}, Groups: 2}), []int64{0, 0, 0, 0}, pixels, nil), rows),
		b.Reshape(b.Reduce(ReduceSum, b.Window(b.Reshape(x, pixels), two, window), []int32{3, 4}, false), rows),
		b.Reshape(b.MaxPool2D(b.Reshape(x, pixels), window), rows),
		b.Reshape(b.AvgPool2D(b.Reshape(x, pixels),
			WindowOptions{Window: [2]int{2, 1}, Pads: [4]int{1, 0, 0, 0}, ExcludePads: true}), rows),
		b.Reshape(b.Transpose(b.Reshape(x, []int64{M, 2, 4}), []int32{0, 2, 1}), rows),
		b.Concat(1, left, right),
		b.Gather(b.Constant(F32, []int64{9, 8}), ids, 0),
		b.Scatter(x, ids, x),
		b.AllReduce(x, 1),
		b.AllGather(x, 1, 1),
		b.ReduceScatter(x, 1, 1),
		b.Reduce(ReduceSum, b.GroupedMatmul(half, b.Constant(BF16, []int64{3, 8, 8}), slots, true), []int32{1}, false),
		b.GroupedMatmulEnds(half, b.Constant(BF16, []int64{3, 8, 8}), b.Input(S32, []int64{3}), true),
		b.GroupedGatedFFN(half, slots, b.Input(F32, []int64{M, 2}), b.Constant(BF16, []int64{3, 16, 8}),
			b.Constant(BF16, []int64{3, 8, 8}), SiLU, GroupedGatedFFNOptions{Interleaved: true, WeightOnInput: true,
				Bias1: b.Constant(BF16, []int64{3, 16}), Bias2: b.Constant(BF16, []int64{3, 8}), Alpha: 1.702, Beta: 1, Limit: 7}),
		b.GroupedGatedFFN(half, slots, b.Input(F32, []int64{M, 2}), b.Constant(BF16, []int64{3, 16, 8}),
			b.Constant(BF16, []int64{3, 8, 8}), SiLU, GroupedGatedFFNOptions{UpFirst: true}),
		b.Gather(x, b.TopK(x, 8), -1),
		b.Cumsum(x),
		b.Broadcast(b.Cast(b.Reshape(b.Argmax(x), []int64{M, 1}), F32), rows),
		b.Broadcast(b.Cast(b.Reshape(b.Argmin(x), []int64{M, 1}), F32), rows),
		b.Random(seed, seed, rows),
		b.Broadcast(b.Reduce(ReduceSum, x, []int32{1}, true), rows),
		b.Activate(GELUTanh, x),
		b.Softplus(x),
		b.Broadcast(b.DequantizeU4(b.Constant(S8, []int64{4}), b.Constant(BF16, []int64{2}), two), rows),
		b.Broadcast(b.DequantizeE2M1(b.Constant(S8, []int64{4}), b.Constant(BF16, []int64{2})), rows),
		b.Broadcast(b.Reduce(ReduceSum, b.DequantizeU4Packed(b.Constant(S8, []int64{1, 512}), b.Constant(BF16, []int64{1, 64}), two),
			[]int32{0, 1}, false), rows),
		b.Broadcast(b.Reduce(ReduceSum, b.DequantizeE2M1Packed(b.Constant(S8, []int64{1, 512}), b.Constant(BF16, []int64{1, 64})),
			[]int32{0, 1}, false), rows),
		b.Broadcast(b.Reduce(ReduceSum, b.Cast(b.PackCodes(packing, CheckpointRows), F32), []int32{0, 1}, false), rows),
		b.Broadcast(b.Reduce(ReduceSum, b.PackScales(b.DequantizeE8M0(packing), CheckpointCompressedTensors), []int32{0, 1}, false), rows),
		b.Broadcast(b.Reduce(ReduceSum, b.PackZeros(packing, CheckpointAWQ), []int32{0, 1}, false), rows),
		b.Clamp(x, -1, math.Inf(1)),
		b.Broadcast(b.Reshape(b.Add(b.Cast(token, F32), logProbability), []int64{M, 1}), rows),
		b.Broadcast(b.Reshape(b.Cast(largest, F32), []int64{M, 1}), rows),
		b.SwiGLU(x, x),
		b.Softmax(x, -1, SoftmaxOptions{Scale: 0.5, Mask: vector}),
		b.Attention(half, w, w, AttentionOptions{Scale: 0.5, Bias: vector, Mask: b.Compare(CompareLt, x, two), Causal: true}),
		b.RMSNorm(x, NormOptions{Gamma: vector}),
		b.LayerNorm(x, NormOptions{Gamma: vector, Beta: vector}),
		b.Rope(x, left, right),
		h, c,
		b.GRUCell(three, three, x),
		b.Linear(half, w, LinearOptions{Bias: bias}),
		b.GemmChain(half, w, w, ReLU, GemmChainOptions{Bias2: bias}),
		b.GatedFFN(half, w, w, w, SiLU, GatedFFNOptions{BiasGate: bias, BiasUp: bias}),
		b.ScaledMatmul(codes, weights, LinearOptions{Bias: bias}),
		b.ScaledMatmul(codes, weights, LinearOptions{AccumulateFast: true}),
		b.ScaledGemmChain(codes, weights, weights, ReLU, QuantizeOptions{Granularity: ScaleStatic, StaticScale: two},
			GemmChainOptions{Bias2: bias}),
		b.Reduce(ReduceSum, b.ScaledGroupedMatmul(codes, experts, slots), []int32{1}, false),
		b.ScaledGroupedGatedFFN(codes, slots, b.Input(F32, []int64{M, 2}), wide, experts, SiLU, QuantizeOptions{},
			GroupedGatedFFNOptions{UpFirst: true}),
		b.ScaledGatedFFN(codes, weights, weights, weights, SiLU, QuantizeOptions{}, GatedFFNOptions{AccumulateFast: true}),
	} {
		sum = b.Add(sum, part)
	}
	b.OutputWith(sum, OutputOptions{Strides: []int64{16, 1}})
	if b.Err() != nil {
		t.Fatal(b.Err())
	}
	chain, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	defer chain.Close()
	if chain.InputCount() != 35 || chain.OutputCount() != 1 || !chain.UsesM() {
		t.Error(chain.InputCount(), chain.OutputCount(), chain.UsesM())
	}
	info, err := chain.Buffer(1, 4)
	want := TensorInfo{DType: BF16, Dims: []int64{8, 8}, Strides: []int64{8, 1}, Bytes: 128, Constant: true, Name: "w"}
	if err != nil || !reflect.DeepEqual(info, want) {
		t.Error(info, err)
	}
	_, err = chain.Buffer(36, 4)
	refused(t, err, OutOfRange, "36")
	_, err = chain.Buffer(-1, 4)
	refused(t, err, OutOfRange, "-1")
}

func TestTheFirstErrorOfADescriptionIsKept(t *testing.T) {
	finish := func(describe func(b *Builder)) error {
		b := NewBuilder()
		describe(b)
		_, err := b.Finish()
		return err
	}
	refused(t, finish(func(b *Builder) {
		x, w := b.Input(BF16, []int64{M, 64}), b.Constant(BF16, []int64{256, 32})
		b.Output(b.Add(b.GemmChain(x, w, w, ReLU, GemmChainOptions{}), b.Scalar(1, F32))) // k differs
	}), InvalidArgument, "gemm_chain")
	refused(t, finish(func(b *Builder) { b.Output(NewBuilder().Input(F32, []int64{2})) }), InvalidArgument,
		"value 1 of another chain")
	refused(t, finish(func(b *Builder) { b.Output(b.Unary(UnaryExp, Value{})) }), InvalidArgument, "SINTER_NO_VALUE")
	refused(t, finish(func(b *Builder) { b.InputWith(F32, []int64{2, 2}, InputOptions{Strides: []int64{1}}) }),
		InvalidArgument, "input: strides has 1 values, dims has 2")
	refused(t, finish(func(b *Builder) { b.Slice(b.Input(F32, []int64{2, 2}), []int64{0, 0}, []int64{2}, nil) }),
		InvalidArgument, "slice: limits has 1 values")
	refused(t, finish(func(b *Builder) { b.InputWith(F32, []int64{2}, InputOptions{Name: "a\x00b"}) }), InvalidArgument, "NUL")
	refused(t, finish(func(b *Builder) { b.Input(DType(77), nil) }), InvalidArgument, "77")
	for _, length := range []int{0, 1, 7} { // of a value with two axes
		strides := make([]int64, length)
		refused(t, finish(func(b *Builder) { b.OutputWith(b.Input(F32, []int64{2, 2}), OutputOptions{Strides: strides}) }),
			InvalidArgument, "stride")
	}
	const large = 1 << 32 // its low 32 bits are 0, which is a good axis and pad
	x := func(b *Builder) Value { return b.Input(BF16, []int64{8, 8, 8, 8}) }
	for field, add := range map[string]func(b *Builder){
		"iota: axis":    func(b *Builder) { b.Iota(S32, []int64{8}, large) },
		"concat: axis":  func(b *Builder) { b.Concat(large, x(b), x(b)) },
		"softmax: axis": func(b *Builder) { b.Softmax(x(b), large, SoftmaxOptions{}) },
		"conv2d: pad":   func(b *Builder) { b.Conv2D(x(b), x(b), Conv2DOptions{Pads: [4]int{0, 0, 0, large}}) },
	} {
		refused(t, finish(add), InvalidArgument, fmt.Sprintf("%s is %d", field, large))
	}
	refused(t, finish(func(b *Builder) {}), FailedPrecondition, "the chain has no output")

	b := NewBuilder()
	b.Output(b.Unary(UnaryExp, b.Input(F32, []int64{2})))
	if chain, err := b.Finish(); err != nil {
		t.Error(err)
	} else {
		chain.Close()
	}
	b.Input(F32, []int64{2})
	refused(t, b.Err(), FailedPrecondition, "the builder is closed")
}

func TestErrorsCarryStatusAndMessage(t *testing.T) {
	if _, err := ParseChain("gemm_chain act=rleu"); err == nil || !strings.HasPrefix(err.Error(), "INVALID_ARGUMENT: gemm_chain") {
		t.Error(err)
	}
	_, err := ParseChain("a\x00b")
	refused(t, err, InvalidArgument, "NUL")
	_, err = OpenTarget("h20")
	refused(t, err, NotFound, "h20")
	_, err = Open(Options{Target: "h200", TuningSet: String("/no/such/set")})
	refused(t, err, InvalidArgument, "tuning set /no/such/set")
	_, err = Open(Options{Target: "h200", Device: math.MinInt})
	refused(t, err, InvalidArgument, "context.device")
	_, err = Open(Options{Target: "h200", CacheDir: String("a\x00b")})
	refused(t, err, InvalidArgument, "context.cache_dir")
	_, err = Open(Options{Target: "h200", DenyToolchains: String("everything")})
	refused(t, err, InvalidArgument, "context.deny_toolchains")
	if Status(-3).String() != "UNKNOWN_STATUS" || Version() < 100 || BuildInfo() == "" {
		t.Error(Status(-3), Version(), BuildInfo())
	}
}

func TestContextsAndTuningSets(t *testing.T) {
	c := target(t, Options{TuningSet: String(""), ModuleCacheBytes: 1 << 20})
	if digest, err := c.TuningDigest(); err != nil || digest != (Digest{}) || c.HasDevice() {
		t.Error(digest, err)
	}
	if err := c.DenyToolchains("12.0,8f3a90c1d2"); err != nil {
		t.Error(err)
	}
	refused(t, c.DenyToolchains("everything"), InvalidArgument, "everything")
	if stats, err := c.Stats(); err != nil || stats.Prepares != 0 {
		t.Error(stats, err)
	}
	if text, err := c.Metrics(); err != nil || !strings.Contains(text, "\nsinter_prepares_total 0\n") {
		t.Error(text, err)
	}
	if fields := reflect.TypeOf(Stats{}).NumField(); fields != statsWords {
		t.Errorf("Stats has %d fields, sinter_stats %d", fields, statsWords)
	}
	set, err := NewTuningSet()
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if _, err := set.Digest(); err != nil || set.Count() != 0 {
		t.Error(err, set.Count())
	}
	refused(t, set.AddFile("/no/such/set"), InvalidArgument, "/no/such/set")
	refused(t, set.Write("/no/such/folder/set"), InvalidArgument, "/no/such/folder")
	refused(t, c.Tune(gatedFFN(t), 20, TuneOptions{Into: set}), Unavailable, "")
	refused(t, c.Tune(gatedFFN(t), 20, TuneOptions{Deadline: -time.Nanosecond}), InvalidArgument, "tune.deadline_us")
}

func TestAShortDeadlineIsNotNone(t *testing.T) {
	for given, want := range map[time.Duration]int64{0: 0, 1: 1, -1: -1, 1000: 1, 2999: 2, -2999: -2, time.Second: 1e6} {
		if got := microseconds(given); got != want {
			t.Errorf("%v is %d us, not %d", given, got, want)
		}
	}
}

func TestPreparesFromManyGoroutines(t *testing.T) {
	c, chain := target(t, Options{}), gatedFFN(t)
	prepare(t, c, chain)
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			plan, err := c.Prepare(context.Background(), chain, 20)
			if err != nil {
				t.Error(err)
				return
			}
			defer plan.Close()
			if text := fmt.Sprint(plan); !strings.Contains(text, "m<=32") || !strings.Contains(text, "predicted") {
				t.Error(text)
			}
			if text, err := plan.Explain(); err != nil || !strings.Contains(text, "m<=32") {
				t.Error(text, err)
			}
		}()
	}
	group.Wait()
}

func TestAContextEndsAPrepare(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String("")}), gatedFFN(t)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := c.Prepare(gone, chain, 4096)
	refused(t, err, Cancelled, "")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	late, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err = c.Prepare(late, chain, 4000); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	// In the middle: the progress callback says that it is under way.
	running, cancel := context.WithCancel(context.Background())
	_, err = c.PrepareWith(running, chain, 3000, PrepareOptions{Progress: func(string, float64) { cancel() }})
	if err == nil || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAPendingPrepareTellsWhenItEnds(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String("")}), gatedFFN(t)
	prepare(t, c, chain)
	held := make(chan struct{})
	pending, err := c.PrepareAsync(context.Background(), chain, 200, PrepareOptions{Progress: func(string, float64) { <-held }})
	if err != nil {
		t.Fatal(err)
	}
	defer pending.Close()
	select {
	case <-pending.Done():
		t.Error("it has ended while its progress was held")
	default:
	}
	late, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = pending.Wait(late)
	refused(t, err, DeadlineExceeded, "still under way")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(held)
	select {
	case <-pending.Done():
	case <-time.After(time.Minute):
		t.Fatal("no channel was closed at the end of the prepare")
	}
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			plan, err := pending.Wait(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			defer plan.Close()
			if plan.Bucket() < 200 || plan.MaxM() != plan.Bucket() {
				t.Error(plan.Bucket(), plan.MaxM())
			}
		}()
	}
	group.Wait()
	if plan, err := pending.Wait(late); err != nil { // it has ended, whatever ctx says
		t.Error(err)
	} else {
		plan.Close()
	}
}

func TestAPendingPrepareEnds(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String(""), LogLevel: LogOff}), gatedFFN(t)
	_, err := c.PrepareAsync(context.Background(), &Chain{}, 20, PrepareOptions{})
	refused(t, err, InvalidArgument, "nil")
	wrong, err := c.PrepareAsync(context.Background(), chain, -1, PrepareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	_, err = wrong.Wait(context.Background())
	refused(t, err, InvalidArgument, "-1")
	// Ended by its context.
	running, cancel := context.WithCancel(context.Background())
	pending, err := c.PrepareAsync(running, chain, 3000, PrepareOptions{Progress: func(string, float64) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	defer pending.Close()
	if _, err := pending.Wait(context.Background()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Ended by its own error.
	missed, err := c.PrepareAsync(context.Background(), chain, 2000, PrepareOptions{MustHit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer missed.Close()
	<-missed.Done()
	_, err = missed.Wait(context.Background())
	refused(t, err, CacheMiss, "")
	// Ended by Close, while another goroutine waits.
	begun, once := make(chan struct{}), sync.Once{}
	dropped, err := c.PrepareAsync(context.Background(), chain, 1000, PrepareOptions{Progress: func(string, float64) {
		once.Do(func() { close(begun) })
	}})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() {
		_, err := dropped.Wait(context.Background())
		waited <- err
	}()
	<-begun
	dropped.Close()
	<-dropped.Done()
	if err := <-waited; err == nil {
		t.Error("a closed prepare gave a plan")
	}
	_, err = dropped.Wait(context.Background())
	refused(t, err, FailedPrecondition, "the pending prepare is closed")
}

func TestABuildOfASlotHasADeadline(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String("")}), gatedFFN(t)
	prepare(t, c, chain)
	slot, err := c.NewSlot(chain, 3000, SlotOptions{Deadline: time.Microsecond})
	if err == nil { // it passes where the slot looks up, or where it builds
		defer slot.Close()
		_, err = slot.Wait(context.Background())
	}
	refused(t, err, DeadlineExceeded, "")
	_, err = c.NewSlot(chain, 3000, SlotOptions{Deadline: -time.Second})
	refused(t, err, InvalidArgument, "prepare.deadline_us is -1000000")
}

func TestASlotHoldsTheBestPlanSoFar(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String("")}), gatedFFN(t)
	prepare(t, c, chain)
	held := make(chan struct{})
	slot, err := c.NewSlot(chain, 200, SlotOptions{PrepareOptions: PrepareOptions{Progress: func(string, float64) { <-held }}, Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Close()
	_, err = slot.Acquire()
	refused(t, err, NotFound, "in the background")
	refused(t, slot.Switch(), NotFound, "in the background")
	late, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := slot.Wait(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	build, err := slot.Build()
	if err != nil {
		t.Fatal(err)
	}
	defer build.Close()
	close(held)
	<-build.Done()
	built, err := slot.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	_, err = slot.Acquire()
	refused(t, err, NotFound, "waits for sinter_slot_switch")
	if err := slot.Switch(); err != nil || slot.Generation() != 2 {
		t.Error(err, slot.Generation())
	}
	plan, err := slot.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	if plan.Bucket() != built.Bucket() {
		t.Error(plan.Bucket(), built.Bucket())
	}
	if err := slot.Offer(built); err != nil || slot.Generation() != 3 {
		t.Error(err, slot.Generation())
	}
	refused(t, slot.Offer(prepare(t, c, chain)), InvalidArgument, "bucket")
	refused(t, slot.Offer(nil), InvalidArgument, "plan is nil")
	refused(t, slot.Offer(&Plan{}), InvalidArgument, "nil")
	_, err = c.NewSlot(chain, -1, SlotOptions{})
	refused(t, err, InvalidArgument, "-1")
	slot.Close()
	refused(t, slot.Offer(built), FailedPrecondition, "the slot is closed")
	_, err = slot.Acquire()
	refused(t, err, FailedPrecondition, "the slot is closed")
	strict := target(t, Options{CacheDir: String(""), LogLevel: LogOff})
	failed, err := strict.NewSlot(chain, 20, SlotOptions{PrepareOptions: PrepareOptions{MustHit: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer failed.Close()
	_, err = failed.Wait(context.Background())
	refused(t, err, CacheMiss, "")
	_, err = failed.Acquire()
	refused(t, err, CacheMiss, "")
}

// waiters are goroutines, and functions that the library is to call.
func waiters() (count int) {
	callbacks.Range(func(interface{}, interface{}) bool {
		count++
		return true
	})
	return count + runtime.NumGoroutine()
}

func TestWaitsThatEndEarlyLeaveNothingBehind(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String("")}), gatedFFN(t)
	prepare(t, c, chain)
	held := make(chan struct{})
	options := PrepareOptions{Progress: func(string, float64) { <-held }}
	slot, err := c.NewSlot(chain, 200, SlotOptions{PrepareOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Close()
	pending, err := c.PrepareAsync(context.Background(), chain, 3000, options)
	if err != nil {
		t.Fatal(err)
	}
	defer pending.Close()
	defer close(held)
	late, cancel := context.WithCancel(context.Background())
	cancel()
	wait := func() {
		for _, wait := range []func(context.Context) (*Plan, error){slot.Wait, pending.Wait} {
			if _, err := wait(late); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		build, err := slot.Build()
		if err != nil {
			t.Fatal(err)
		}
		build.Close()
	}
	wait()
	before := waiters()
	for i := 0; i < 100; i++ {
		wait()
	}
	if left := waiters() - before; left > 4 { // the runtime has some of its own
		t.Errorf("100 waits left %d waiters", left)
	}
}

func TestAClosedBuildIsWaitedForNoLonger(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String("")}), gatedFFN(t)
	prepare(t, c, chain)
	held := make(chan struct{})
	slot, err := c.NewSlot(chain, 200, SlotOptions{PrepareOptions: PrepareOptions{Progress: func(string, float64) { <-held }}})
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Close()
	defer close(held)
	var builds [2]*Pending
	for i := range builds {
		if builds[i], err = slot.Build(); err != nil {
			t.Fatal(err)
		}
		defer builds[i].Close()
	}
	waited := make(chan error)
	go func() {
		_, err := builds[0].Wait(context.Background())
		waited <- err
	}()
	builds[0].Close()
	select {
	case err := <-waited:
		refused(t, err, FailedPrecondition, "the pending prepare is closed")
	case <-time.After(10 * time.Second):
		t.Fatal("a wait goes on after Close")
	}
	late, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = builds[0].Wait(late)
	refused(t, err, FailedPrecondition, "the pending prepare is closed")
	<-builds[0].Done()
	select {
	case <-builds[1].Done():
		t.Error("another's Close ended it")
	default:
	}
}

func TestOptionsReachTheLibrary(t *testing.T) {
	var lock sync.Mutex
	var lines []string
	c := target(t, Options{CacheDir: String(""), Packs: []string{"/no/such/pack"}, LogLevel: LogDebug,
		Log: func(_ LogLevel, line string) {
			lock.Lock()
			defer lock.Unlock()
			lines = append(lines, line)
			panic("caught before it reaches C")
		}})
	lock.Lock()
	logged := strings.Join(lines, "\n")
	lock.Unlock()
	if !strings.Contains(logged, "/no/such/pack") {
		t.Error(logged)
	}
	chain := gatedFFN(t)
	_, err := c.PrepareWith(context.Background(), chain, 20, PrepareOptions{Threads: -1})
	refused(t, err, InvalidArgument, "prepare.threads is -1")
	_, err = c.PrepareWith(context.Background(), chain, 20, PrepareOptions{MustHit: true})
	refused(t, err, CacheMiss, "")
	_, err = c.PrepareWith(context.Background(), chain, 20, PrepareOptions{NoBuild: true})
	refused(t, err, NotFound, "is not in the cache")
	plans, errs := c.PrepareMany(context.Background(), []Item{{chain, 20}, {chain, -1}, {chain, -2}}, PrepareOptions{Choice: ChoiceUnfused})
	refused(t, errs[1], InvalidArgument, "1")
	refused(t, errs[2], InvalidArgument, "item 2")
	if plans[0] != nil {
		plans[0].Close()
	}
	_, errs = c.PrepareMany(context.Background(), []Item{{nil, 1}}, PrepareOptions{})
	refused(t, errs[0], InvalidArgument, "chain is nil")
	_, errs = c.PrepareMany(context.Background(), []Item{{chain, 1}, {chain, 2}}, PrepareOptions{Threads: -1})
	for _, err := range errs { // the whole call is refused
		refused(t, err, InvalidArgument, "prepare.threads is -1")
	}
}

func TestErrorsHaveWhatTheirMessageNames(t *testing.T) {
	b := NewBuilder()
	b.Output(b.Reduce(ReduceSum, b.Input(F32, []int64{M, 64}), []int32{5}, false))
	_, err := b.Finish()
	var failed *Error
	if !errors.As(err, &failed) || failed.Op != 1 || failed.Field != "axis" || failed.Value != "5" || failed.Bound != "in [0, 1]" {
		t.Errorf("%#v", err)
	}
	_, err = ParseChain("")
	if !errors.As(err, &failed) || failed.Op != -1 || failed.Field != "" || failed.Value != "" || failed.Bound != "" {
		t.Errorf("%#v", err)
	}
}

func TestASearchFindsWhatAPrepareChooses(t *testing.T) {
	c, ctx := target(t, Options{CacheDir: String("")}), context.Background()
	chain := gatedFFN(t)
	found, err := c.Search(ctx, chain, 20, PrepareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found.Bucket != 32 || found.KernelCount < 1 || found.Measured || found.Name == "" ||
		found.PredictedUs <= 0 || found.PredictedUs > found.UnfusedUs || found.Choice == ChoiceBest {
		t.Errorf("%+v", found)
	}
	if again, err := c.Search(ctx, chain, 32, PrepareOptions{}); err != nil || *again != *found {
		t.Error(again, err)
	}
	stats, err := c.Stats()
	if err != nil || stats.Searched != 1 || stats.KernelsCompiled != 0 {
		t.Error(stats, err)
	}
	plan := prepare(t, c, chain)
	if stats, err = c.Stats(); err != nil || stats.Searched != 1 || plan.WorkspaceSize() != found.WorkspaceSize {
		t.Error(stats, err)
	}
	_, err = c.Search(ctx, chain, 64, PrepareOptions{MustHit: true})
	refused(t, err, CacheMiss, "")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err = c.Search(cancelled, chain, 128, PrepareOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestMeasuringNeedsAGPU(t *testing.T) {
	c := target(t, Options{CacheDir: String("")})
	_, err := c.PrepareWith(context.Background(), gatedFFN(t), 20, PrepareOptions{Measure: 11, MeasureBudget: time.Second})
	refused(t, err, Unavailable, "prepare.measure is 11, but no measured choice is kept")
	_, err = c.PrepareWith(context.Background(), gatedFFN(t), 20, PrepareOptions{Measure: 65})
	refused(t, err, InvalidArgument, "prepare.measure is 65, must be in [-1, 64]")
	_, err = c.PrepareWith(context.Background(), gatedFFN(t), 20, PrepareOptions{MeasureBudget: -time.Second})
	refused(t, err, InvalidArgument, "prepare.measure_budget_us is -1000000")
}

func TestACallbackMayEndItsGoroutine(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String(""), LogLevel: LogOff}), gatedFFN(t)
	calls := int64(0)
	plan, err := c.PrepareWith(context.Background(), chain, 20, PrepareOptions{Progress: func(string, float64) {
		atomic.AddInt64(&calls, 1)
		runtime.Goexit() // as t.FailNow does
	}})
	if err != nil || atomic.LoadInt64(&calls) == 0 {
		t.Fatal(err, calls)
	}
	plan.Close()
}

func TestOrdinalsOfGpusAreNotCut(t *testing.T) {
	for _, ordinal := range []int{-1, 1 << 32} {
		if _, err := cuda.Open(ordinal); err == nil || !strings.Contains(err.Error(), "cuda: ordinal is") {
			t.Error(ordinal, err)
		}
	}
}

func TestADeadlineIsToldAsOne(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String(""), LogLevel: LogOff}), gatedFFN(t)
	for after := time.Duration(0); after < 8; after++ {
		ctx, cancel := context.WithTimeout(context.Background(), after*time.Millisecond)
		plan, err := c.Prepare(ctx, chain, 20)
		cancel()
		if err == nil {
			plan.Close()
			break
		}
		refused(t, err, DeadlineExceeded, "")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
}

func TestOnlyWhatAContextEndedWrapsItsError(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String(""), LogLevel: LogOff}), gatedFFN(t)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, errs := c.PrepareMany(gone, []Item{{chain, 20}, {chain, 20}, {chain, -1}}, PrepareOptions{})
	for _, err := range errs[:2] {
		refused(t, err, Cancelled, "")
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	refused(t, errs[2], InvalidArgument, "item 2")
	if errors.Is(errs[2], context.Canceled) {
		t.Error("bad input is reported as a cancelled call")
	}
}

func TestClosedAndEmptyHandlesAreErrors(t *testing.T) {
	c, chain := target(t, Options{}), gatedFFN(t)
	plan := prepare(t, c, chain)
	c.Close()
	c.Close()
	_, err := c.Prepare(context.Background(), chain, 20)
	refused(t, err, FailedPrecondition, "the context is closed")
	if _, err := plan.Explain(); err != nil {
		t.Error(err) // a plan keeps what it needs
	}
	plan.Close()
	_, err = plan.Bind(nil, 0)
	refused(t, err, FailedPrecondition, "the plan is closed")
	if text := plan.String(); !strings.Contains(text, "the plan is closed") {
		t.Error(text)
	}
	if plan.Bucket() != 0 || plan.MaxM() != 0 || plan.WorkspaceSize() != 0 {
		t.Error(plan.Bucket(), plan.MaxM(), plan.WorkspaceSize())
	}
	refused(t, (&Binding{}).Launch(0, 1, 0), InvalidArgument, "nil")
	_, err = (&Context{}).Prepare(context.Background(), chain, 20)
	refused(t, err, InvalidArgument, "nil")
	_, err = (&Slot{}).Wait(context.Background())
	refused(t, err, InvalidArgument, "nil")
}

func TestAPendingThatWasNeverMadeIsAnErrorAtOnce(t *testing.T) {
	late, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := (&Pending{}).Wait(late)
	refused(t, err, InvalidArgument, "nil")
	select {
	case <-(&Pending{}).Done():
	default:
		t.Error("a select on it would wait for ever")
	}
	(&Pending{}).Close()
}

func TestCloseMayRaceWithCalls(t *testing.T) {
	for i := 0; i < 20; i++ {
		c := target(t, Options{})
		var group sync.WaitGroup
		for j := 0; j < 4; j++ {
			group.Add(1)
			go func() {
				defer group.Done()
				if _, err := c.Stats(); err != nil {
					refused(t, err, FailedPrecondition, "closed")
				}
			}()
		}
		c.Close()
		group.Wait()
	}
}

// collected collects until a channel is closed.
func collected(t *testing.T, released <-chan struct{}) {
	t.Helper()
	for i := 0; i < 100; i++ {
		runtime.GC()
		select {
		case <-released:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("not released after 100 collections")
}

// dropBuilder makes a builder that nobody closes, and tells when it is given back.
func dropBuilder() <-chan struct{} {
	released := make(chan struct{})
	b := NewBuilder()
	release := b.h.release
	b.h.release = func(p pointer) {
		release(p)
		close(released)
	}
	return released
}

func TestFinalizersGiveBackWhatNobodyClosed(t *testing.T) {
	collected(t, dropBuilder())
}

func TestFinalizersDoNotWaitForAPrepare(t *testing.T) {
	c, chain := target(t, Options{CacheDir: String("")}), gatedFFN(t)
	prepare(t, c, chain)
	held, begun, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	func() {
		pending, err := c.PrepareAsync(context.Background(), chain, 200, PrepareOptions{Progress: func(string, float64) { <-held }})
		if err != nil {
			t.Fatal(err)
		}
		release := pending.h.release
		pending.h.release = func(p pointer) {
			close(begun)
			release(p) // until the progress is not held any more
			close(ended)
		}
	}()
	collected(t, begun)
	collected(t, dropBuilder())
	close(held)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("not released")
	}
}

// Before another test has opened the driver: its functions are not there yet.
func TestADeviceThatIsNotOpenIsAnError(t *testing.T) {
	var device cuda.Device
	_, err := device.Alloc(16)
	for _, err := range []error{err, device.Upload(16, []byte{1}, 0), device.Synchronize(0)} {
		var failed *cuda.Error
		if !errors.As(err, &failed) || failed.Result != 201 || failed.Error() == "" { // CUDA_ERROR_INVALID_CONTEXT
			t.Error(err)
		}
	}
	if err := device.Close(); err != nil {
		t.Error(err)
	}
}

func TestAPlanIsBoundAndLaunchedOnADriver(t *testing.T) {
	if os.Getenv("SINTER_LIBCUDA") == "" {
		t.Skip("SINTER_LIBCUDA names no driver that needs no GPU")
	}
	c, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !c.HasDevice() {
		t.Error("no device")
	}
	plan := prepare(t, c, gatedFFN(t))
	defer plan.Close()
	device, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	handle, err := device.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer device.DestroyStream(handle)
	stream := Stream(handle)
	memory, err := device.Alloc(6 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Free(memory)
	var buffers []DevicePtr
	for i := uint64(0); i < 5; i++ {
		buffers = append(buffers, DevicePtr(memory+i<<20))
	}
	workspace := DevicePtr(memory + 5<<20)
	sent, back := []byte("through the device"), make([]byte, 18)
	if device.Upload(memory, sent, handle) != nil || device.Download(back, memory, handle) != nil || string(back) != string(sent) {
		t.Errorf("%q", back)
	}
	if err := device.Synchronize(handle); err != nil {
		t.Error(err)
	}
	_, err = plan.Bind(buffers[:2], workspace)
	refused(t, err, InvalidArgument, "buffer_count is 2")
	_, err = plan.Bind([]DevicePtr{2, 16, 16, 16, 16}, workspace)
	refused(t, err, InvalidArgument, "16")
	if err := plan.InitWorkspace(workspace, plan.WorkspaceSize(), stream); err != nil {
		t.Error(err)
	}
	binding, err := plan.Bind(buffers, workspace)
	if err != nil {
		t.Fatal(err)
	}
	defer binding.Close()
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := binding.Launch(stream, 20, 0); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	for _, err := range []error{binding.Launch(0, 0, LaunchPDL), binding.Launch(stream, 20, LaunchPDL), plan.Launch(stream, 7, buffers, workspace, 0)} {
		if err != nil {
			t.Error(err)
		}
	}
	refused(t, binding.Launch(0, 33, 0), OutOfRange, "33")
	_, err = binding.AddToGraph(0, nil, 20, 0)
	refused(t, err, InvalidArgument, "graph is null")
	_, err = binding.AddToGraph(1, []GraphNode{2}, 20, 0) // the fake driver has no such graph
	refused(t, err, Driver, "cuGraphAddNode")
	refused(t, (&GraphNodes{}).Update(1, binding, 20), InvalidArgument, "nil")
	refused(t, (&GraphNodes{}).Update(1, nil, 20), InvalidArgument, "binding is nil")
	refused(t, binding.Launch(0, NoM, 0), InvalidArgument, "symbol_count")
	refused(t, binding.Launch(0, 1, 64), InvalidArgument, "0x40")
	if stats, err := c.Stats(); err != nil || stats.Launches < 6 || stats.ModulesLoaded == 0 {
		t.Error(stats, err)
	}
}

func TestALaunchAllocatesNothing(t *testing.T) {
	if os.Getenv("SINTER_LIBCUDA") == "" {
		t.Skip("SINTER_LIBCUDA names no driver that needs no GPU")
	}
	c, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	binding, err := prepare(t, c, gatedFFN(t)).Bind([]DevicePtr{1 << 32, 2 << 32, 3 << 32, 4 << 32, 5 << 32}, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer binding.Close()
	launch := func() {
		if err := binding.Launch(0, 0, 0); err != nil {
			t.Error(err)
		}
	}
	if allocations := testing.AllocsPerRun(100, launch); allocations != 0 {
		t.Errorf("%v allocations a launch", allocations)
	}
}
