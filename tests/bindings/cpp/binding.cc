// sinter.hpp from description to launch: on the built-in h200 model, and on the fake driver that
// SINTER_LIBCUDA names. Compiled without exceptions and RTTI. Exits 77 when there is neither a
// cached kernel nor a run-time compiler.
#include <dlfcn.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "sinter/sinter_experimental.h"
// After it, so that the text form is there.
#include "sinter/sinter.hpp"

namespace {

using sinter::DType;

int g_failures = 0;

void Expect(bool condition, const char* what, int line, const std::string& text = "") {
  if (condition) return;
  std::fprintf(stderr, "line %d: not so: %s %s\n", line, what, text.c_str());
  ++g_failures;
}
#define EXPECT(condition) Expect(condition, #condition, __LINE__)
void ExpectOk(const sinter::Status& status, const char* what, int line) {
  Expect(status.ok(), what, line, status.message());
}
#define EXPECT_OK(status) ExpectOk(status, #status, __LINE__)

void ExpectRefused(const sinter::Status& status, sinter_status code, const char* part, int line) {
  Expect(status.code() == code && status.message().find(part) != std::string::npos, part, line,
         std::string("in ") + status.name() + ": " + status.message());
}
#define EXPECT_REFUSED(status, code, part) ExpectRefused(status, code, part, __LINE__)

constexpr int64_t kK = 64, kN = 256, kL = 64;
constexpr auto kSilu = sinter::Activation::kSilu;

sinter::Result<sinter::Chain> GatedFfn() {
  sinter::ChainBuilder b;
  const auto x = b.Input(DType::kBf16, {sinter::kM, kK});
  const auto gate = b.Constant(DType::kBf16, {kN, kK});
  const auto up = b.Constant(DType::kBf16, {kN, kK});
  b.Output(b.GatedFfn(x, gate, up, b.Constant(DType::kBf16, {kL, kN}), kSilu));
  return b.Finish();
}

// Every add of the builder, in a chain that the library takes.
void EveryAddReachesTheLibrary() {
  sinter::ChainBuilder b;
  const auto x = b.Input(DType::kF32, {sinter::kM, 8});
  sinter::InputOptions named;
  named.name = "w";
  named.strides = {8, 1};
  const auto w = b.Constant(DType::kBf16, {8, 8}, named);
  const auto vector = b.Constant(DType::kF32, {8});
  const auto half = b.Cast(x, DType::kBf16);
  const auto two = b.Scalar(2, DType::kF32);
  const auto row = b.Cast(b.Iota(DType::kS32, {8}, 0), DType::kF32);
  auto sum = (x + x - x) * two / b.Apply(sinter::Unary::kExp, x);
  sum = sum + -b.Broadcast(row, {sinter::kM, 8});
  sum = sum + b.Apply(sinter::Binary::kMax, x, two);
  sum = sum + b.Apply(kSilu, x);
  sum = sum + b.Select(b.Compare(sinter::Comparison::kLt, x, two), x, x);
  sum = sum + b.Matmul(half, w, SINTER_MATMUL_TRANSPOSE_B);
  const auto slots = b.Input(DType::kS32, {sinter::kM, 2});
  const auto experts = b.Constant(DType::kBf16, {3, 8, 8});
  const auto slot_sums = b.GroupedMatmul(half, experts, slots, SINTER_MATMUL_TRANSPOSE_B);
  sum = sum + b.Reduce(sinter::Reduction::kSum, slot_sums, {1});
  sum = sum +
        b.GroupedMatmulEnds(half, experts, b.Input(DType::kS32, {3}), SINTER_MATMUL_TRANSPOSE_B);
  sinter::GroupedGatedFfnOptions gpt_oss;
  gpt_oss.interleaved = gpt_oss.weight_on_input = true;
  gpt_oss.bias1 = b.Constant(DType::kBf16, {3, 16});
  gpt_oss.bias2 = b.Constant(DType::kBf16, {3, 8});
  gpt_oss.alpha = 1.702;
  gpt_oss.beta = 1;
  gpt_oss.limit = 7;
  sum = sum + b.GroupedGatedFfn(half, slots, b.Input(DType::kF32, {sinter::kM, 2}),
                                b.Constant(DType::kBf16, {3, 16, 8}), experts, kSilu, gpt_oss);
  sinter::GroupedGatedFfnOptions up_first;
  up_first.up_first = true;
  sum = sum + b.GroupedGatedFfn(half, slots, b.Input(DType::kF32, {sinter::kM, 2}),
                                b.Constant(DType::kBf16, {3, 16, 8}), experts, kSilu, up_first);
  const std::vector<int64_t> pixels = {sinter::kM, 2, 2, 2};
  sinter::Conv2dOptions padded;
  padded.filter = sinter::Filter::kHwio;
  EXPECT(padded.pads.top == 0 && sinter::Pads(3).right == 3);
  padded.pads = {2, 1};  // height, width
  EXPECT(padded.pads.top == 2 && padded.pads.bottom == 2 && padded.pads.left == 1);
  padded.pads = {0, 0, 1, 1};
  const auto filter = b.Constant(DType::kBf16, {1, 2, 2, 2});
  const auto wide = b.Conv2d(b.Reshape(half, pixels), filter, padded);
  sum = sum + b.Reshape(b.Slice(wide, {0, 0, 0, 0}, pixels), {sinter::kM, 8});
  sinter::Conv2dOptions grouped = padded;
  grouped.groups = 2;
  const auto each =
      b.Conv2d(b.Reshape(half, pixels), b.Constant(DType::kBf16, {1, 2, 1, 2}), grouped);
  sum = sum + b.Reshape(b.Slice(each, {0, 0, 0, 0}, pixels), {sinter::kM, 8});
  sinter::WindowOptions window;
  window.window = {2, 1};
  window.pads = {1, 0, 0, 0};
  sum = sum + b.Reshape(b.MaxPool2d(b.Reshape(x, pixels), window), {sinter::kM, 8});
  window.exclude_pads = true;
  sum = sum + b.Reshape(b.AvgPool2d(b.Reshape(x, pixels), window), {sinter::kM, 8});
  window.exclude_pads = false;
  const auto taps = b.Window(b.Reshape(x, pixels), two, window);
  sum = sum + b.Reshape(b.Reduce(sinter::Reduction::kSum, taps, {3, 4}), {sinter::kM, 8});
  const auto turned = b.Transpose(b.Reshape(x, {sinter::kM, 2, 4}), {0, 2, 1});
  sum = sum + b.Reshape(turned, {sinter::kM, 8});
  const auto left = b.Slice(x, {0, 0}, {sinter::kM, 4});
  const auto right = b.Slice(x, {0, 0}, {sinter::kM, 8}, {1, 2});
  sum = sum + b.Concat({left, right}, 1);
  const auto ids = b.Input(DType::kS64, {sinter::kM});
  sum = b.Scatter(sum + b.Gather(b.Constant(DType::kF32, {9, 8}), ids, 0), ids, x);
  sum = sum + b.Gather(x, b.TopK(x, 8), -1) + b.Cumsum(x);
  const auto places = b.Cast(b.Reshape(b.Argmax(x), {sinter::kM, 1}), DType::kF32);
  const auto least = b.Cast(b.Reshape(b.Argmin(x), {sinter::kM, 1}), DType::kF32);
  sum = sum + b.Broadcast(places + least, {sinter::kM, 8});
  const auto seed = b.Input(DType::kS64, {});
  sum = sum + b.Random(seed, seed, {sinter::kM, 8});
  const auto total = b.Reduce(sinter::Reduction::kSum, x, {1}, SINTER_REDUCE_KEEPDIMS);
  sum = sum + b.Broadcast(total, {sinter::kM, 8});
  sum = sum + b.Softplus(x) + b.Clamp(x, -1, 6);
  sinter::NextTokenOptions draw;
  draw.count = 4;
  draw.temperature = b.Input(DType::kF32, {sinter::kM});
  draw.k = b.Input(DType::kS32, {sinter::kM});
  draw.top_p = draw.min_p = two;
  draw.log_probability = true;
  const auto [token, logarithm] = b.NextToken(x, seed, seed, draw);
  const auto [largest, none] = b.NextToken(x, seed, seed);
  EXPECT(none.id() == SINTER_NO_VALUE);
  const auto drawn = b.Cast(token, DType::kF32) + logarithm + b.Cast(largest, DType::kF32);
  sum = sum + b.Broadcast(b.Reshape(drawn, {sinter::kM, 1}), {sinter::kM, 8});
  const auto nibbles = b.Constant(DType::kS8, {4}), scale = b.Constant(DType::kF32, {2});
  const auto four_bits = b.DequantizeU4(nibbles, scale, scale) + b.DequantizeE2m1(nibbles, scale);
  sum = sum + b.Broadcast(four_bits, {sinter::kM, 8});
  const auto packed = b.Constant(DType::kS8, {1, 512}), columns = b.Constant(DType::kF32, {1, 64});
  const auto of_packed =
      b.DequantizeU4Packed(packed, columns, columns) + b.DequantizeE2m1Packed(packed, columns);
  sum = sum + b.Broadcast(b.Reduce(sinter::Reduction::kSum, of_packed, {0, 1}), {sinter::kM, 8});
  const auto rows_of_codes = b.Constant(DType::kS8, {64, 32});
  const auto of_codes = b.Cast(b.PackCodes(rows_of_codes, sinter::Checkpoint::kRows), DType::kF32);
  const auto of_zeros = b.PackZeros(rows_of_codes, sinter::Checkpoint::kAwq);
  const auto of_powers = b.PackScales(b.DequantizeE8m0(rows_of_codes), sinter::Checkpoint::kRows);
  for (const auto& each : {of_codes, of_zeros, of_powers}) {
    sum = sum + b.Broadcast(b.Reduce(sinter::Reduction::kSum, each, {0, 1}), {sinter::kM, 8});
  }
  sum = sum + b.Swiglu(x, x);
  sinter::SoftmaxOptions softmax;
  softmax.scale = 0.5;
  softmax.mask = vector;
  sum = sum + b.Softmax(x, -1, softmax);
  sinter::AttentionOptions attention;
  attention.bias = vector;
  attention.mask = b.Compare(sinter::Comparison::kLt, x, two);
  attention.causal = true;
  sum = sum + b.Attention(half, w, w, attention);
  sinter::NormOptions norm;
  norm.gamma = vector;
  sum = sum + b.Rmsnorm(x, norm);
  norm.beta = vector;
  sum = sum + b.Layernorm(x, norm);
  sum = sum + b.Rope(x, left, right);
  const auto gates = b.Concat({x, x, x, x}, 1);
  const auto [h, c] = b.LstmCell(gates, x);
  sum = sum + h + c;
  const auto three = b.Concat({x, x, x}, 1);
  sum = sum + b.GruCell(three, three, x);
  sinter::LinearOptions linear;
  linear.bias = vector;
  sum = sum + b.Linear(half, w, linear);
  sinter::GemmChainOptions products;
  products.bias2 = b.Constant(DType::kBf16, {8});
  sum = sum + b.GemmChain(half, w, w, sinter::Activation::kRelu, products);
  sinter::GatedFfnOptions gated;
  gated.bias_gate = gated.bias_up = products.bias2;
  sum = sum + b.GatedFfn(half, w, w, w, kSilu, gated);
  sinter::QuantizeOptions quantize;
  quantize.granularity = sinter::Granularity::kStatic;
  quantize.static_scale = two;
  const sinter::Scaled rows = b.Quantize(x), weights = b.Quantize(w);
  sum = sum + b.ScaledMatmul(rows, weights, linear);
  const auto matrices = b.Quantize(experts);
  sum = sum + b.Reduce(sinter::Reduction::kSum, b.ScaledGroupedMatmul(rows, matrices, slots), {1});
  sum = sum + b.ScaledGroupedGatedFfn(rows, slots, b.Input(DType::kF32, {sinter::kM, 2}),
                                      b.Quantize(b.Constant(DType::kBf16, {3, 16, 8})), matrices,
                                      kSilu, {}, up_first);
  linear.accumulate_fast = products.accumulate_fast = gated.accumulate_fast = true;
  sum = sum + b.ScaledMatmul(rows, weights, linear);
  sum = sum + b.ScaledGemmChain(rows, weights, weights, kSilu, quantize, products);
  sum = sum + b.ScaledGatedFfn(rows, weights, weights, weights, kSilu, {}, gated);
  b.Output(sum);
  EXPECT_OK(b.status());
  const auto chain = b.Finish();
  EXPECT_OK(chain.status());
  if (!chain.ok()) return;
  EXPECT(chain->InputCount() == 27 && chain->OutputCount() == 1 && chain->UsesM());
  const auto info = chain->Buffer(1, 4);
  EXPECT(info.ok() && info->dims[1] == 8 && info->flags == SINTER_INPUT_CONSTANT);
  EXPECT(info.ok() && std::strcmp(info->name, "w") == 0);
  EXPECT_REFUSED(chain->Buffer(28, 4).status(), SINTER_OUT_OF_RANGE, "28");
}

void TheFirstErrorOfADescriptionIsKept() {
  sinter::ChainBuilder b;
  const auto x = b.Input(DType::kBf16, {sinter::kM, 64});
  const auto w = b.Constant(DType::kBf16, {256, 32});
  const auto y = b.GemmChain(x, w, w, kSilu);  // k differs
  b.Output(y + b.Scalar(1, DType::kF32));
  const auto chain = b.Finish();
  EXPECT_REFUSED(chain.status(), SINTER_INVALID_ARGUMENT, "gemm_chain");
  EXPECT(!chain && y.id() == SINTER_NO_VALUE);

  sinter::ChainBuilder other;
  other.Output(other.Apply(sinter::Unary::kExp, x));
  EXPECT_REFUSED(other.status(), SINTER_INVALID_ARGUMENT, "of another chain");

  sinter::ChainBuilder absent;
  absent.Output(absent.Apply(sinter::Unary::kExp, sinter::Value()));
  EXPECT_REFUSED(absent.status(), SINTER_INVALID_ARGUMENT, "SINTER_NO_VALUE");
  EXPECT(sinter::Value().id() == (sinter::Value() + sinter::Value()).id());

  sinter::ChainBuilder lengths;
  sinter::InputOptions strided;
  strided.strides = {1};
  lengths.Input(DType::kF32, {2, 2}, strided);
  EXPECT_REFUSED(lengths.status(), SINTER_INVALID_ARGUMENT,
                 "input: strides has 1 values, dims has 2");
  sinter::ChainBuilder limits;
  limits.Slice(limits.Input(DType::kF32, {2, 2}), {0, 0}, {2});
  EXPECT_REFUSED(limits.status(), SINTER_INVALID_ARGUMENT, "slice: limits has 1 values");

  for (const size_t length : {size_t{1}, size_t{7}}) {  // of a value with two axes
    sinter::ChainBuilder short_or_long;
    sinter::OutputOptions strides;
    strides.strides.assign(length, 1);
    short_or_long.Output(short_or_long.Input(DType::kF32, {2, 2}), strides);
    EXPECT_REFUSED(short_or_long.status(), SINTER_INVALID_ARGUMENT, "stride");
  }
  EXPECT_REFUSED(sinter::ChainFromText(std::string("a\0b", 3)).status(), SINTER_INVALID_ARGUMENT,
                 "NUL");

  sinter::ChainBuilder empty;
  EXPECT_REFUSED(empty.Finish().status(), SINTER_FAILED_PRECONDITION, "the chain has no output");
  sinter::ChainBuilder finished;
  finished.Output(finished.Apply(sinter::Unary::kExp, finished.Input(DType::kF32, {2})));
  EXPECT_OK(finished.Finish().status());
  finished.Input(DType::kF32, {2});
  EXPECT_REFUSED(finished.status(), SINTER_FAILED_PRECONDITION, "finished");
}

void EmptyHandlesAreRefused() {
  const sinter::Context none;
  const sinter::Plan plan;
  EXPECT(!none && !none.HasDevice() && plan.Bucket() == 0 && plan.MaxM() == 0 &&
         plan.BufferCount() == 0);
  EXPECT_REFUSED(none.Prepare(sinter::Chain(), 1).status(), SINTER_INVALID_ARGUMENT, "null");
  EXPECT_REFUSED(plan.Explain().status(), SINTER_INVALID_ARGUMENT, "null");
  EXPECT_REFUSED(plan.Bind({1, 2}, 0).status(), SINTER_INVALID_ARGUMENT, "null");
  EXPECT_REFUSED(sinter::Binding().Launch(nullptr, 1), SINTER_INVALID_ARGUMENT, "null");
  EXPECT_REFUSED(sinter::Pending().Get().status(), SINTER_INVALID_ARGUMENT, "null");
  EXPECT_REFUSED(sinter::Pending().OnReady([](sinter_status) {}), SINTER_INVALID_ARGUMENT, "null");
  EXPECT_REFUSED(sinter::Pending().OnReady(nullptr), SINTER_INVALID_ARGUMENT, "callback is empty");
  EXPECT_REFUSED(sinter::Slot().Acquire().status(), SINTER_INVALID_ARGUMENT, "null");
  EXPECT(sinter::Slot().Generation() == 0);
  EXPECT_REFUSED(sinter::Slot().Offer(sinter::Plan()), SINTER_INVALID_ARGUMENT, "null");
  EXPECT(sinter::Pending().Fd() == -1 && sinter::GraphNodes().Count() == 0);
  EXPECT_REFUSED(sinter::Binding().AddToGraph(nullptr, {}, 1).status(), SINTER_INVALID_ARGUMENT,
                 "null");
  EXPECT_REFUSED(sinter::GraphNodes().Update(nullptr, {}, 1), SINTER_INVALID_ARGUMENT, "null");
  EXPECT_REFUSED(sinter::TuningSet().AddFile("x"), SINTER_INVALID_ARGUMENT, "null");
  sinter::Cancel().Request();
}

void OptionsAndErrorsPassThrough() {
  sinter::ContextOptions options;
  options.target = "h200";
  options.tuning_set = "/no/such/set";
  EXPECT_REFUSED(sinter::Context::Open(options).status(), SINTER_INVALID_ARGUMENT,
                 "tuning set /no/such/set");
  EXPECT_REFUSED(sinter::Context::ForTarget("h20").status(), SINTER_NOT_FOUND, "h20");
  EXPECT(!sinter::Context::Open(99).status().message().empty());

  EXPECT_REFUSED(sinter::ChainFromText("gemm_chain act=rleu").status(), SINTER_INVALID_ARGUMENT,
                 "gemm_chain");
  EXPECT_OK(sinter::ChainFromText("softmax rows=8 cols=64 scale=1 dtype=bf16").status());

  auto set = sinter::TuningSet::Create();
  EXPECT(set.ok() && set->Count() == 0 && set->Digest().ok());
  EXPECT_REFUSED(set->AddFile("/no/such/set"), SINTER_INVALID_ARGUMENT, "/no/such/set");
  EXPECT_REFUSED(set->Write("/no/such/folder/set"), SINTER_INVALID_ARGUMENT, "/no/such/folder");
}

void ErrorsHaveWhatTheirMessageNames() {
  sinter::ChainBuilder b;
  b.Output(b.Reduce(sinter::Reduction::kSum, b.Input(sinter::DType::kF32, {sinter::kM, 64}), {5}));
  const sinter::Status refused = b.Finish().status();
  EXPECT(refused.op() == 1 && refused.field() == "axis");
  EXPECT(refused.value() == "5" && refused.bound() == "in [0, 1]");
  const sinter::Status empty = sinter::ChainFromText("").status();
  EXPECT(!empty.ok() && !empty.op() && !empty.field() && !empty.value() && !empty.bound());
}

void ASearchFindsWhatAPrepareChooses() {
  sinter::ContextOptions options;
  options.target = "h200";
  options.cache_dir = "";
  const auto context = sinter::Context::Open(options);
  const auto chain = sinter::ChainFromText("rmsnorm rows=M cols=64 dtype=bf16");
  EXPECT_OK(context.status());
  EXPECT_OK(chain.status());
  if (!context.ok() || !chain.ok()) return;
  const auto found = context->Search(*chain, 20);
  EXPECT_OK(found.status());
  if (!found.ok()) return;
  EXPECT(found->Bucket() == 32 && found->KernelCount() == 1 && !found->IsMeasured());
  EXPECT(found->PredictedUs() > 0 && found->PredictedUs() <= found->UnfusedUs());
  EXPECT(!found->Name().empty() && found->Choice() != SINTER_CHOICE_BEST);
  const auto stats = context->Stats();
  EXPECT(stats.ok() && stats->searched == 1 && stats->kernels_compiled == 0);
  EXPECT(sinter::Search().Bucket() == 0 && sinter::Search().Note().empty());
}

// Reference counts, by the one object whose count shows: a context's statistics are shared.
void HandlesShareAndMove() {
  auto opened = sinter::Context::ForTarget("h200");
  EXPECT_OK(opened.status());
  sinter::Context first = *opened;
  sinter::Context second = std::move(first);
  sinter::Context third = second;
  const sinter::Context& itself = third;
  third = itself;
  second = sinter::Context();
  opened = sinter::Status(SINTER_UNKNOWN, "gone");
  EXPECT(!first && !second && third.Stats().ok());  // NOLINT: moved from
  static_assert(std::is_nothrow_move_constructible_v<sinter::Plan>);
  static_assert(!std::is_copy_constructible_v<sinter::ChainBuilder>);
  sinter_context* raw = third.release();
  EXPECT(!third && raw != nullptr);
  sinter_context_release(raw);
}

bool NoCompiler(const sinter::Status& status) {
  if (status.code() != SINTER_UNAVAILABLE) return false;
  std::printf("skipped: %s\n", status.message().c_str());
  return true;
}

// 77 without a compiler.
int PreparesForATarget() {
  const auto context = sinter::Context::ForTarget("h200").value();
  EXPECT(!context.HasDevice());
  EXPECT_OK(context.DenyToolchains("12.0"));
  EXPECT_REFUSED(context.DenyToolchains("everything"), SINTER_INVALID_ARGUMENT, "everything");
  EXPECT(context.TuningDigest().ok() && *context.TuningDigest() == sinter::Digest{});
  const auto chain = GatedFfn().value();
  const auto prepared = context.Prepare(chain, 20);
  if (NoCompiler(prepared.status())) return 77;
  EXPECT_OK(prepared.status());
  if (!prepared.ok()) return 1;
  const sinter::Plan plan = *prepared;
  EXPECT(plan.Bucket() == 32 && plan.MaxM() == 32 && plan.BufferCount() == 5);
  EXPECT(plan.Digest().ok() && *plan.Digest() != sinter::Digest{});
  const auto text = plan.Explain();
  EXPECT(text.ok() && text->find("m<=32") != std::string::npos && text->back() != '\0');

  sinter::PrepareOptions late;
  const std::pair<double, int64_t> deadlines[] = {
      {2, 2000000}, {1e-9, 1}, {0, 1}, {-1, -1}, {1e300, INT64_MAX}};
  for (const auto& [seconds, us] : deadlines) {
    late.SetDeadline(std::chrono::duration<double>(seconds));
    EXPECT(late.deadline_us == us);
  }
  late.SetDeadline(std::chrono::hours(2));
  EXPECT(late.deadline_us == int64_t{7200} * 1000000);
  late.SetDeadline(std::chrono::nanoseconds(1));
  const auto cancel = sinter::Cancel::Create().value();
  cancel.Request();
  sinter::PrepareOptions cancelled;
  cancelled.cancel = cancel.get();
  EXPECT(context.Prepare(chain, 4096, cancelled).status().code() == SINTER_CANCELLED);
  EXPECT(context.Prepare(chain, 4000, late).status().code() == SINTER_DEADLINE_EXCEEDED);

  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([context, chain] { EXPECT_OK(context.Prepare(chain, 20).status()); });
  }
  for (std::thread& thread : threads) thread.join();

