#include "tests/gpu/ffn_reference.h"

#include "src/product/matcher.h"
#include "src/reference/rows.h"

namespace sinter::gpu_testing {
namespace {

typedef double Vector __attribute__((vector_size(32)));
constexpr int64_t kLanes = 4;
constexpr int64_t kColumns = 4;       // of one inner loop
constexpr int64_t kColumnBlock = 16;  // of one task
constexpr int64_t kDepth = 512;       // of K that stays in the first-level cache

double ToDouble(uint16_t bits, DType dtype) {
  if (dtype == DType::kF16) return F16ToF32(bits);
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

uint16_t At(const std::string& bytes, int64_t element) {
  uint16_t bits;
  std::memcpy(&bits, bytes.data() + 2 * element, sizeof bits);
  return bits;
}

int64_t Padded(int64_t k) { return (k + kLanes - 1) / kLanes * kLanes; }

// A row-major matrix whose rows are padded with zeros to whole vectors.
struct Matrix {
  Matrix(int64_t r, int64_t c)
      : rows(r), columns(c), stride(Padded(c) / kLanes), data(static_cast<size_t>(r * stride)) {}
  double& At(int64_t r, int64_t c) {
    return reinterpret_cast<double*>(data.data())[r * stride * kLanes + c];
  }
  double At(int64_t r, int64_t c) const {
    return reinterpret_cast<const double*>(data.data())[r * stride * kLanes + c];
  }
  const Vector* Row(int64_t r) const { return data.data() + r * stride; }
  int64_t rows, columns, stride;
  std::vector<Vector> data;
};

struct Weight {
  const std::string* bytes;
  int64_t stride;
  Layout layout;
  DType dtype;
};

// Columns [first, first + count) of the weight, each as one row of `out`.
void LoadColumns(const Weight& w, int64_t first, int64_t count, int64_t k, Matrix* out) {
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t i = 0; i < k; ++i) {
      const int64_t element =
          w.layout == Layout::kOI ? (first + c) * w.stride + i : i * w.stride + first + c;
      out->At(c, i) = ToDouble(At(*w.bytes, element), w.dtype);
    }
  }
}

// sums[r * kColumnBlock + c] += a[r] . b[c] over the vectors [begin, end).
#ifndef __SANITIZE_THREAD__  // clones are resolved before ThreadSanitizer is up
__attribute__((target_clones("default", "arch=haswell")))
#endif
void AddProducts(
    const Matrix& a, const Matrix& b, int64_t begin, int64_t end, int64_t count, double* sums) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const Vector* x = a.Row(r);
    for (int64_t c = 0; c < count; c += kColumns) {
      const Vector *w0 = b.Row(c), *w1 = b.Row(c + 1), *w2 = b.Row(c + 2), *w3 = b.Row(c + 3);
      Vector s0 = {}, s1 = {}, s2 = {}, s3 = {};
      for (int64_t i = begin; i < end; ++i) {
        s0 += x[i] * w0[i];
        s1 += x[i] * w1[i];
        s2 += x[i] * w2[i];
        s3 += x[i] * w3[i];
      }
      double* out = sums + r * kColumnBlock + c;
      out[0] += s0[0] + s0[1] + s0[2] + s0[3];
      out[1] += s1[0] + s1[1] + s1[2] + s1[3];
      out[2] += s2[0] + s2[1] + s2[2] + s2[3];
      out[3] += s3[0] + s3[1] + s3[2] + s3[3];
    }
  }
}

// Columns [first, first + count) of a W, by rows of kColumnBlock.
std::vector<double> Multiply(const Matrix& a, const Weight& w, int64_t first, int64_t count) {
  Matrix columns(kColumnBlock, a.columns);
  LoadColumns(w, first, count, a.columns, &columns);
  std::vector<double> sums(static_cast<size_t>(a.rows * kColumnBlock), 0.0);
  for (int64_t begin = 0; begin < a.stride; begin += kDepth / kLanes) {
    AddProducts(a, columns, begin, std::min(begin + kDepth / kLanes, a.stride), count, sums.data());
  }
  return sums;
}

