// Reductions over strided views.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "src/reference/evaluator.h"
#include "src/reference/rows.h"

namespace sinter::reference {
namespace {

constexpr int64_t kResultSegment = 1024;      // results accumulated side by side
constexpr int64_t kReducedPiece = 32 * 1024;  // elements read per thread hand-out

// One accumulation; s32 sums stay exact in 64 bits, modulo 2^64, and wrap at the end.
struct SumFloat {
  double Start() const { return 0; }
  static void Step(double v, double& s) { s += v; }
};
struct MaxFloat {
  double start;
  double Start() const { return start; }
  static void Step(double v, double& s) { s = v > s || std::isnan(v) ? v : s; }
};
struct MinFloat {
  double start;
  double Start() const { return start; }
  static void Step(double v, double& s) { s = v < s || std::isnan(v) ? v : s; }
};
struct SumInteger {
  uint64_t Start() const { return 0; }
  static void Step(double v, uint64_t& s) { s += static_cast<uint64_t>(static_cast<int64_t>(v)); }
};

double ToDouble(double v) { return v; }
double ToDouble(uint64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v)); }

// `in` split into kept and reduced axes, each in order.
struct Split {
  std::vector<int64_t> kept_dims, kept_strides, dims, strides;
  int64_t kept = 1, reduced = 1;
  bool last_kept = false;

  Split(const View& in, const std::vector<int32_t>& axes) {
    for (int i = 0; i < in.rank(); ++i) {
      const bool reduce = std::find(axes.begin(), axes.end(), i) != axes.end();
      (reduce ? dims : kept_dims).push_back(in.dims[i]);
      (reduce ? strides : kept_strides).push_back(in.strides[i]);
      (reduce ? reduced : kept) *= in.dims[i];
      last_kept = !reduce;
    }
  }
  int64_t KeptOffset(int64_t index) const {
    return OffsetOf(index, kept_dims.data(), kept_strides.data(),
                    static_cast<int>(kept_dims.size()));
  }
};

// The innermost axis is reduced: each result reads runs.
template <typename Acc>
void ReduceRuns(const Acc& acc, const View& in, const Split& s, int threads, double* out) {
  const int64_t length = s.dims.back(), stride = s.strides.back();
  const int rank = static_cast<int>(s.dims.size()) - 1;
  const int64_t runs = length == 0 ? 0 : s.reduced / length;
  const int64_t grain = std::max<int64_t>(1, kReducedPiece / std::max<int64_t>(1, s.reduced));
  ParallelFor(threads, s.kept, grain, [&](int64_t begin, int64_t end) {
    std::vector<double> scratch(std::max<int64_t>(1, std::min(length, kResultSegment)));
    for (int64_t i = begin; i < end; ++i) {
      auto sum = acc.Start();
      const int64_t base = s.KeptOffset(i);
      for (int64_t run = 0; run < runs; ++run) {
        const int64_t start = base + OffsetOf(run, s.dims.data(), s.strides.data(), rank);
        for (int64_t first = 0; first < length; first += kResultSegment) {
          const int64_t count = std::min(kResultSegment, length - first);
          ReadRun(in, start + first * stride, stride, count, scratch.data());
          for (int64_t j = 0; j < count; ++j) Acc::Step(scratch[j], sum);
        }
      }
      out[i] = ToDouble(sum);
    }
  });
}