  const auto pending = context.PrepareAsync(chain, 20).value();
  EXPECT_OK(pending.Get().status());
  EXPECT(pending.Ready() && pending.Get(0).ok());
  pollfd readable = {pending.Fd(), POLLIN, 0};
  EXPECT(poll(&readable, 1, 0) == 1);
  std::atomic<int> told{-1};
  EXPECT_OK(pending.OnReady([&](sinter_status status) { told = status; }));
  EXPECT(told == SINTER_OK);
  EXPECT_OK(context.PrepareAsync(chain, -1)->OnReady([&](sinter_status status) { told = status; }));
  EXPECT(told == SINTER_INVALID_ARGUMENT);  // the handle is gone: it waited
  const auto slot = context.MakeSlot(chain, 20).value();
  EXPECT(slot.Generation() == 2 && slot.Build()->Get().ok());
  EXPECT(slot.Acquire()->Digest().value() == plan.Digest().value());
  // It passes where the slot looks up, or where it builds.
  const auto late_slot = context.MakeSlot(chain, 3000, late);
  EXPECT_REFUSED(late_slot.ok() ? late_slot->Build()->Get(std::chrono::minutes(1)).status()
                                : late_slot.status(),
                 SINTER_DEADLINE_EXCEEDED, "");
  EXPECT_REFUSED(slot.Switch(), SINTER_FAILED_PRECONDITION, "SINTER_SLOT_MANUAL");
  const auto manual = context.MakeSlot(chain, 500, {}, SINTER_SLOT_MANUAL).value();
  EXPECT_OK(manual.Build()->Get().status());
  EXPECT_REFUSED(manual.Acquire().status(), SINTER_NOT_FOUND, "waits for sinter_slot_switch");
  EXPECT_OK(manual.Switch());
  EXPECT_OK(manual.Acquire().status());
  EXPECT_OK(slot.Offer(plan));
  EXPECT(slot.Generation() == 3);
  EXPECT_REFUSED(manual.Offer(plan), SINTER_INVALID_ARGUMENT, "bucket");
  EXPECT_REFUSED(context.MakeSlot(chain, -1).status(), SINTER_INVALID_ARGUMENT, "-1");
  auto many = context.PrepareMany({chain, chain}, {20, -1});
  EXPECT_REFUSED(many.status, SINTER_INVALID_ARGUMENT, "1");
  EXPECT(many.plans[0] && !many.plans[1] && many.statuses[0] == SINTER_OK);
  EXPECT_REFUSED(context.PrepareMany({chain}, {1, 2}).status, SINTER_INVALID_ARGUMENT,
                 "chains has 1 values, ms has 2");
  EXPECT_REFUSED(plan.Bind({0, 0, 0, 0, 0}, 0).status(), SINTER_UNAVAILABLE, "");
  EXPECT_REFUSED(context.Tune(chain, 20), SINTER_UNAVAILABLE, "");
  const auto stats = context.Stats();
  EXPECT(stats.ok() && stats->prepares >= 6 && stats->modules_loaded == 0);
  const auto metrics = context.Metrics();
  EXPECT(metrics.ok() &&
         metrics->find("\nsinter_prepares_total " + std::to_string(stats->prepares) + "\n") !=
             std::string::npos);
  return 0;
}

