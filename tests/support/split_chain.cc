#include "tests/support/split_chain.h"

#include "src/chain/builder.h"
#include "tests/bench/random.h"

namespace sinter::testing {
namespace {

constexpr int64_t kMostElements = 1 << 12;  // of a value, without M
constexpr DType kFloats[] = {DType::kBF16, DType::kF16, DType::kF32};

class SplitMaker {
 public:
  explicit SplitMaker(uint64_t seed)
      : random_(seed * 0x9E3779B97F4A7C15u + 77), ranks_(static_cast<int32_t>(random_.In(2, 4))) {}

  Chain Make() {
    value_ = Input(Dims(), kFloats[random_.In(0, 2)]);
    const int64_t steps = random_.In(2, 6);
    for (int64_t i = 0; i < steps; ++i) Step(random_.In(0, 9));
    if (!splits_) Take(b_.AllReduce(value_, ranks_));
    b_.Output(value_).IgnoreError();
    return *b_.Finish();
  }

 private:
  const TensorType& type() const { return b_.TypeOf(value_); }
  void Take(const absl::StatusOr<ValueId>& value) { value_ = *value; }
  ValueId Input(std::vector<Dim> dims, DType dtype, bool constant = false) {
    return *b_.Input({dtype, std::move(dims)}, {constant, {}, ""});
  }

  std::vector<Dim> Dims() {
    const int64_t axes = random_.In(1, 4), m = random_.In(-1, axes - 1);
    std::vector<Dim> dims;
    for (int64_t i = 0; i < axes; ++i) {
      const int64_t few[] = {1, 2, ranks_, 2 * ranks_};
      dims.push_back(i == m          ? Dim::M()
                     : i + 1 == axes ? Dim::Constant(16 * ranks_)
                                     : Dim::Constant(few[random_.In(0, 3)]));
    }
    return dims;
  }
  int64_t Elements() const {
    int64_t count = 1;
    for (const Dim dim : type().dims) count *= dim.symbolic ? 1 : dim.value;
    return count;
  }

  void Step(int64_t kind) {
    const std::vector<Dim> dims = type().dims;
    const int axis = static_cast<int>(random_.In(0, type().rank() - 1));
    const Dim along = dims[static_cast<size_t>(axis)];
    switch (kind) {
      case 0:
        return Take(b_.Unary(UnaryKind::kRelu, value_));
      case 1:
        return Take(b_.Binary(BinaryKind::kAdd, value_, Input(dims, type().dtype)));
      case 2:
        return Take(b_.Cast(value_, kFloats[random_.In(0, 2)]));
      case 3:
        splits_ = true;
        return Take(b_.AllReduce(value_, ranks_));
      case 4:
      case 5:
        if (along.symbolic || Elements() * ranks_ > kMostElements) return;
        splits_ = true;
        return Take(b_.AllGather(value_, axis, ranks_));
      case 6:
      case 7:
        if (along.symbolic || along.value % ranks_ != 0) return;
        splits_ = true;
        return Take(b_.ReduceScatter(value_, axis, ranks_));
      case 8:
        return Reshape(dims);
      default:
        return Multiply(dims);
    }
  }

  // One axis of extent 1 more or less in front.
  void Reshape(std::vector<Dim> dims) {
    if (dims.size() > 1 && dims[0] == Dim::Constant(1)) {
      dims.erase(dims.begin());
    } else if (dims.size() < 5) {
      dims.insert(dims.begin(), Dim::Constant(1));
    }
    Take(b_.Reshape(value_, dims));
  }
  void Multiply(const std::vector<Dim>& dims) {
    if (dims.size() < 2 || dims.back().symbolic || dims.back().value % 8 != 0) return;
    const DType dtype = type().dtype == DType::kF16 ? DType::kF16 : DType::kBF16;
    const ValueId a = *b_.Cast(value_, dtype);
    const ValueId w = Input({Dim::Constant(16 * ranks_), dims.back()}, dtype, true);
    Take(b_.Cast(*b_.Matmul(a, w, false, true), dtype));
  }

  bench::Random random_;
  const int32_t ranks_;
  ChainBuilder b_;
  ValueId value_ = -1;
  bool splits_ = false;
};

}  // namespace

Chain MakeSplitChain(uint64_t seed) { return SplitMaker(seed).Make(); }

}  // namespace sinter::testing