double Activate(Activation act, double x) {
  switch (act) {
    case Activation::kIdentity:
      return x;
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

double Round(double value, DType dtype) {
  const float narrow = static_cast<float>(value);
  return dtype == DType::kF16 ? F16ToF32(F32ToF16(narrow)) : BF16ToF32(F32ToBF16(narrow));
}

class ProductsRun {
 public:
  ProductsRun(const MatchedSequence& matched, const std::vector<std::string>& inputs, int threads)
      : matched_(matched),
        element_(matched.sequence.element()),
        inputs_(inputs),
        threads_(threads) {}

  Matrix LoadRows(const std::vector<int64_t>& rows) const {
    Matrix a(static_cast<int64_t>(rows.size()), matched_.sequence.front().k);
    const Operand& from = matched_.sequence.front().rows;
    for (int64_t r = 0; r < a.rows; ++r) {
      if (from.source == Source::kWindow) {
        LoadWindow(from.window, rows[static_cast<size_t>(r)], r, &a);
        continue;
      }
      for (int64_t i = 0; i < a.columns; ++i) {
        a.At(r, i) =
            ToDouble(At(inputs_[matched_.rows], rows[r] * matched_.rows_stride + i), element_);
      }
    }
    return a;
  }

  // The result of GEMM `i` on the rows `x`, which are `rows` of the chain's. It is rounded if the
  // chain says so and it is not an output.
  Matrix Apply(int i, const Matrix& x, const std::vector<int64_t>& rows) const {
    const MatrixProduct& p = matched_.sequence[i];
    const ProductInputs& in = matched_.InputsOf(i);
    const bool rounds = in.rounds && i + 1 < matched_.size();
    const int bias = matched_.NumberOf(i, Role::kBias),
              bias_up = matched_.NumberOf(i, Role::kBiasUp);
    const int factor = matched_.NumberOf(i, Role::kFactor);
    const int residual = matched_.NumberOf(i, Role::kResidual);
    Matrix c(x.rows, p.n);
    ForColumns(p.n, [&](int64_t first, int64_t count) {
      const std::vector<double> gate = Multiply(x, Of(in.weights, in.weights_stride), first, count);
      std::vector<double> up;
      if (p.pair) up = Multiply(x, Of(in.weights_up, in.weights_up_stride), first, count);
      for (int64_t r = 0; r < x.rows; ++r) {
        const double scale = Norm(p, x, r) * Scale(p, factor, rows[static_cast<size_t>(r)]);
        for (int64_t j = 0; j < count; ++j) {
          const size_t at = static_cast<size_t>(r * kColumnBlock + j);
          const int64_t column = first + j;
          const double of_gate = scale * ColumnScale(p, in.scale_weights, column);
          double value = Activate(p.epilogue.activation(), of_gate * gate[at] + Bias(bias, column));
          if (p.pair) {
            value *= scale * ColumnScale(p, in.scale_up, column) * up[at] + Bias(bias_up, column);
          }
          value = Sum(p, residual, in.residual_stride, value, rows[static_cast<size_t>(r)], column);
          c.At(r, column) = rounds ? Round(value, element_) : value;
        }
      }
    });
    return c;
  }

 private:
  // Row `r` of `a`: the pixels under the taps of result pixel `row`; zeros outside of its image.
  void LoadWindow(const PixelWindow& w, int64_t row, int64_t r, Matrix* a) const {
    const int64_t image = row / w.RowsPerM(), pixel = row % w.RowsPerM();
    const int64_t at[2] = {pixel / w.Pixels(1), pixel % w.Pixels(1)};
    const auto place = [&w, &at](int axis, int64_t tap) {
      return at[axis] * w.conv.strides[axis] + tap * w.conv.dilations[axis] + w.LowerCorner(axis);
    };
    for (int64_t tap = 0; tap < w.taps[0] * w.taps[1]; ++tap) {
      const int64_t y = place(0, tap / w.taps[1]), x = place(1, tap % w.taps[1]);
      if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
      const int64_t from = ((image * w.height + y) * w.width + x) * matched_.rows_stride;
      for (int64_t c = 0; c < w.channels; ++c) {
        a->At(r, tap * w.channels + c) = ToDouble(At(inputs_[matched_.rows], from + c), element_);
      }
    }
  }
  Weight Of(int input, int64_t stride) const {
    return {&inputs_[input], stride, matched_.sequence.layout(), element_};
  }
  static double Norm(const MatrixProduct& p, const Matrix& x, int64_t row) {
    if (!p.epilogue.norm.has_value()) return 1;
    double squares = 0;
    for (int64_t i = 0; i < x.columns; ++i) squares += x.At(row, i) * x.At(row, i);
    return 1 / std::sqrt(squares / static_cast<double>(x.columns) + *p.epilogue.norm);
  }
  double Scale(const MatrixProduct& p, int factor, int64_t row) const {
    const double scale = p.epilogue.scale();
    if (factor < 0) return scale;
    return scale * NumberAt(factor, row, *p.epilogue.factor());
  }
  double ColumnScale(const MatrixProduct& p, int input, int64_t column) const {
    return input < 0 ? 1 : NumberAt(input, column, p.weights.scales.element);
  }
  double NumberAt(int input, int64_t index, DType dtype) const {
    const std::string& numbers = inputs_[input];
    if (dtype != DType::kF32) return ToDouble(At(numbers, index), dtype);
    float number;
    std::memcpy(&number, numbers.data() + index * sizeof number, sizeof number);
    return number;
  }
  double Sum(const MatrixProduct& p, int residual, int64_t stride, double value, int64_t row,
             int64_t column) const {
    if (residual < 0) return value;
    if (p.epilogue.form().rounds) value = Round(value, element_);
    const int64_t at = row * stride + column;
    return Activate(p.epilogue.sum_activation(),
                    value + ToDouble(At(inputs_[residual], at), element_));
  }
  double Bias(int input, int64_t column) const {
    return input < 0 ? 0 : ToDouble(At(inputs_[input], column), element_);
  }
  template <typename Body>
  void ForColumns(int64_t columns, const Body& body) const {
    const int64_t blocks = (columns + kColumnBlock - 1) / kColumnBlock;
    reference::ParallelFor(threads_, blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        body(b * kColumnBlock, std::min(kColumnBlock, columns - b * kColumnBlock));
      }
    });
  }

  const MatchedSequence& matched_;
  const DType element_;
  const std::vector<std::string>& inputs_;
  const int threads_;
};

}  // namespace