// A child of a fork goes on with the parent's handles.
void AForkedChildPrepares() {
  const auto context = sinter::Context::ForTarget("h200").value();
  const auto chain = GatedFfn().value();
  const auto held = context.Prepare(chain, 20);
  EXPECT_OK(held.status());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(context.Prepare(chain, 20).ok() ? 0 : 1);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

// A driver's functions by name.
template <typename... Args>
bool Driver(const char* name, Args... args) {
  void* library = dlopen(std::getenv("SINTER_LIBCUDA"), RTLD_NOW | RTLD_LOCAL);
  using Function = int (*)(Args...);
  const auto function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr && function(args...) == 0;
}

// A graph that is built by hand, from an empty capture, and updated in its instance.
void AddsToAGraph(const sinter::Plan& plan, const std::vector<sinter_device_ptr>& buffers,
                  sinter_device_ptr workspace) {
  void *context = nullptr, *stream = nullptr;
  sinter_graph graph = nullptr;
  sinter_graph_exec exec = nullptr;
  EXPECT(Driver("cuDevicePrimaryCtxRetain", &context, 0));
  EXPECT(Driver("cuCtxPushCurrent_v2", context));
  EXPECT(Driver("cuStreamCreate", &stream, 0u));
  EXPECT(Driver("cuStreamBeginCapture_v2", stream, 2));
  EXPECT(Driver("cuStreamEndCapture", stream, &graph));
  auto binding = plan.Bind(buffers, workspace).value();
  const auto first = binding.AddToGraph(graph, {}, 0).value();
  EXPECT(first.Count() == 1 && first.Last() != nullptr && first.Get(1) == nullptr);
  const auto nodes = binding.AddToGraph(graph, {first.Last()}, 20, SINTER_GRAPH_PDL).value();
  EXPECT(nodes.Count() >= 1 && nodes.Get(nodes.Count()) == nullptr);
  EXPECT_REFUSED(binding.AddToGraph(nullptr, {}, 20).status(), SINTER_INVALID_ARGUMENT, "graph");
  EXPECT_REFUSED(binding.AddToGraph(graph, {nullptr}, 20).status(), SINTER_INVALID_ARGUMENT,
                 "dependencies[0] is null");
  EXPECT_REFUSED(binding.AddToGraph(graph, {}, 33).status(), SINTER_OUT_OF_RANGE, "33");
  EXPECT_REFUSED(binding.AddToGraph(graph, {}, 20, 2).status(), SINTER_INVALID_ARGUMENT, "0x2");
  EXPECT(Driver("cuGraphInstantiateWithFlags", &exec, graph, 0ull));
  EXPECT_OK(nodes.Update(exec, binding, 7));
  EXPECT_REFUSED(nodes.Update(exec, binding, 0), SINTER_FAILED_PRECONDITION, "again");
  EXPECT_REFUSED(nodes.Update(nullptr, binding, 7), SINTER_INVALID_ARGUMENT, "exec");
  binding = sinter::Binding();
  EXPECT(Driver("cuGraphLaunch", exec, stream));
  EXPECT(Driver("cuGraphExecDestroy", exec));
  EXPECT(Driver("cuGraphDestroy", graph));
  EXPECT(Driver("cuStreamDestroy_v2", stream));
  EXPECT(Driver("cuCtxPopCurrent_v2", &context));
  EXPECT(Driver("cuDevicePrimaryCtxRelease_v2", 0));
}

// The whole path on a driver; the fake one says at the end what was left.
void BindsAndLaunches() {
  auto opened = sinter::Context::Open(0);
  EXPECT_OK(opened.status());
  if (!opened.ok()) return;
  const sinter::Context context = *opened;
  opened = sinter::Status(SINTER_UNKNOWN, "");
  EXPECT(context.HasDevice());
  const auto plan = context.Prepare(GatedFfn().value(), 20).value();
  const sinter_device_ptr at = 1 << 20;
  const std::vector<sinter_device_ptr> buffers = {at, 2 * at, 3 * at, 4 * at, 5 * at};
  EXPECT_REFUSED(plan.Bind({at, at}, at).status(), SINTER_INVALID_ARGUMENT, "buffer_count is 2");
  EXPECT_REFUSED(plan.Bind({at + 2, at, at, at, at}, at).status(), SINTER_INVALID_ARGUMENT, "16");
  const auto binding = plan.Bind(buffers, 6 * at).value();
  EXPECT_OK(binding.Launch(nullptr, 20));
  EXPECT_OK(binding.Launch(nullptr, 0));
  EXPECT_OK(binding.Launch(nullptr, 7, SINTER_LAUNCH_PDL));
  EXPECT_OK(plan.Launch(nullptr, 20, buffers, 6 * at));
  EXPECT_REFUSED(binding.Launch(nullptr, 33), SINTER_OUT_OF_RANGE, "33");
  EXPECT_REFUSED(binding.Launch(nullptr, std::nullopt), SINTER_INVALID_ARGUMENT, "symbol_count");
  EXPECT_REFUSED(binding.Launch(nullptr, 1, 64), SINTER_INVALID_ARGUMENT, "0x40");
  AddsToAGraph(plan, buffers, 6 * at);
  auto slot = context.MakeSlot(GatedFfn().value(), 200).value();
  EXPECT_OK(slot.Build()->Get().status());  // its kernels are loaded by the build's thread
  const auto later = slot.Acquire()->Bind(buffers, 6 * at).value();
  slot = sinter::Slot();
  EXPECT_OK(later.Launch(nullptr, 200));
  EXPECT_OK(binding.Launch(nullptr, 20));
  EXPECT(context.Stats()->launches >= 3 && context.Stats()->modules_loaded > 0);
}

}  // namespace

