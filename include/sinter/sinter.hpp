// Sinter for C++17: the C ABI of sinter.h as types that own what they hold. Header only, of
// sinter.h and the standard library; throws nothing of its own and needs neither exceptions nor
// RTTI.
//
//   sinter::ChainBuilder b;
//   auto x = b.Input(sinter::DType::kBf16, {sinter::kM, k});
//   ...
//   auto chain = b.Finish();  // Result<Chain>
//   if (!chain.ok()) return Report(chain.status().message());
//
// - A handle (Context, Chain, Plan, Binding, Pending, Slot, Cancel, TuningSet) is a counted
// reference:
//   copies share the object, the last one releases it. An empty handle, default or moved from, may
//   be used as NULL in C: the library answers with an error.
// - What can fail returns Status or Result<T>, with the library's own message.
// - Option structs are sinter.h's, zeroed and with their size set; operands in them are
//   Values.
// - A member's thread safety, ownership of memory, units and errors are the same as for the
//   sinter.h function that it calls. A Status is thread-compatible. What a callback throws is an
//   error, as sinter.h says.
#ifndef SINTER_SINTER_HPP_
#define SINTER_SINTER_HPP_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sinter/sinter.h"

#if __cplusplus < 201703L
#error "sinter.hpp needs C++17"
#endif