// The innermost axis is kept: a segment of results accumulates side by side.
template <typename Acc>
void ReduceColumns(const Acc& acc, const View& in, const Split& s, int threads, double* out) {
  const int64_t length = s.kept_dims.back(), stride = s.kept_strides.back();
  const int64_t segments = (length + kResultSegment - 1) / kResultSegment;
  const int rank = static_cast<int>(s.dims.size());
  const int64_t rows = length == 0 ? 0 : s.kept / length;
  const int64_t per_item = std::max<int64_t>(1, s.reduced * std::min(length, kResultSegment));
  ParallelFor(threads, rows * segments, std::max<int64_t>(1, kReducedPiece / per_item),
              [&](int64_t begin, int64_t end) {
                std::vector<double> scratch(kResultSegment);
                std::vector<decltype(acc.Start())> sums(kResultSegment);
                for (int64_t item = begin; item < end; ++item) {
                  const int64_t row = item / segments, first = item % segments * kResultSegment;
                  const int64_t count = std::min(kResultSegment, length - first);
                  std::fill(sums.begin(), sums.end(), acc.Start());
                  const int64_t base = s.KeptOffset(row * length) + first * stride;
                  for (int64_t r = 0; r < s.reduced; ++r) {
                    const int64_t offset = OffsetOf(r, s.dims.data(), s.strides.data(), rank);
                    ReadRun(in, base + offset, stride, count, scratch.data());
                    for (int64_t j = 0; j < count; ++j) Acc::Step(scratch[j], sums[j]);
                  }
                  double* to = out + row * length + first;
                  for (int64_t j = 0; j < count; ++j) to[j] = ToDouble(sums[j]);
                }
              });
}

template <typename Acc>
void Run(const Acc& acc, const View& in, const Split& s, int threads, double* out) {
  if (s.last_kept) {
    ReduceColumns(acc, in, s, threads, out);
  } else {
    ReduceRuns(acc, in, s, threads, out);
  }
}

}  // namespace

Tensor Reduce(const Op& op, DType dtype, const View& in, const std::vector<int64_t>& dims,
              int threads) {
  Tensor result = MakeTensor(dims);
  if (result.owned->empty()) return result;
  const Split split(in, op.axes);
  double* out = result.owned->data();
  const bool integer = dtype == DType::kS32;
  const double infinity = std::numeric_limits<double>::infinity();
  switch (op.reduce) {
    case ReduceKind::kMax:
      Run(MaxFloat{integer ? -2147483648.0 : -infinity}, in, split, threads, out);
      break;
    case ReduceKind::kMin:
      Run(MinFloat{integer ? 2147483647.0 : infinity}, in, split, threads, out);
      break;
    default:
      if (integer) {
        Run(SumInteger{}, in, split, threads, out);
      } else {
        Run(SumFloat{}, in, split, threads, out);
      }
  }
  if (op.reduce == ReduceKind::kMean) {
    for (double& v : *result.owned) v /= static_cast<double>(split.reduced);
  }
  return result;
}

// Steps of rows, and random numbers by place.

namespace {

constexpr int64_t kReadAtOnce = 32 * 1024;  // elements read per thread hand-out

// Calls `row(number, elements)` for each row of x.
template <typename Row>
void EachRow(const View& x, int threads, const Row& row) {
  const int64_t length = x.dims.back(), rows = length == 0 ? 0 : x.Count() / length;
  ParallelFor(threads, rows, std::max<int64_t>(1, kReadAtOnce / std::max<int64_t>(1, length)),
              [&](int64_t begin, int64_t end) {
                std::vector<double> elements(static_cast<size_t>(length));
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t offset = OffsetOf(i, x.dims.data(), x.strides.data(), x.rank() - 1);
                  ReadRun(x, offset, x.strides.back(), length, elements.data());
                  row(i, elements);
                }
              });
}

// The 64 bits of element `index`, which float64 does not hold. A number of rank 0 is every element.
uint64_t BitsOf(const View& numbers, int64_t index) {
  const int64_t at = numbers.dims.empty() ? 0
                                          : OffsetOf(index, numbers.dims.data(),
                                                     numbers.strides.data(), numbers.rank());
  if (numbers.storage == StorageOf(DType::kS64)) {
    uint64_t bits;
    std::memcpy(
        &bits,
        static_cast<const unsigned char*>(numbers.data) + at * static_cast<int64_t>(sizeof bits),
        sizeof bits);
    return bits;
  }
  double value = 0;
  ReadRun(numbers, at, 1, 1, &value);
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

// Word 0 of Philox4x32-10, after Salmon, Moraes, Dror and Shaw.
uint32_t Philox(uint64_t key, uint64_t counter) {
  uint32_t keys[2] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  uint32_t words[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = uint64_t{0xD2511F53} * words[0], odd = uint64_t{0xCD9E8D57} * words[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(odd >> 32) ^ words[1] ^ keys[0], static_cast<uint32_t>(odd),
        static_cast<uint32_t>(even >> 32) ^ words[3] ^ keys[1], static_cast<uint32_t>(even)};
    std::copy(next, next + 4, words);
    keys[0] += 0x9E3779B9;
    keys[1] += 0xBB67AE85;
  }
  return words[0];
}

float UniformOf(uint32_t word) {
  const uint32_t magnitude = word >> 31 != 0 ? ~word : word;
  return static_cast<float>(static_cast<int32_t>(magnitude)) * 4.6566127342e-10f;
}

}  // namespace