// Two ranks as threads, whose exchange is a function of the caller's; and ranks of one process.
void GroupsMeetAndClose() {
  std::vector<sinter::Context> contexts;
  for (int device = 0; device < 2; ++device)
    contexts.push_back(sinter::Context::Open(device).value());
  sinter::GroupOptions small;
  small.slot_bytes = 1 << 16;
  std::vector<std::byte> all;
  std::mutex mutex;
  std::condition_variable both;
  int came = 0, left = 0;
  const auto exchange = [&](int rank) -> sinter::Exchange {
    return [&, rank](sinter::Span<std::byte> mine, std::byte* to) {
      std::unique_lock<std::mutex> lock(mutex);
      both.wait(lock, [&] { return left == 0; });
      all.resize(2 * mine.size());
      std::copy(mine.begin(), mine.end(), all.begin() + rank * static_cast<int>(mine.size()));
      if (++came == 2) left = 2;
      both.notify_all();
      both.wait(lock, [&] { return left > 0; });
      std::copy(all.begin(), all.end(), to);
      if (--left == 0) came = 0;
      both.notify_all();
      return sinter::Status();
    };
  };
  std::vector<sinter::Group> groups(2);
  const auto on_all = [&](const auto& work) {
    std::thread other([&] { work(1); });
    work(0);
    other.join();
  };
  on_all([&](int rank) {
    auto group =
        sinter::Group::Create(contexts[static_cast<size_t>(rank)], rank, 2, exchange(rank), small);
    EXPECT(group.ok());
    if (group.ok()) groups[static_cast<size_t>(rank)] = *group;
  });
  EXPECT(groups[1].GetStatus().ok() && groups[1].Abort().ok());
  int32_t missed = -1;
  EXPECT(groups[1].GetStatus(&missed).code() == SINTER_ABORTED && missed == 1);
  on_all([&](int rank) { EXPECT(groups[static_cast<size_t>(rank)].Close().ok()); });
  const auto broken = [](sinter::Span<std::byte>, std::byte*) {
    return sinter::Status(SINTER_UNAVAILABLE, "no network");
  };
  const auto failed = sinter::Group::Create(contexts[0], 0, 2, broken, small);
  EXPECT(failed.status().code() == SINTER_UNAVAILABLE);
  EXPECT(failed.status().message().find("group.exchange returned UNAVAILABLE") !=
         std::string::npos);
  EXPECT(!sinter::Group::Create(contexts[0], 0, 2, {}, small).ok());
  auto local = sinter::Group::CreateLocal(contexts, small);
  EXPECT(local.ok() && local->size() == 2 && (*local)[0].GetStatus().ok());
  EXPECT(!sinter::Group::CreateLocal({contexts.data(), 1}, small).ok());
}