bool TakesFfnReference(const ProductSequence& sequence) {
  if (SizeOf(sequence.element()) != 2 || HasPrograms(sequence)) return false;
  return std::all_of(sequence.products.begin(), sequence.products.end(),
                     [&](const MatrixProduct& p) {
                       return p.epilogue.bias().value_or(sequence.element()) == sequence.element();
                     });
}

absl::StatusOr<std::vector<double>> FfnReference(const Chain& chain, int64_t m,
                                                 const std::vector<std::string>& inputs,
                                                 const std::vector<int64_t>& rows, int threads) {
  SINTER_ASSIGN_OR_RETURN(const MatchedSequence matched, MatchProducts(chain, 0, true));
  if (!TakesFfnReference(matched.sequence)) {
    return absl::InvalidArgumentError(
        absl::StrCat(matched.sequence.ToString(), ": an element is not 16-bit, or has a program"));
  }
  const int64_t end = m * matched.sequence.rows_per_m;
  for (int64_t row : rows) {
    if (row < 0 || row >= end) return absl::OutOfRangeError(absl::StrCat("row ", row, " of ", end));
  }
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const ProductsRun run(matched, inputs, threads);
  Matrix result = run.LoadRows(rows);
  for (int i = 0; i < matched.size(); ++i) result = run.Apply(i, result, rows);
  std::vector<double> out;
  out.reserve(static_cast<size_t>(result.rows * result.columns));
  for (int64_t r = 0; r < result.rows; ++r) {
    for (int64_t c = 0; c < result.columns; ++c) out.push_back(result.At(r, c));
  }
  return out;
}

std::vector<int64_t> AllRows(int64_t m) {
  std::vector<int64_t> rows(static_cast<size_t>(m));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

std::vector<int64_t> SampledRows(int64_t m, int64_t count, uint64_t seed) {
  if (count >= m) return AllRows(m);
  std::set<int64_t> rows;
  const int64_t last = (m - 1) / 64 * 64;
  for (int64_t row : {int64_t{0}, m - 1, last, last - 1, int64_t{63}, int64_t{64}}) {
    if (row >= 0 && row < m && static_cast<int64_t>(rows.size()) < count) rows.insert(row);
  }
  std::mt19937_64 random(seed);
  while (static_cast<int64_t>(rows.size()) < count) {
    rows.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(m)));
  }
  return {rows.begin(), rows.end()};
}

}  // namespace sinter::gpu_testing