namespace sinter {

// ---------------------------------------------------------------- Words of sinter.h

// As an extent: the number of rows, known at launch. As a slice's limit on that axis: all of it.
inline constexpr int64_t kM = SINTER_DIM_M;

// made by ./dev bindings, words: begin
// Element types. f32 accumulation everywhere; only a cast rounds.
enum class DType : sinter_dtype {
  kF32 = SINTER_DTYPE_F32,
  kF16 = SINTER_DTYPE_F16,
  kBf16 = SINTER_DTYPE_BF16,
  kS32 = SINTER_DTYPE_S32,
  kPred = SINTER_DTYPE_PRED,
  kE4m3 = SINTER_DTYPE_E4M3,
  kS8 = SINTER_DTYPE_S8,
  kS64 = SINTER_DTYPE_S64,
};
// Functions of one operand, element by element.
enum class Unary : sinter_unary {
  kNeg = SINTER_UNARY_NEG,
  kAbs = SINTER_UNARY_ABS,
  kExp = SINTER_UNARY_EXP,
  kLog = SINTER_UNARY_LOG,
  kSqrt = SINTER_UNARY_SQRT,
  kRsqrt = SINTER_UNARY_RSQRT,
  kTanh = SINTER_UNARY_TANH,
  kErf = SINTER_UNARY_ERF,
  kSigmoid = SINTER_UNARY_SIGMOID,
  kRelu = SINTER_UNARY_RELU,
  kReciprocal = SINTER_UNARY_RECIPROCAL,
  kSquare = SINTER_UNARY_SQUARE,
  kSin = SINTER_UNARY_SIN,
  kCos = SINTER_UNARY_COS,
  kFloor = SINTER_UNARY_FLOOR,
  kNot = SINTER_UNARY_NOT,
  kCeilPow2 = SINTER_UNARY_CEIL_POW2,
  kLog1p = SINTER_UNARY_LOG1P,
  kExpm1 = SINTER_UNARY_EXPM1,
  kCeil = SINTER_UNARY_CEIL,
  kRound = SINTER_UNARY_ROUND,
  kTrunc = SINTER_UNARY_TRUNC,
  kTan = SINTER_UNARY_TAN,
  kAsin = SINTER_UNARY_ASIN,
  kAcos = SINTER_UNARY_ACOS,
  kAtan = SINTER_UNARY_ATAN,
  kSinh = SINTER_UNARY_SINH,
  kCosh = SINTER_UNARY_COSH,
  kAsinh = SINTER_UNARY_ASINH,
  kAcosh = SINTER_UNARY_ACOSH,
  kAtanh = SINTER_UNARY_ATANH,
  kErfc = SINTER_UNARY_ERFC,
  kExp2 = SINTER_UNARY_EXP2,
  kLog2 = SINTER_UNARY_LOG2,
  kLog10 = SINTER_UNARY_LOG10,
};
// Functions of two operands, element by element.
enum class Binary : sinter_binary {
  kAdd = SINTER_BINARY_ADD,
  kSub = SINTER_BINARY_SUB,
  kMul = SINTER_BINARY_MUL,
  kDiv = SINTER_BINARY_DIV,
  kMax = SINTER_BINARY_MAX,
  kMin = SINTER_BINARY_MIN,
  kPow = SINTER_BINARY_POW,
  kAnd = SINTER_BINARY_AND,
  kOr = SINTER_BINARY_OR,
  kFmod = SINTER_BINARY_FMOD,
  kCopysign = SINTER_BINARY_COPYSIGN,
  kAtan2 = SINTER_BINARY_ATAN2,
  kHypot = SINTER_BINARY_HYPOT,
};
// Comparisons, element by element; they give pred.
enum class Comparison : sinter_compare {
  kEq = SINTER_COMPARE_EQ,
  kNe = SINTER_COMPARE_NE,
  kLt = SINTER_COMPARE_LT,
  kLe = SINTER_COMPARE_LE,
  kGt = SINTER_COMPARE_GT,
  kGe = SINTER_COMPARE_GE,
};
// Reductions over axes.
enum class Reduction : sinter_reduce {
  kSum = SINTER_REDUCE_SUM,
  kMax = SINTER_REDUCE_MAX,
  kMin = SINTER_REDUCE_MIN,
  kMean = SINTER_REDUCE_MEAN,
};
// Activations, of a GEMM or as an op by themselves.
enum class Activation : sinter_activation {
  kIdentity = SINTER_ACTIVATION_IDENTITY,
  kRelu = SINTER_ACTIVATION_RELU,
  kGeluTanh = SINTER_ACTIVATION_GELU_TANH,
  kGeluErf = SINTER_ACTIVATION_GELU_ERF,
  kSilu = SINTER_ACTIVATION_SILU,
};
// How a weight lies in memory. 0 means SINTER_LAYOUT_OI.
enum class Layout : sinter_layout {
  kOi = SINTER_LAYOUT_OI,
  kIo = SINTER_LAYOUT_IO,
};
// How the filter of a convolution lies in memory. 0 means SINTER_FILTER_OHWI.
enum class Filter : sinter_filter {
  kOhwi = SINTER_FILTER_OHWI,
  kHwio = SINTER_FILTER_HWIO,
};
// How a checkpoint has codes of four bits of a matrix [n, k].
enum class Checkpoint : sinter_checkpoint {
  kRows = SINTER_CHECKPOINT_ROWS,
  kAwq = SINTER_CHECKPOINT_AWQ,
  kGptq = SINTER_CHECKPOINT_GPTQ,
  kGptqV2 = SINTER_CHECKPOINT_GPTQ_V2,
  kCompressedTensors = SINTER_CHECKPOINT_COMPRESSED_TENSORS,
};
// What shares one value of a scale. 0 means SINTER_SCALE_ROW.
enum class Granularity : sinter_granularity {
  kTensor = SINTER_SCALE_TENSOR,
  kRow = SINTER_SCALE_ROW,
  kGroup = SINTER_SCALE_GROUP,
  kStatic = SINTER_SCALE_STATIC,
};
// made by ./dev bindings, words: end

namespace detail {

// `us` as a whole number, `least` or more; -1, which the library refuses, for less than 0 and NaN.
inline int64_t Microseconds(double us, int64_t least) {
  constexpr double kCenturies = 9e18;
  if (!(us >= 0)) return -1;
  return us > kCenturies ? INT64_MAX : std::max(static_cast<int64_t>(us), least);
}

}  // namespace detail

// An option struct of sinter.h, zeroed, with its size set.
template <typename Struct>
struct Zeroed : Struct {
  Zeroed() : Struct() { this->struct_size = static_cast<uint32_t>(sizeof(Struct)); }
};
// The same, of a long call.
template <typename Struct>
struct Limited : Zeroed<Struct> {
  // From the call, then SINTER_DEADLINE_EXCEEDED: options.SetDeadline(std::chrono::seconds(2)).
  // Less than a microsecond, 0 too, counts as one: a deadline_us of 0 means no deadline.
  template <typename Rep, typename Period>
  void SetDeadline(std::chrono::duration<Rep, Period> from_now) {
    const std::chrono::duration<double, std::micro> us = from_now;
    this->deadline_us = detail::Microseconds(us.count(), 1);
  }
};
using ContextOptions = Zeroed<sinter_context_options>;
using PrepareOptions = Limited<sinter_prepare_options>;
using TuneOptions = Limited<sinter_tune_options>;
using Stats = Zeroed<sinter_stats>;
using TensorInfo = Zeroed<sinter_tensor_info>;

// A SHA-256.
using Digest = std::array<uint8_t, 32>;

// A pointer and a count, borrowed for the call that takes it.
template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(const T* data, size_t size) : data_(data), size_(size) {}
  template <size_t kSize>
  constexpr Span(const T (&values)[kSize]) : data_(values), size_(kSize) {}
  template <size_t kSize>
  constexpr Span(const std::array<T, kSize>& values) : data_(values.data()), size_(kSize) {}
  Span(const std::vector<T>& values) : data_(values.data()), size_(values.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // it lives as long as the call
#endif
  constexpr Span(std::initializer_list<T> values) : data_(values.begin()), size_(values.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  constexpr const T* data() const { return data_; }
  constexpr uint32_t size() const { return static_cast<uint32_t>(size_); }
  constexpr const T& operator[](size_t index) const { return data_[index]; }
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

// ---------------------------------------------------------------- Errors

// Why a call failed, or that it did not. A value: it holds copies.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(sinter_status code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == SINTER_OK; }
  sinter_status code() const { return code_; }
  // "INVALID_ARGUMENT".
  const char* name() const { return sinter_status_name(code_); }
  // One lower-case line naming the op, the field, the value and the bound; "" when ok.
  const std::string& message() const { return message_; }
  // What the message names, as it has it: number of the op, field, value and bound. Each is empty
  // if the message does not name it.
  const std::optional<int32_t>& op() const { return op_; }
  const std::optional<std::string>& field() const { return field_; }
  const std::optional<std::string>& value() const { return value_; }
  const std::optional<std::string>& bound() const { return bound_; }
  // The CUresult that caused SINTER_ERROR_DRIVER, else 0.
  int32_t driver_result() const { return driver_result_; }
  // The compiler's log of SINTER_ERROR_COMPILE_FAILED, else "".
  const std::string& compile_log() const { return compile_log_; }

  // Runs `call(args..., sinter_error**)`, which returns a sinter_status, and takes the error it
  // makes.
  template <typename Call, typename... Args>
  static Status Of(Call&& call, const Args&... args) {
    sinter_error* error = nullptr;
    Status status;
    status.code_ = call(args..., &error);
    if (status.ok() || error == nullptr) return status;
    status.message_ = sinter_error_get_message(error);
    if (const int32_t op = sinter_error_get_op(error); op >= 0) status.op_ = op;
    if (const char* text = sinter_error_get_field(error)) status.field_ = text;
    if (const char* text = sinter_error_get_value(error)) status.value_ = text;
    if (const char* text = sinter_error_get_bound(error)) status.bound_ = text;
    status.driver_result_ = sinter_error_get_driver_result(error);
    status.compile_log_ = sinter_error_get_compile_log(error);
    sinter_error_release(error);
    return status;
  }

 private:
  sinter_status code_ = SINTER_OK;
  int32_t driver_result_ = 0;
  std::string message_, compile_log_;
  std::optional<int32_t> op_;
  std::optional<std::string> field_, value_, bound_;
};

// A T, or why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  // `status` is not ok.
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  // For programs that cannot go on without: prints the message and aborts when there is no value.
  const T& value() const& { return Checked(*this); }
  T& value() & { return Checked(*this); }
  T&& value() && { return std::move(Checked(*this)); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  template <typename Self>
  static auto& Checked(Self& self) {
    if (self.value_.has_value()) return *self.value_;
    std::fprintf(stderr, "%s: %s\n", self.status_.name(), self.status_.message().c_str());
    std::abort();
  }

  std::optional<T> value_;
  Status status_;
};

namespace detail {

// One counted reference to a C object.
template <typename T, void (*kRetain)(const T*), void (*kRelease)(const T*)>
class Handle {
 public:
  using Object = T;
  Handle() = default;
  // Takes over the reference that the caller holds.
  explicit Handle(T* object) : object_(object) {}
  Handle(const Handle& other) : object_(other.object_) {
    if (object_ != nullptr) kRetain(object_);
  }
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() { kRelease(object_); }

  // Borrowed; NULL when empty.
  T* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  // Gives the reference away: the caller releases it.
  T* release() { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

// Runs `call(args..., Wrapper::Object** out, sinter_error**)` and wraps the object that it makes.
template <typename Wrapper, typename Call, typename... Args>
Result<Wrapper> Make(Call&& call, const Args&... args) {
  typename Wrapper::Object* object = nullptr;
  Status status = Status::Of(call, args..., &object);
  if (!status.ok()) return status;
  return Wrapper(object);
}

// Runs `call(args..., Value* out, sinter_error**)`.
template <typename Value, typename Call, typename... Args>
Result<Value> Fill(Call&& call, const Args&... args) {
  Value value;
  Status status = Status::Of(call, args..., &value);
  if (!status.ok()) return status;
  return value;
}

// Runs `call(object, uint8_t*, sinter_error**)`.
template <typename Call, typename Object>
Result<Digest> MakeDigest(Call&& call, const Object* object) {
  Digest digest{};
  Status status = Status::Of(call, object, digest.data());
  if (!status.ok()) return status;
  return digest;
}

// Runs `call(object, capacity, buffer, required, sinter_error**)` until all of its text fits.
template <typename Call, typename Object>
Result<std::string> Text(Call&& call, const Object* object) {
  std::string text(1 << 14, '\0');
  for (size_t required = 0;; text.resize(required)) {
    Status status = Status::Of(call, object, text.size(), &text[0], &required);
    if (!status.ok()) return status;
    if (required > text.size()) continue;
    text.resize(required - 1);  // without the NUL
    return text;
  }
}

// Whether there is an M, and where.
inline uint32_t CountOf(const std::optional<int64_t>& m) { return m ? 1 : 0; }
inline const int64_t* DataOf(const std::optional<int64_t>& m) { return m ? &*m : nullptr; }

}  // namespace detail

// ---------------------------------------------------------------- Chains

// A finished chain: immutable, thread-safe.
class Chain : public detail::Handle<sinter_chain, sinter_chain_retain, sinter_chain_release> {
 public:
  using Handle::Handle;
  uint32_t InputCount() const { return sinter_chain_get_input_count(get()); }
  uint32_t OutputCount() const { return sinter_chain_get_output_count(get()); }
  // Whether M occurs: launches then take it.
  bool UsesM() const { return sinter_chain_uses_m(get()) != 0; }
  // Buffer `index`, inputs in the order of their adds, then outputs, at M = `m`. The name is
  // borrowed from the chain.
  Result<TensorInfo> Buffer(uint32_t index, int64_t m) const {
    return detail::Fill<TensorInfo>(sinter_chain_get_buffer, get(), index, m);
  }
};

namespace detail {

// What a builder and its values share.
struct Building {
  sinter_chain* chain = nullptr;
  Status first_error = Status::Of(sinter_chain_create, &chain);

  Building() = default;
  Building(const Building&) = delete;
  Building& operator=(const Building&) = delete;
  ~Building() { sinter_chain_release(chain); }
};

}  // namespace detail

class ChainBuilder;

// A value of a chain under way: what an add returned. Valid as long as its builder. A default value
// is an operand that is absent.
class Value {
 public:
  Value() = default;
  // The number in the C ABI; SINTER_NO_VALUE when absent, or when its add failed.
  sinter_value id() const { return id_; }

  // Element by element, as ChainBuilder::Apply of the chain that the operands belong to.
  Value operator+(Value b) const;
  Value operator-(Value b) const;
  Value operator*(Value b) const;
  Value operator/(Value b) const;
  Value operator-() const;

 private:
  friend class ChainBuilder;
  Value(detail::Building* building, sinter_value id) : building_(building), id_(id) {}

  detail::Building* building_ = nullptr;
  sinter_value id_ = SINTER_NO_VALUE;
};

// Strides in elements, one for each axis, times M to the power of the same axis; empty: contiguous,
// and no powers.
struct InputOptions {
  bool constant = false;  // never changes while a plan uses it on a stream: weights
  const char* name = nullptr;
  std::vector<int64_t> strides;
  std::vector<int32_t> stride_m_powers;
};
struct OutputOptions {
  std::vector<int64_t> strides;
  std::vector<int32_t> stride_m_powers;
  Value alias;  // an input whose buffer this output may share
};
// Zeros around an image: {all}, {height, width} or {top, bottom, left, right}.
struct Pads {
  constexpr Pads(int32_t all = 0) : Pads(all, all) {}
  constexpr Pads(int32_t height, int32_t width) : Pads(height, height, width, width) {}
  constexpr Pads(int32_t above, int32_t below, int32_t before, int32_t behind)
      : top(above), bottom(below), left(before), right(behind) {}
  int32_t top, bottom, left, right;
};
struct Conv2dOptions {
  Filter filter = Filter::kOhwi;
  std::array<int32_t, 2> strides{1, 1}, dilations{1, 1};  // height, width
  Pads pads;
  int32_t groups = 1;  // divides the channels of x
};
struct WindowOptions {
  std::array<int32_t, 2> window{1, 1};                    // height, width
  std::array<int32_t, 2> strides{1, 1}, dilations{1, 1};  // height, width
  Pads pads;
  bool exclude_pads = false;  // of AvgPool2d alone: SINTER_WINDOW_EXCLUDE_PADS
};
struct SoftmaxOptions {
  double scale = 1;
  Value mask;
};
struct AttentionOptions {
  double scale = 0;     // 0: 1 / sqrt(d)
  Value bias, mask;     // added to the scores; pred, false for keys that a row does not see
  bool causal = false;  // row i sees keys 0 to i
};
struct NormOptions {
  double eps = 0;  // 0: 1e-5 in a layernorm, 1e-6 in an rmsnorm
  Value gamma, beta;
};
struct NextTokenOptions {
  int32_t count = 0;                   // the largest logits that are drawn from, up to 64; 0: all
  Value temperature, k, top_p, min_p;  // of all rows or of each; k and top_p need a count
  bool log_probability = false;        // whether the second value is made
};
struct LinearOptions {
  Layout layout = Layout::kOi;
  Activation activation = Activation::kIdentity;
  Value bias;
  bool accumulate_fast = false;  // for ScaledMatmul only: SINTER_ACCUMULATE_FAST
};
struct GemmChainOptions {
  Layout layout = Layout::kOi;
  Value bias1, bias2;
  bool accumulate_fast = false;  // for ScaledGemmChain only: SINTER_ACCUMULATE_FAST
};
struct GatedFfnOptions {
  Layout layout = Layout::kOi;
  Value bias_gate, bias_up, bias2;
  bool accumulate_fast = false;  // for ScaledGatedFfn only: SINTER_ACCUMULATE_FAST
};
struct GroupedGatedFfnOptions {
  Layout layout = Layout::kOi;
  bool up_first = false;         // SINTER_GROUPED_UP_FIRST
  bool interleaved = false;      // SINTER_GROUPED_INTERLEAVED
  bool weight_on_input = false;  // SINTER_GROUPED_WEIGHT_ON_INPUT
  Value bias1, bias2;            // [experts, 2 n], [experts, l]
  double alpha = 0;              // of silu: gate * sigmoid(alpha gate); 0: 1
  double beta = 0;               // added to up
  double limit = 0;              // the most of gate, and of up in both directions; 0: none
};
// Codes of 8 bits and the f32 scale that turns them back.
struct Scaled {
  Value codes, scale;
};
struct QuantizeOptions {
  Granularity granularity = Granularity::kRow;
  DType codes = DType::kE4m3;  // or kS8
  double eps = 0;              // 0: 1e-10
  double upper_bound = 0;      // 0: none
  bool ue8m0 = false;          // the scale is the next power of two
  Value static_scale;          // of Granularity::kStatic
};

// Describes a chain. Adds return the new value. The first add that fails is remembered, those after
// it do nothing, and Finish returns its error: a description needs one check. Thread-compatible.
class ChainBuilder {
 public:
  ChainBuilder() = default;
  ChainBuilder(const ChainBuilder&) = delete;  // values point to it
  ChainBuilder& operator=(const ChainBuilder&) = delete;

  // The error of the first add that failed.
  const Status& status() const { return building_.first_error; }

  Value Input(DType dtype, Span<int64_t> dims, const InputOptions& options = {}) {
    Zeroed<sinter_input_options> given;
    given.flags = options.constant ? uint32_t{SINTER_INPUT_CONSTANT} : 0;
    given.name = options.name;
    if (!SetStrides("input", dims.size(), options, &given)) return Value();
    return Add({}, sinter_chain_add_input, dtype, dims.size(), dims.data(), &given);
  }
  // An input that is a constant: a weight, a bias, a table.
  Value Constant(DType dtype, Span<int64_t> dims, InputOptions options = {}) {
    options.constant = true;
    return Input(dtype, dims, options);
  }
  // clang-format off
  // made by ./dev bindings, adds: begin
  // A constant of rank 0, rounded to `dtype`; NaN is refused.
  Value Scalar(double value, DType dtype) {
    return Add({}, sinter_chain_add_scalar, value, dtype);
  }
  // result[.., i, ..] = i along `axis`; s32 or f32.
  Value Iota(DType dtype, Span<int64_t> dims, int32_t axis) {
    return Add({}, sinter_chain_add_iota, dtype, dims.size(), dims.data(), axis);
  }
  // The sum of x over the GPUs of a group (sinter_group.h), of which each has inputs of its own: of
  // x rounded to its dtype, floating, in the order of ranks, in f32, rounded to x's dtype. All
  // ranks get the same bits. `ranks`, 1 to 8, is the same in all sums and gathers of a chain, which
  // is then split over so many GPUs; of 1 each is a cast to x's dtype. SINTER_INVALID_ARGUMENT for
  // any other number, and where a sum or gather of the chain has another.
  Value AllReduce(Value x, int32_t ranks) {
    return Add({}, sinter_chain_add_all_reduce, x, ranks);
  }
  // What all ranks have of x, joined along `axis` in the order of ranks: of x rounded to its dtype,
  // which is floating or e4m3. The extent of `axis` is constant, and `ranks` times as large in the
  // result. Rows of M are gathered with an axis of their own in front: of [1, M, n] along axis 0
  // into [ranks, M, n]. `ranks` and errors are as in sinter_chain_add_all_reduce.
  Value AllGather(Value x, int32_t axis, int32_t ranks) {
    return Add({}, sinter_chain_add_all_gather, x, axis, ranks);
  }
  // This rank's part of the sum of x over ranks, in the bits of sinter_chain_add_all_reduce: rank r
  // gets the r-th of `ranks` equal parts of `axis`, whose extent is constant and a multiple of
  // `ranks`. Rows of M are scattered from [ranks, M, n] along axis 0 into [1, M, n].
  Value ReduceScatter(Value x, int32_t axis, int32_t ranks) {
    return Add({}, sinter_chain_add_reduce_scatter, x, axis, ranks);
  }
  // A function of one operand, element by element.
  Value Apply(Unary kind, Value a) {
    return Add({}, sinter_chain_add_unary, kind, a);
  }
  // A function of two operands of equal extents, or one of rank 0. The wider floating dtype; f16
  // with bf16 gives f32.
  Value Apply(Binary kind, Value a, Value b) {
    return Add({}, sinter_chain_add_binary, kind, a, b);
  }
  // A comparison; gives pred. Operands are as in a binary function.
  Value Compare(Comparison kind, Value a, Value b) {
    return Add({}, sinter_chain_add_compare, kind, a, b);
  }
  // condition ? a : b, element by element; `condition` is pred.
  Value Select(Value condition, Value a, Value b) {
    return Add({}, sinter_chain_add_select, condition, a, b);
  }
  // The only op that rounds: to nearest even. To s32: toward zero, saturating, NaN gives 0. To
  // pred: != 0. To e4m3: saturating to +-448, NaN kept. To s8: saturating, NaN gives 0.
  Value Cast(Value a, DType dtype) {
    return Add({}, sinter_chain_add_cast, a, dtype);
  }
  // Repeats an extent of 1, or a missing axis; extents are aligned at the right.
  Value Broadcast(Value a, Span<int64_t> dims) {
    return Add({}, sinter_chain_add_broadcast, a, dims.size(), dims.data());
  }
  // Result axis i is operand axis permutation[i].
  Value Transpose(Value a, Span<int32_t> permutation) {
    return Add({}, sinter_chain_add_transpose, a, permutation.size(), permutation.data());
  }
  // The same elements in row-major order; M occurs as often before as after.
  Value Reshape(Value a, Span<int64_t> dims) {
    return Add({}, sinter_chain_add_reshape, a, dims.size(), dims.data());
  }
  // Takes by ids, which are s32 or s64, an input or computed. Along axis 0 rows of x [rows, ..]:
  // result[i.., ..] = x[ids[i..], ..]; its extents are ids' and then x's after the rows: an
  // embedding, index_select. Along the last axis of x, or -1, single elements: result[i.., t] =
  // x[i.., ids[i.., t]], with ids' extents, which equal x's except on that axis: take_along_dim. An
  // id counts from 0; one that is negative or not below the extent gives zeros. x is of any dtype
  // but s64, and so is the result. An extent of ids may be SINTER_DIM_M, and x's rows may; not an
  // axis whose elements are taken.
  Value Gather(Value x, Value ids, int32_t axis) {
    return Add({}, sinter_chain_add_gather, x, ids, axis);
  }
  // x [rows, ..] with rows written over it, as into a cache: result[ids[i..], ..] = rows[i.., ..],
  // and x elsewhere; index_copy. rows has ids' extents and then x's after its rows. It has x's
  // dtype, which is any but s64; ids are s32 or s64, an input or computed. If ids are equal, the
  // last one in row-major order wins. An id that is negative or not below the extent writes
  // nothing. If an output of the result may share x's buffer (sinter_output_options.alias) and does
  // at launch, only what is written is touched; else the rest is copied. An extent of ids may be
  // SINTER_DIM_M, and x's rows may.
  Value Scatter(Value x, Value ids, Value rows) {
    return Add({}, sinter_chain_add_scatter, x, ids, rows);
  }
  // Where the `count` largest numbers of each row of x [.., n] are: s32 [.., count], falling; of
  // equal ones the lower place first, -0 equals 0, and NaN counts as the largest, as torch.topk has
  // it. x is floating or s32; count is 1 to 64 and at most n. Their values: a gather along -1.
  Value TopK(Value x, int32_t count) {
    return Add({}, sinter_chain_add_top_k, x, count);
  }
  // Running sums along the last axis of x [.., n], which is not SINTER_DIM_M, as torch.cumsum has
  // them: result[.., i] is the sum of x[.., 0] to x[.., i]. f32 of floating x; s32 wraps.
  Value Cumsum(Value x) {
    return Add({}, sinter_chain_add_cumsum, x);
  }
  // Uniform random f32 in [0, 1): the element of row-major place i is what Triton's tl.rand(seed,
  // offset + i) gives: word 0 of Philox4x32-10 whose key is `seed` and whose counter is offset + i,
  // of 64 bits. Both are s32 or s64 of rank 0, so that each launch may have others. Either may
  // instead have a number for each index of leading dims of the result, [rows] for [rows, columns];
  // then i is the place within that index, so a row's numbers do not depend on where the row
  // stands.
  Value Random(Value seed, Value offset, Span<int64_t> dims) {
    return Add({}, sinter_chain_add_random, seed, offset, dims.size(), dims.data());
  }
  // An activation with nothing before it.
  Value Apply(Activation activation, Value x) {
    return Add({}, sinter_chain_add_activation, activation, x);
  }
  // log(1 + exp(x)), right for x of any magnitude.
  Value Softplus(Value x) {
    return Add({}, sinter_chain_add_softplus, x);
  }
  // min(max(x, min), max) in x's dtype, floating or s32, to which the bounds are rounded; NaN stays
  // NaN. An infinite number means no bound; only one of the two may be infinite.
  Value Clamp(Value x, double min, double max) {
    return Add({}, sinter_chain_add_clamp, x, min, max);
  }
  // Where the largest number of each row of x [.., n] is, s32 [..]: of equal ones the first, and
  // the first NaN where there is one. x is floating or s32.
  Value Argmax(Value x) {
    return Add({}, sinter_chain_add_argmax, x);
  }
  // Where the smallest number of each row of x [.., n] is, s32 [..]: of equal ones the first, and
  // the first NaN where there is one. x is floating or s32.
  Value Argmin(Value x) {
    return Add({}, sinter_chain_add_argmin, x);
  }
  // silu(gate) * up.
  Value Swiglu(Value gate, Value up) {
    return Add({}, sinter_chain_add_swiglu, gate, up);
  }
  // Rotary embedding, halves form: (t1, t2) = halves of x's last axis, concat(t1 cos - t2 sin, t2
  // cos + t1 sin). `cos` and `sin` broadcast to the shape of a half.
  Value Rope(Value x, Value cos, Value sin) {
    return Add({}, sinter_chain_add_rope, x, cos, sin);
  }
  // xg, hg [.., 3h], h [.., h]: r = s(xg0 + hg0), z = s(xg1 + hg1), n = tanh(xg2 + r hg2); (1 - z)
  // n + z h.
  Value GruCell(Value xg, Value hg, Value h) {
    return Add({}, sinter_chain_add_gru_cell, xg, hg, h);
  }
  // Weights of four bits as f32 [.., k], unrounded: cast them to bf16 for a product. w is s8 [.., k
  // / 2]; byte i of a row has element 2 i in its low four bits and element 2 i + 1 in the others.
  // scale, floating [.., groups], has a value for each group of k / groups neighbours. (code -
  // zero) * scale: codes are 0 to 15; zero, floating, is of rank 0 (8 of the symmetric form) or has
  // the dims of scale.
  Value DequantizeU4(Value w, Value scale, Value zero) {
    return Add({}, sinter_chain_add_dequantize_u4, w, scale, zero);
  }
  // Weights of e2m1 (mxfp4), a sign bit, then 0 .5 1 1.5 2 3 4 6, times their scales, as f32 [..,
  // k], unrounded. w and scale lie as in dequantize_u4; a scale of E8M0 is exact as bf16.
  Value DequantizeE2m1(Value w, Value scale) {
    return Add({}, sinter_chain_add_dequantize_e2m1, w, scale);
  }
  // The same as f32 [n, k] of a packed matrix, whose bytes lie as kernels read them: the order of
  // vLLM's Marlin kernels, which plans read faster and for any number of rows. w is s8 [k / 16, 8
  // n], n a multiple of 64. A row has 512 bytes for each 64 columns. Byte 16 (4 i + j) + 4 f + 2 e
  // + b of those has the code of column 16 f + 8 b + i and of element 2 j + e of the row's 16 of k
  // in its low four bits, and of element 2 j + e + 8 in the others. scale is [groups, n]: of each
  // 64 columns, place 8 i + j has column 8 j + i. zero is of rank 0, or lies as scale.
  Value DequantizeU4Packed(Value w, Value scale, Value zero) {
    return Add({}, sinter_chain_add_dequantize_u4_packed, w, scale, zero);
  }
  // Weights of e2m1 of a packed matrix: w and scale lie as in dequantize_u4_packed.
  Value DequantizeE2m1Packed(Value w, Value scale) {
    return Add({}, sinter_chain_add_dequantize_e2m1_packed, w, scale);
  }
  // Codes of a checkpoint in that order, as s8 [k / 16, 8 n]: n is a multiple of 64, k of 16. A
  // chain of this op and the next ones runs once, and its outputs are kept (docs/four-bit.md). w is
  // s8, four for each word of 32 bits: [n, k / 2] of ROWS and COMPRESSED_TENSORS, [k, n / 2] of
  // AWQ, [k / 8, 4 n] of GPTQ, whose elements of k lie in the order of their groups: its g_idx
  // never falls.
  Value PackCodes(Value w, Checkpoint checkpoint) {
    return Add({}, sinter_chain_add_pack_codes, w, checkpoint);
  }
  // Floating scales, or floating zeros, as packed ones [groups, n] of the same type. scale is [n,
  // groups] of ROWS and COMPRESSED_TENSORS, else [groups, n].
  Value PackScales(Value scale, Checkpoint checkpoint) {
    return Add({}, sinter_chain_add_pack_scales, scale, checkpoint);
  }
  // Zeros of four bits as packed ones, f32 [groups, n] of 0 to 15. zero is s8: [n / 8, 4 groups] of
  // COMPRESSED_TENSORS, [groups, n / 2] of AWQ and GPTQ. ROWS is SINTER_INVALID_ARGUMENT: its zeros
  // are floating.
  Value PackZeros(Value zero, Checkpoint checkpoint) {
    return Add({}, sinter_chain_add_pack_zeros, zero, checkpoint);
  }
  // Scales of E8M0, s8 of any dims, as f32: byte b is 2^(b - 127), 255 is NaN. Cast to bf16, they
  // are exact.
  Value DequantizeE8m0(Value scale) {
    return Add({}, sinter_chain_add_dequantize_e8m0, scale);
  }
  // made by ./dev bindings, adds: end
  // clang-format on

  // `flags`: SINTER_MATMUL_TRANSPOSE_A, SINTER_MATMUL_TRANSPOSE_B.
  Value Matmul(Value a, Value b, uint32_t flags = 0) {
    Zeroed<sinter_matmul_options> given;
    given.flags = flags;
    return Add({}, sinter_chain_add_matmul, a, b, &given);
  }
  // w[ids[m, t]] a[m], or a[m, t]: f32 [m, t, n]. `flags`: SINTER_MATMUL_TRANSPOSE_B, where w is
  // [experts, n, k].
  Value GroupedMatmul(Value a, Value w, Value ids, uint32_t flags = 0) {
    Zeroed<sinter_matmul_options> given;
    given.flags = flags;
    return Add({}, sinter_chain_add_grouped_matmul, a, w, ids, &given);
  }
  // w[e] a[m] with the first e of m < ends[e]: f32 [m, n]. Rows past the last end are zeros.
  // `flags` are as in GroupedMatmul.
  Value GroupedMatmulEnds(Value a, Value w, Value ends, uint32_t flags = 0) {
    Zeroed<sinter_matmul_options> given;
    given.flags = flags;
    return Add({}, sinter_chain_add_grouped_matmul_ends, a, w, ends, &given);
  }
  // x [batch, height, width, in] with the filter w.
  Value Conv2d(Value x, Value w, const Conv2dOptions& options = {}) {
    Zeroed<sinter_conv2d_options> given;
    given.filter = Number(options.filter);
    given.groups = options.groups;
    SetMoves(options, &given);
    return Add({}, sinter_chain_add_conv2d, x, w, &given);
  }
  // The pixels that a window meets as it moves over x [batch, height, width, channels], `fill`
  // outside of it: [batch, p, q, window height, window width, channels].
  Value Window(Value x, Value fill, const WindowOptions& options) {
    const auto given = Given(options);
    return Add({}, sinter_chain_add_window, x, fill, &given);
  }
  // The largest pixel of each window of x [batch, height, width, channels].
  Value MaxPool2d(Value x, const WindowOptions& options) {
    const auto given = Given(options);
    return Add({}, sinter_chain_add_max_pool2d, x, &given);
  }
  // The mean of the pixels of each window of x [batch, height, width, channels].
  Value AvgPool2d(Value x, const WindowOptions& options) {
    const auto given = Given(options);
    return Add({}, sinter_chain_add_avg_pool2d, x, &given);
  }
  // a[start : limit : step] on every axis; without `steps` all are 1.
  Value Slice(Value a, Span<int64_t> starts, Span<int64_t> limits, Span<int64_t> steps = {}) {
    if (!SameLength("slice", "limits", limits.size(), "starts", starts.size())) return Value();
    if (steps.size() != 0 && !SameLength("slice", "steps", steps.size(), "starts", starts.size())) {
      return Value();
    }
    return Add({}, sinter_chain_add_slice, a, starts.size(), starts.data(), limits.data(),
               steps.size() == 0 ? nullptr : steps.data());
  }
  Value Concat(Span<Value> operands, int32_t axis) {
    std::vector<sinter_value> ids;
    for (const Value operand : operands) ids.push_back(operand.id());
    return Add(operands, sinter_chain_add_concat, operands.size(), ids.data(), axis);
  }
  // `flags`: SINTER_REDUCE_KEEPDIMS.
  Value Reduce(Reduction kind, Value a, Span<int32_t> axes, uint32_t flags = 0) {
    Zeroed<sinter_reduce_options> given;
    given.flags = flags;
    return Add({}, sinter_chain_add_reduce, kind, a, axes.size(), axes.data(), &given);
  }
  Value Softmax(Value x, int32_t axis, const SoftmaxOptions& options = {}) {
    Zeroed<sinter_softmax_options> given;
    given.scale = options.scale;
    given.mask = options.mask.id();
    return Add({options.mask}, sinter_chain_add_softmax, x, axis, &given);
  }
  Value Attention(Value q, Value k, Value v, const AttentionOptions& options = {}) {
    Zeroed<sinter_attention_options> given;
    given.flags = options.causal ? SINTER_ATTENTION_CAUSAL : 0u;
    given.scale = options.scale;
    given.bias = options.bias.id();
    given.mask = options.mask.id();
    return Add({options.bias, options.mask}, sinter_chain_add_attention, q, k, v, &given);
  }
  Value Layernorm(Value x, const NormOptions& options = {}) {
    return Norm(sinter_chain_add_layernorm, x, options);
  }
  Value Rmsnorm(Value x, const NormOptions& options = {}) {
    return Norm(sinter_chain_add_rmsnorm, x, options);
  }
  // (h', c').
  std::pair<Value, Value> LstmCell(Value gates, Value c) {
    sinter_value cell = SINTER_NO_VALUE;
    const auto add = [&](sinter_chain* chain, sinter_value of_gates, sinter_value of_c,
                         sinter_value* out, sinter_error** error) {
      return sinter_chain_add_lstm_cell(chain, of_gates, of_c, out, &cell, error);
    };
    const Value h = Add({}, add, gates, c);
    return {h, Value(&building_, cell)};
  }
  // A token of each row of logits, s32. The second value is the logarithm of the token's
  // softmax(logits); it is empty unless options.log_probability is set.
  std::pair<Value, Value> NextToken(Value logits, Value seed, Value offset,
                                    const NextTokenOptions& options = {}) {
    Zeroed<sinter_next_token_options> given;
    given.count = options.count;
    given.temperature = options.temperature.id();
    given.k = options.k.id();
    given.top_p = options.top_p.id();
    given.min_p = options.min_p.id();
    sinter_value log_probability = SINTER_NO_VALUE;
    const auto add = [&](sinter_chain* chain, sinter_value of_logits, sinter_value of_seed,
                         sinter_value of_offset, sinter_value* out, sinter_error** error) {
      return sinter_chain_add_next_token(chain, of_logits, of_seed, of_offset, &given, out,
                                         options.log_probability ? &log_probability : nullptr,
                                         error);
    };
    const Value token = Add({options.temperature, options.k, options.top_p, options.min_p}, add,
                            logits, seed, offset);
    return {token,
            log_probability == SINTER_NO_VALUE ? Value() : Value(&building_, log_probability)};
  }
  Value Linear(Value x, Value w, const LinearOptions& options = {}) {
    const auto given = Given(options);
    return Add({options.bias}, sinter_chain_add_linear, x, w, &given);
  }
  // activation(a w1 + bias1) w2 + bias2.
  Value GemmChain(Value a, Value w1, Value w2, Activation activation,
                  const GemmChainOptions& options = {}) {
    const auto given = Given(activation, options);
    return Add({options.bias1, options.bias2}, sinter_chain_add_gemm_chain, a, w1, w2, &given);
  }
  // (activation(a w_gate + bias_gate) * (a w_up + bias_up)) w_down + bias2.
  Value GatedFfn(Value a, Value w_gate, Value w_up, Value w_down, Activation activation,
                 const GatedFfnOptions& options = {}) {
    const auto given = Given(activation, options);
    return Add({options.bias_gate, options.bias_up, options.bias2}, sinter_chain_add_gated_ffn, a,
               w_gate, w_up, w_down, &given);
  }

  // The sum over t of weights[m, t] (w2[e] c + bias2[e]) with e = ids[m, t] and c =
  // activation(gate) * (up + beta), columns of w1[e] a[m] + bias1[e].
  Value GroupedGatedFfn(Value a, Value ids, Value weights, Value w1, Value w2,
                        Activation activation, const GroupedGatedFfnOptions& options = {}) {
    const auto given = Given(activation, options);
    return Add({options.bias1, options.bias2}, sinter_chain_add_grouped_gated_ffn, a, ids, weights,
               w1, w2, &given);
  }

  // scale = max(min(amax, upper_bound), eps) / F; the codes are x / scale, cast.
  Scaled Quantize(Value x, const QuantizeOptions& options = {}) {
    const auto given = Given(options);
    sinter_scaled scaled{};
    const auto add = [&](sinter_chain* chain, sinter_value of_x, sinter_value* out,
                         sinter_error** error) {
      const sinter_status status = sinter_chain_add_quantize(chain, of_x, &given, &scaled, error);
      *out = scaled.codes;
      return status;
    };
    const Value codes = Add({options.static_scale}, add, x);
    return {codes, Value(&building_, scaled.scale)};
  }
  // GroupedMatmul of e4m3 codes and scales; w is [experts, n, k].
  Value ScaledGroupedMatmul(Scaled a, Scaled w, Value ids) {
    return Add({}, sinter_chain_add_scaled_grouped_matmul, a, w, ids,
               static_cast<const sinter_matmul_options*>(nullptr));
  }
  // GroupedGatedFfn of such codes: c is quantised, each term cast to bf16, and their sum f32.
  Value ScaledGroupedGatedFfn(Scaled a, Value ids, Value weights, Scaled w1, Scaled w2,
                              Activation activation, const QuantizeOptions& quantize = {},
                              const GroupedGatedFfnOptions& options = {}) {
    const auto quantizer = Given(quantize);
    const auto given = Given(activation, options);
    return Add({quantize.static_scale}, sinter_chain_add_scaled_grouped_gated_ffn, a, ids, weights,
               w1, w2, &quantizer, &given);
  }
  // activation(a W + bias), of codes and scales, not rounded.
  Value ScaledMatmul(Scaled a, Scaled w, const LinearOptions& options = {}) {
    const auto given = Given(options);
    return Add({options.bias}, sinter_chain_add_scaled_matmul, a, w, &given);
  }
  // c w2 + bias2 of the quantised c = activation(a w1 + bias1), not rounded.
  Value ScaledGemmChain(Scaled a, Scaled w1, Scaled w2, Activation activation,
                        const QuantizeOptions& quantize = {},
                        const GemmChainOptions& options = {}) {
    const auto quantizer = Given(quantize);
    const auto given = Given(activation, options);
    return Add({quantize.static_scale, options.bias1, options.bias2},
               sinter_chain_add_scaled_gemm_chain, a, w1, w2, &quantizer, &given);
  }
  // c w_down + bias2 of the quantised c = activation(a w_gate + bias_gate) * (a w_up + bias_up),
  // not rounded.
  Value ScaledGatedFfn(Scaled a, Scaled w_gate, Scaled w_up, Scaled w_down, Activation activation,
                       const QuantizeOptions& quantize = {}, const GatedFfnOptions& options = {}) {
    const auto quantizer = Given(quantize);
    const auto given = Given(activation, options);
    return Add({quantize.static_scale, options.bias_gate, options.bias_up, options.bias2},
               sinter_chain_add_scaled_gated_ffn, a, w_gate, w_up, w_down, &quantizer, &given);
  }

  // Declares the next output.
  void Output(Value value, const OutputOptions& options = {}) {
    Zeroed<sinter_output_options> given;
    given.alias = options.alias.id();
    const auto strides = Padded("strides", options.strides);
    const auto powers = Padded("stride_m_powers", options.stride_m_powers);
    if (!options.strides.empty()) given.strides = strides.data();
    if (!options.stride_m_powers.empty()) given.stride_m_powers = powers.data();
    const auto add = [&](sinter_chain* chain, sinter_value of_value, sinter_value*,
                         sinter_error** error) {
      return sinter_chain_add_output(chain, of_value, &given, error);
    };
    Add({options.alias}, add, value);
  }
  // The finished chain, or the first error of the adds, or what the chain as a whole lacks. Later
  // adds fail.
  Result<Chain> Finish() {
    detail::Building& building = building_;
    if (building.first_error.ok()) {
      building.first_error = Status::Of(sinter_chain_finish, building.chain);
    }
    if (!building.first_error.ok()) return building.first_error;
    sinter_chain_retain(building.chain);
    return Chain(building.chain);
  }

 private:
  friend class Value;

  template <typename Enum>
  static constexpr int32_t Number(Enum value) {
    return static_cast<int32_t>(value);
  }
  static constexpr uint32_t AccumulateFlags(bool fast) {
    return fast ? uint32_t{SINTER_ACCUMULATE_FAST} : 0;
  }
  static Zeroed<sinter_linear_options> Given(const LinearOptions& options) {
    Zeroed<sinter_linear_options> given;
    given.layout = Number(options.layout);
    given.activation = Number(options.activation);
    given.bias = options.bias.id();
    given.flags = AccumulateFlags(options.accumulate_fast);
    return given;
  }
  static Zeroed<sinter_gemm_chain_options> Given(Activation activation,
                                                 const GemmChainOptions& options) {
    Zeroed<sinter_gemm_chain_options> given;
    given.layout = Number(options.layout);
    given.activation = Number(activation);
    given.bias1 = options.bias1.id();
    given.bias2 = options.bias2.id();
    given.flags = AccumulateFlags(options.accumulate_fast);
    return given;
  }
  static Zeroed<sinter_gated_ffn_options> Given(Activation activation,
                                                const GatedFfnOptions& options) {
    Zeroed<sinter_gated_ffn_options> given;
    given.layout = Number(options.layout);
    given.activation = Number(activation);
    given.bias_gate = options.bias_gate.id();
    given.bias_up = options.bias_up.id();
    given.bias2 = options.bias2.id();
    given.flags = AccumulateFlags(options.accumulate_fast);
    return given;
  }
  static Zeroed<sinter_grouped_gated_ffn_options> Given(Activation activation,
                                                        const GroupedGatedFfnOptions& options) {
    Zeroed<sinter_grouped_gated_ffn_options> given;
    given.layout = Number(options.layout);
    given.activation = Number(activation);
    given.flags = (options.up_first ? uint32_t{SINTER_GROUPED_UP_FIRST} : 0) |
                  (options.interleaved ? uint32_t{SINTER_GROUPED_INTERLEAVED} : 0) |
                  (options.weight_on_input ? uint32_t{SINTER_GROUPED_WEIGHT_ON_INPUT} : 0);
    given.bias1 = options.bias1.id();
    given.bias2 = options.bias2.id();
    given.alpha = options.alpha;
    given.beta = options.beta;
    given.limit = options.limit;
    return given;
  }
  static Zeroed<sinter_quantize_options> Given(const QuantizeOptions& options) {
    Zeroed<sinter_quantize_options> given;
    given.flags = options.ue8m0 ? uint32_t{SINTER_QUANTIZE_UE8M0} : 0;
    given.granularity = Number(options.granularity);
    given.codes = Number(options.codes);
    given.eps = options.eps;
    given.upper_bound = options.upper_bound;
    given.static_scale = options.static_scale.id();
    return given;
  }
  template <typename T>
  static const T* DataOrNull(const std::vector<T>& values) {
    return values.empty() ? nullptr : values.data();
  }

  bool Refuse(std::string message) { return Refuse(&building_, std::move(message)); }
  static bool Refuse(detail::Building* building, std::string message) {
    if (building->first_error.ok()) {
      building->first_error = Status(SINTER_INVALID_ARGUMENT, std::move(message));
    }
    return false;
  }
  // How a filter or a window moves over an image.
  template <typename Options, typename Given>
  static void SetMoves(const Options& options, Given* given) {
    given->stride_height = options.strides[0];
    given->stride_width = options.strides[1];
    given->dilation_height = options.dilations[0];
    given->dilation_width = options.dilations[1];
    given->pad_top = options.pads.top;
    given->pad_bottom = options.pads.bottom;
    given->pad_left = options.pads.left;
    given->pad_right = options.pads.right;
  }
  static Zeroed<sinter_window_options> Given(const WindowOptions& options) {
    Zeroed<sinter_window_options> given;
    given.flags = options.exclude_pads ? SINTER_WINDOW_EXCLUDE_PADS : 0;
    given.height = options.window[0];
    given.width = options.window[1];
    SetMoves(options, &given);
    return given;
  }
  bool SameLength(const char* op, const char* field, size_t length, const char* other,
                  size_t wanted) {
    if (length == wanted) return true;
    return Refuse(std::string(op) + ": " + field + " has " + std::to_string(length) + " values, " +
                  other + " has " + std::to_string(wanted));
  }
  // One number for each axis that a value can have. Only the library knows how many the value has:
  // it refuses the -1 that follows a list that is too short.
  template <typename T>
  std::array<T, SINTER_MAX_RANK> Padded(const char* field, const std::vector<T>& values) {
    std::array<T, SINTER_MAX_RANK> padded;
    padded.fill(-1);
    if (values.size() > padded.size()) {
      Refuse(std::string("output: ") + field + " has " + std::to_string(values.size()) +
             " values, at most " + std::to_string(padded.size()) + " are allowed");
      return padded;
    }
    for (size_t i = 0; i < values.size(); ++i) padded[i] = values[i];
    return padded;
  }
  bool SetStrides(const char* op, size_t rank, const InputOptions& options,
                  sinter_input_options* given) {
    const size_t strides = options.strides.size(), powers = options.stride_m_powers.size();
    if (strides != 0 && !SameLength(op, "strides", strides, "dims", rank)) return false;
    if (powers != 0 && !SameLength(op, "stride_m_powers", powers, "dims", rank)) return false;
    given->strides = DataOrNull(options.strides);
    given->stride_m_powers = DataOrNull(options.stride_m_powers);
    return true;
  }

  // What the C ABI takes for `arg`.
  template <typename Arg>
  static constexpr auto Passed(const Arg& arg) {
    if constexpr (std::is_enum_v<Arg>) {
      return Number(arg);
    } else if constexpr (std::is_same_v<Arg, Value>) {
      return arg.id();
    } else if constexpr (std::is_same_v<Arg, Scaled>) {
      return sinter_scaled{arg.codes.id(), arg.scale.id()};
    } else {
      return arg;
    }
  }
  // An error unless every Value in `arg` is of this chain, or absent.
  template <typename Arg>
  static void CheckOwned(detail::Building* building, const Arg& arg) {
    if constexpr (std::is_same_v<Arg, Scaled>) {
      CheckOwned(building, arg.codes);
      CheckOwned(building, arg.scale);
    } else if constexpr (std::is_same_v<Arg, Value>) {
      if (arg.building_ == nullptr || arg.building_ == building) return;
      Refuse(building, "an operand is value " + std::to_string(arg.id()) + " of another chain");
    }
  }
  // Runs `call(chain, args..., sinter_value* out, sinter_error**)` unless an add failed before.
  // `more`: the operands in options.
  template <typename Call, typename... Args>
  Value Add(Span<Value> more, Call&& call, const Args&... args) {
    return Add(&building_, more, call, args...);
  }
  template <typename Call, typename... Args>
  static Value Add(detail::Building* building, Span<Value> more, Call&& call, const Args&... args) {
    (CheckOwned(building, args), ...);
    for (const Value operand : more) CheckOwned(building, operand);
    if (!building->first_error.ok()) return Value();
    sinter_value out = SINTER_NO_VALUE;
    building->first_error = Status::Of(call, building->chain, Passed(args)..., &out);
    return Value(building, out);
  }
  // An operator's op: of the builder that made either operand.
  static Value AddBinary(Binary kind, Value a, Value b) {
    detail::Building* building = a.building_ != nullptr ? a.building_ : b.building_;
    if (building == nullptr) return Value();
    return Add(building, {}, sinter_chain_add_binary, kind, a, b);
  }
  template <typename Call>
  Value Norm(Call* call, Value x, const NormOptions& options) {
    Zeroed<sinter_norm_options> given;
    given.eps = options.eps;
    given.gamma = options.gamma.id();
    given.beta = options.beta.id();
    return Add({options.gamma, options.beta}, call, x, &given);
  }

  detail::Building building_;
};

inline Value Value::operator+(Value b) const {
  return ChainBuilder::AddBinary(Binary::kAdd, *this, b);
}
inline Value Value::operator-(Value b) const {
  return ChainBuilder::AddBinary(Binary::kSub, *this, b);
}
inline Value Value::operator*(Value b) const {
  return ChainBuilder::AddBinary(Binary::kMul, *this, b);
}
inline Value Value::operator/(Value b) const {
  return ChainBuilder::AddBinary(Binary::kDiv, *this, b);
}
inline Value Value::operator-() const {
  if (building_ == nullptr) return Value();
  return ChainBuilder::Add(building_, {}, sinter_chain_add_unary, Unary::kNeg, *this);
}

// ---------------------------------------------------------------- Plans

class GraphNodes;

// A plan bound to buffers: immutable, thread-safe.
class Binding
    : public detail::Handle<sinter_binding, sinter_binding_retain, sinter_binding_release> {
 public:
  using Handle::Handle;
  // Enqueues the plan's kernels for `m` rows, std::nullopt for a chain without M; only enqueues,
  // and is legal in capture. `flags`: SINTER_LAUNCH_PDL.
  Status Launch(sinter_stream stream, std::optional<int64_t> m, uint32_t flags = 0) const {
    return Status::Of(sinter_binding_launch, get(), stream, detail::CountOf(m), detail::DataOf(m),
                      flags);
  }
  // Adds to `graph` what Launch would enqueue, after `dependencies`. `flags`: SINTER_GRAPH_PDL.
  Result<GraphNodes> AddToGraph(sinter_graph graph, Span<sinter_graph_node> dependencies,
                                std::optional<int64_t> m, uint32_t flags = 0) const;
};

// What one AddToGraph made. It keeps the plan, not the graph.
class GraphNodes : public detail::Handle<sinter_graph_nodes, sinter_graph_nodes_retain,
                                         sinter_graph_nodes_release> {
 public:
  using Handle::Handle;
  uint32_t Count() const { return sinter_graph_nodes_get_count(get()); }
  // In the order in which they run; NULL beyond them.
  sinter_graph_node Get(uint32_t index) const { return sinter_graph_nodes_get(get(), index); }
  // Nodes that wait for the plan depend on it.
  sinter_graph_node Last() const { return Get(Count() - 1); }
  // The buffers of `binding`, of the same plan, and `m` rows in an instance of the graph;
  // SINTER_FAILED_PRECONDITION if the graph must be rebuilt.
  Status Update(sinter_graph_exec exec, const Binding& binding, std::optional<int64_t> m) const {
    return Status::Of(sinter_graph_nodes_update, get(), exec, binding.get(), detail::CountOf(m),
                      detail::DataOf(m));
  }
};

inline Result<GraphNodes> Binding::AddToGraph(sinter_graph graph,
                                              Span<sinter_graph_node> dependencies,
                                              std::optional<int64_t> m, uint32_t flags) const {
  return detail::Make<GraphNodes>(sinter_binding_add_to_graph, get(), graph, dependencies.size(),
                                  dependencies.data(), detail::CountOf(m), detail::DataOf(m),
                                  flags);
}

class Context;

using GroupOptions = Zeroed<sinter_group_options>;

// An all-gather of the caller: `mine` is this rank's, `all` gets those of all ranks, as many bytes
// each, in the order of ranks. It must end by itself where a rank does not come; its status is that
// of the call that gathered, as is what it throws.
using Exchange = std::function<Status(Span<std::byte> mine, std::byte* all)>;

// This rank's part in a group of GPUs over which chains are split (sinter_group.h).
class Group : public detail::Handle<sinter_group, sinter_group_retain, sinter_group_release> {
 public:
  using Handle::Handle;
  // Collective, as rank `rank` of `size`. Copies of the group share `exchange`, and one of them is
  // there while a plan is bound or the group closed.
  static Result<Group> Create(const Context& context, int32_t rank, int32_t size, Exchange exchange,
                              GroupOptions options = {});
  // The same by the rank, size and exchange of `options`, whose user_data is the caller's.
  static Result<Group> Create(const Context& context, const sinter_group_options& options);
  // Of GPUs of this process, rank i that of contexts[i].
  static Result<std::vector<Group>> CreateLocal(Span<Context> contexts,
                                                const GroupOptions& options = {});
  // OK while the group lives, else why it ended; `rank`, if not null: the rank that is meant, or
  // -1. Never blocks.
  Status GetStatus(int32_t* rank = nullptr) const {
    return Status::Of(sinter_group_get_status, get(), rank);
  }
  Status Abort() const { return Status::Of(sinter_group_abort, get()); }
  // Collective, once every rank's launches are synchronised.
  Status Close() const { return Status::Of(sinter_group_close, get()); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

// A chain prepared for a bucket of M: immutable, thread-safe.
class Plan : public detail::Handle<sinter_plan, sinter_plan_retain, sinter_plan_release> {
 public:
  using Handle::Handle;
  // The largest m that one pass serves.
  int64_t Bucket() const { return sinter_plan_get_bucket(get()); }
  // The largest m that a launch takes, in one pass or several; 0 of a chain without M.
  int64_t MaxM() const { return sinter_plan_get_max_m(get()); }
  // Buffers that a bind takes.
  uint32_t BufferCount() const { return sinter_plan_get_buffer_count(get()); }
  // Bytes; may be 0.
  uint64_t WorkspaceSize() const { return sinter_plan_get_workspace_size(get()); }
  Result<sinter::Digest> Digest() const {
    return detail::MakeDigest(sinter_plan_get_digest, get());
  }
  // Enqueues the zeroing of a workspace, once before its first use.
  Status InitWorkspace(sinter_device_ptr workspace, uint64_t bytes, sinter_stream stream) const {
    return Status::Of(sinter_plan_init_workspace, get(), workspace, bytes, stream);
  }
  // The plan on one screen, and the best of what lost and why.
  Result<std::string> Explain() const { return detail::Text(sinter_plan_explain, get()); }
  // `buffers`: the chain's inputs in the order of their adds, then its outputs. The memory stays
  // the caller's and must outlive every launch. `workspace` may be 0 when its size is.
  Result<Binding> Bind(Span<sinter_device_ptr> buffers, sinter_device_ptr workspace) const {
    return detail::Make<Binding>(sinter_plan_bind, get(), buffers.size(), buffers.data(),
                                 workspace);
  }
  // For a chain that is split over ranks; collective the first time that the group meets the plan.
  Result<Binding> BindGroup(Span<sinter_device_ptr> buffers, sinter_device_ptr workspace,
                            const Group& group) const {
    return detail::Make<Binding>(sinter_plan_bind_group, get(), buffers.size(), buffers.data(),
                                 workspace, group.get());
  }
  // Bind and launch in one call, for buffers that change every time. `m` as in
  // Binding::Launch.
  Status Launch(sinter_stream stream, std::optional<int64_t> m, Span<sinter_device_ptr> buffers,
                sinter_device_ptr workspace, uint32_t flags = 0) const {
    return Status::Of(sinter_plan_launch, get(), stream, detail::CountOf(m), detail::DataOf(m),
                      buffers.size(), buffers.data(), workspace, flags);
  }
};

// What a prepare would choose; nothing is built. Immutable, thread-safe.
class Search : public detail::Handle<sinter_search, sinter_search_retain, sinter_search_release> {
 public:
  using Handle::Handle;
  int64_t Bucket() const { return sinter_search_get_bucket(get()); }
  // Kernels that a launch enqueues.
  uint32_t KernelCount() const { return sinter_search_get_kernel_count(get()); }
  // Microseconds at the bucket's rows, as the cost model predicts them: of the plan that was
  // chosen, and of the plain plan.
  double PredictedUs() const { return sinter_search_get_predicted_us(get()); }
  double UnfusedUs() const { return sinter_search_get_unfused_us(get()); }
  // Bytes; may be 0.
  uint64_t WorkspaceSize() const { return sinter_search_get_workspace_size(get()); }
  // SINTER_CHOICE_UNFUSED for the plain plan, else SINTER_CHOICE_FUSED.
  sinter_choice Choice() const { return sinter_search_get_choice(get()); }
  // Whether a measurement chose the plan.
  bool IsMeasured() const { return sinter_search_is_measured(get()) != 0; }
  // "fused", "partly fused", "unfused".
  std::string Name() const { return sinter_search_get_name(get()); }
  // For people: which ops share kernels, and why others do not.
  std::string Note() const { return sinter_search_get_note(get()); }
};

// Ends the calls that were given it: PrepareOptions::cancel = cancel.get(). Thread-safe.
class Cancel : public detail::Handle<sinter_cancel, sinter_cancel_retain, sinter_cancel_release> {
 public:
  using Handle::Handle;
  static Result<Cancel> Create() { return detail::Make<Cancel>(sinter_cancel_create); }
  void Request() const { sinter_cancel_request(get()); }
};

// A prepare under way. The last handle that goes cancels it and waits for its thread. Thread-safe.
class Pending
    : public detail::Handle<sinter_pending, sinter_pending_retain, sinter_pending_release> {
 public:
  using Handle::Handle;
  // Never blocks.
  bool Ready() const { return sinter_pending_poll(get()) != 0; }
  // Waits at most `timeout_us`, < 0 without limit; SINTER_DEADLINE_EXCEEDED when still under way.
  Result<Plan> Get(int64_t timeout_us = -1) const {
    return detail::Make<Plan>(sinter_pending_get, get(), timeout_us);
  }
  // The same for at most `timeout`; at once where that is less than 0.
  template <typename Rep, typename Period>
  Result<Plan> Get(std::chrono::duration<Rep, Period> timeout) const {
    const std::chrono::duration<double, std::micro> us = timeout;
    return Get(std::max<int64_t>(detail::Microseconds(us.count(), 0), 0));
  }
  // Calls `callback` exactly once with the prepare's status: on its thread when it ends, or here
  // and now if it has. The callback may use the library. What it throws here and now is
  // SINTER_INTERNAL; what it throws on the thread, an error in the log.
  Status OnReady(std::function<void(sinter_status)> callback) const {
    using Shared = std::shared_ptr<std::function<void(sinter_status)>>;
    if (!callback) return Status(SINTER_INVALID_ARGUMENT, "callback is empty");
    const Shared shared = std::make_shared<Shared::element_type>(std::move(callback));
    auto share = std::make_unique<Shared>(shared);
    Status asked = Status::Of([&](sinter_error** error) {
      return sinter_pending_on_ready(
          get(),
          [](uintptr_t user_data, const sinter_pending*, sinter_status status) {
            const std::unique_ptr<Shared> own(reinterpret_cast<Shared*>(user_data));
            (**own)(status);
          },
          reinterpret_cast<uintptr_t>(share.get()), error);
    });
    // The call owns its share: one that comes later, one that has been, and one that has thrown.
    if (asked.ok() || shared.use_count() == 1) (void)share.release();
    return asked;
  }
  // Readable permanently once the prepare has ended; closed with the last handle. -1: none to be
  // had.
  int Fd() const { return sinter_pending_get_fd(get()); }
};

// A place that always holds the best plan so far. Nothing that a plan, binding or graph holds ever
// changes. The last handle that goes cancels a build under way. Thread-safe.
class Slot : public detail::Handle<sinter_slot, sinter_slot_retain, sinter_slot_release> {
 public:
  using Handle::Handle;
  // The current plan, at once. SINTER_NOT_FOUND: none yet; else what the build failed with.
  Result<Plan> Acquire() const { return detail::Make<Plan>(sinter_slot_acquire, get()); }
  // 0: no plan yet, 1: one that stands in, 2: the final one, then one more for each that was
  // offered; current or not.
  uint64_t Generation() const { return sinter_slot_get_generation(get()); }
  // A plan that was prepared elsewhere, for the same chain, bucket and device: by a context with
  // another tuning set. SINTER_INVALID_ARGUMENT names what differs; SINTER_FAILED_PRECONDITION
  // while the build is under way.
  Status Offer(const Plan& plan) const { return Status::Of(sinter_slot_offer, get(), plan.get()); }
  // Makes the newest plan current; only with SINTER_SLOT_MANUAL.
  Status Switch() const { return Status::Of(sinter_slot_switch, get()); }
  // The build, which has ended after a hit.
  Result<Pending> Build() const { return detail::Make<Pending>(sinter_slot_get_build, get()); }
};

// Choices that were measured; a context reads one from ContextOptions::tuning_set. Thread-safe.
class TuningSet : public detail::Handle<sinter_tuning_set, sinter_tuning_set_retain,
                                        sinter_tuning_set_release> {
 public:
  using Handle::Handle;
  static Result<TuningSet> Create() { return detail::Make<TuningSet>(sinter_tuning_set_create); }
  Status AddFile(const char* path) const {
    return Status::Of(sinter_tuning_set_add_file, get(), path);
  }
  Status Write(const char* path) const { return Status::Of(sinter_tuning_set_write, get(), path); }
  uint64_t Count() const { return sinter_tuning_set_get_count(get()); }
  Result<sinter::Digest> Digest() const {
    return detail::MakeDigest(sinter_tuning_set_get_digest, get());
  }
};

// ---------------------------------------------------------------- Contexts

// A device or a target: caches, configuration, counters. Thread-safe.
class Context
    : public detail::Handle<sinter_context, sinter_context_retain, sinter_context_release> {
 public:
  using Handle::Handle;
  static Result<Context> Open(const sinter_context_options& options) {
    return detail::Make<Context>(sinter_context_create, &options);
  }
  // GPU `device` of the driver; all else follows the environment.
  static Result<Context> Open(int32_t device) {
    ContextOptions options;
    options.device = device;
    return Open(options);
  }
  // Without a GPU: "h200", "h100" or a model's text.
  static Result<Context> ForTarget(const char* target) {
    ContextOptions options;
    options.target = target;
    return Open(options);
  }

  bool HasDevice() const { return sinter_context_has_device(get()) != 0; }
  Result<Digest> TuningDigest() const {
    return detail::MakeDigest(sinter_context_get_tuning_digest, get());
  }
  Status DenyToolchains(const char* entries) const {
    return Status::Of(sinter_context_deny_toolchains, get(), entries);
  }
  Result<sinter::Stats> Stats() const {
    return detail::Fill<sinter::Stats>(sinter_context_get_stats, get());
  }
  // The same as Prometheus text.
  Result<std::string> Metrics() const { return detail::Text(sinter_context_write_metrics, get()); }

  // The plan that serves m rows: from a cache, or searched, generated and compiled. Blocks.
  Result<Plan> Prepare(const Chain& chain, int64_t m, const PrepareOptions& options = {}) const {
    return detail::Make<Plan>(sinter_prepare, get(), chain.get(), m, &options);
  }
  // What Prepare would choose. A search that Prepare then does not do again. Blocks.
  Result<sinter::Search> Search(const Chain& chain, int64_t m,
                                const PrepareOptions& options = {}) const {
    return detail::Make<sinter::Search>(sinter_context_search, get(), chain.get(), m, &options);
  }
  Result<Pending> PrepareAsync(const Chain& chain, int64_t m,
                               const PrepareOptions& options = {}) const {
    return detail::Make<Pending>(sinter_prepare_async, get(), chain.get(), m, &options);
  }
  // A plan that is there, or a build in the background. `flags`: SINTER_SLOT_MANUAL.
  Result<Slot> MakeSlot(const Chain& chain, int64_t m, const PrepareOptions& options = {},
                        uint32_t flags = 0) const {
    return detail::Make<Slot>(sinter_slot_create, get(), chain.get(), m, &options, flags);
  }
  // plans[i] is of chains[i] at ms[i], empty where statuses[i] is not OK. `status` is the first
  // status that is not OK.

  struct Many {
    Status status;
    std::vector<Plan> plans;
    std::vector<sinter_status> statuses;
  };
  Many PrepareMany(Span<Chain> chains, Span<int64_t> ms, const PrepareOptions& options = {}) const {
    Many many;
    if (chains.size() != ms.size()) {
      many.status = Status(SINTER_INVALID_ARGUMENT,
                           "prepare_many: chains has " + std::to_string(chains.size()) +
                               " values, ms has " + std::to_string(ms.size()));
      return many;
    }
    std::vector<const sinter_chain*> borrowed;
    for (const Chain& chain : chains) borrowed.push_back(chain.get());
    std::vector<sinter_plan*> plans(borrowed.size(), nullptr);
    many.statuses.assign(borrowed.size(), SINTER_UNKNOWN);
    many.status = Status::Of(sinter_prepare_many, get(), chains.size(), borrowed.data(), ms.data(),
                             &options, plans.data(), many.statuses.data());
    for (sinter_plan* plan : plans) many.plans.emplace_back(plan);
    return many;
  }
  // Measures on the context's GPU what was ranked best; options.into receives the choice.
  Status Tune(const Chain& chain, int64_t m, const TuneOptions& options = {}) const {
    return Status::Of(sinter_tune, get(), chain.get(), m, &options);
  }
};

inline Result<Group> Group::Create(const Context& context, const sinter_group_options& options) {
  return detail::Make<Group>(sinter_group_create, context.get(), &options);
}

inline Result<Group> Group::Create(const Context& context, int32_t rank, int32_t size,
                                   Exchange exchange, GroupOptions options) {
  if (!exchange) return Status(SINTER_INVALID_ARGUMENT, "group.exchange is empty");
  const auto kept = std::make_shared<Exchange>(std::move(exchange));
  options.rank = rank;
  options.size = size;
  options.user_data = reinterpret_cast<uintptr_t>(kept.get());
  options.exchange = [](uintptr_t user_data, const void* send, size_t bytes, void* recv) {
    const Span<std::byte> mine(static_cast<const std::byte*>(send), bytes);
    return (*reinterpret_cast<Exchange*>(user_data))(mine, static_cast<std::byte*>(recv)).code();
  };
  Result<Group> group = Create(context, options);
  if (group.ok()) group->exchange_ = kept;
  return group;
}

inline Result<std::vector<Group>> Group::CreateLocal(Span<Context> contexts,
                                                     const GroupOptions& options) {
  std::vector<sinter_context*> given;
  for (const Context& context : contexts) given.push_back(context.get());
  std::vector<sinter_group*> made(given.size());
  Status status =
      Status::Of(sinter_group_create_local, given.data(), contexts.size(), &options, made.data());
  if (!status.ok()) return status;
  std::vector<Group> groups;
  for (sinter_group* group : made) groups.push_back(Group(group));
  return groups;
}

// ---------------------------------------------------------------- Text form

#ifdef SINTER_SINTER_EXPERIMENTAL_H_
// For programs that include sinter_experimental.h before this header. A chain from one line, such
// as "gated_ffn m=M n=14336 k=4096 l=4096 act=silu dtype=bf16"; docs/chains.md has the kinds and
// their keys.
inline Result<Chain> ChainFromText(const std::string& line) {
  if (line.find('\0') != std::string::npos) {
    return Status(SINTER_INVALID_ARGUMENT, "line holds a NUL character");
  }
  return detail::Make<Chain>([&](sinter_chain** out, sinter_error** error) {
    return sinter_x_chain_from_text(line.c_str(), out, nullptr, nullptr, error);
  });
}
#endif

}  // namespace sinter

#endif  // SINTER_SINTER_HPP_