// With the argument "leak" it leaves a plan on the device, which the fake driver must tell.
int main(int count, char** arguments) {
  setenv("FAKE_LIBCUDA_GPUS", "2", 1);  // for groups; read when the fake driver is opened
  if (count == 2 && std::strcmp(arguments[1], "leak") == 0) {
    const auto context = sinter::Context::Open(0).value();
    auto plan = context.Prepare(GatedFfn().value(), 20);
    if (NoCompiler(plan.status())) return 77;
    return plan->release() == nullptr ? 1 : 0;
  }
  EveryAddReachesTheLibrary();
  TheFirstErrorOfADescriptionIsKept();
  EmptyHandlesAreRefused();
  OptionsAndErrorsPassThrough();
  ErrorsHaveWhatTheirMessageNames();
  ASearchFindsWhatAPrepareChooses();
  HandlesShareAndMove();
  const int prepared = PreparesForATarget();
  if (prepared == 0) AForkedChildPrepares();
  if (prepared == 0 && std::getenv("SINTER_LIBCUDA") != nullptr) BindsAndLaunches();
  if (std::getenv("SINTER_LIBCUDA") != nullptr) GroupsMeetAndClose();
  if (g_failures > 0) std::fprintf(stderr, "%d failures\n", g_failures);
  return g_failures > 0 ? 1 : prepared;
}