Tensor TopK(const View& x, const std::vector<int64_t>& dims, int threads) {
  Tensor result = MakeTensor(dims);
  if (result.owned->empty()) return result;
  const int64_t taken = dims.back();
  EachRow(x, threads, [&](int64_t i, const std::vector<double>& row) {
    std::vector<int64_t> places(row.size());
    std::iota(places.begin(), places.end(), 0);
    const auto before = [&](int64_t a, int64_t b) {
      const double left = row[static_cast<size_t>(a)], right = row[static_cast<size_t>(b)];
      if (std::isnan(left) != std::isnan(right)) return std::isnan(left);
      return left > right || (!(left < right) && a < b);
    };
    std::partial_sort(places.begin(), places.begin() + taken, places.end(), before);
    std::copy_n(places.begin(), taken, result.owned->begin() + i * taken);
  });
  return result;
}

Tensor RunningSums(const View& x, DType dtype, int threads) {
  Tensor result = MakeTensor(x.dims);
  if (result.owned->empty()) return result;
  EachRow(x, threads, [&](int64_t i, const std::vector<double>& row) {
    double* to = result.owned->data() + i * static_cast<int64_t>(row.size());
    double sum = 0;
    uint32_t wrapping = 0;
    for (size_t j = 0; j < row.size(); ++j) {
      if (dtype == DType::kS32) {
        wrapping += static_cast<uint32_t>(static_cast<int64_t>(row[j]));
        to[j] = static_cast<int32_t>(wrapping);
      } else {
        to[j] = sum += row[j];
      }
    }
  });
  return result;
}

Tensor Random(const View& seed, const View& offset, const std::vector<int64_t>& dims, int axis,
              int64_t m, const std::vector<int64_t>* rows) {
  Tensor result = MakeTensor(dims);
  if (result.owned->empty()) return result;
  const size_t leading = std::max(seed.dims.size(), offset.dims.size());
  const std::vector<int64_t> own(dims.begin() + static_cast<std::ptrdiff_t>(leading), dims.end());
  const int64_t count = std::accumulate(own.begin(), own.end(), int64_t{1}, std::multiplies<>());
  // The axis of M, the elements after it, and its rows in this pass, of the dims after the leading.
  const int64_t m_axis = axis - static_cast<int64_t>(leading);
  int64_t after = 1;
  for (size_t i = static_cast<size_t>(m_axis + 1); m_axis >= 0 && i < own.size(); ++i) {
    after *= own[i];
  }
  const int64_t here = m_axis < 0 ? 1 : own[static_cast<size_t>(m_axis)];
  double* to = result.owned->data();
  const int64_t streams = static_cast<int64_t>(result.owned->size()) / count;
  for (int64_t stream = 0; stream < streams; ++stream) {
    const uint64_t key = BitsOf(seed, stream), first = BitsOf(offset, stream);
    for (int64_t i = 0; i < count; ++i) {
      int64_t place = i;
      if (m_axis >= 0) {
        const int64_t row = i / after % here, front = i / after / here;
        const int64_t own_row = rows == nullptr ? row : (*rows)[static_cast<size_t>(row)];
        place = (front * m + own_row) * after + i % after;
      }
      *to++ = UniformOf(Philox(key, first + static_cast<uint64_t>(place)));
    }
  }
  return result;
}

}  // namespace sinter::reference
