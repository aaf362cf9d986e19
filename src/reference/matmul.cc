// Goto-style blocking: operands are converted to f64 panels once per tile, a register kernel of 4 x
// 8 runs over them.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "src/base/numbers.h"
#include "src/chain/infer.h"
#include "src/reference/evaluator.h"
#include "src/reference/rows.h"

namespace sinter::reference {
namespace {

constexpr int64_t kRows = 4, kColumns = 8;             // register tile
constexpr int64_t kTileRows = 64, kTileColumns = 128;  // one task
constexpr int64_t kDepth = 256;                        // k per packed panel

typedef double Lane __attribute__((vector_size(32), aligned(8)));

// c[4][8] += a panel (k x 4) * b panel (k x 8).
inline __attribute__((always_inline)) void KernelBody(const double* a, const double* b,
                                                      int64_t depth, double* c, int64_t ldc) {
  Lane sum[kRows][2];
  for (int64_t i = 0; i < kRows; ++i) {
    std::memcpy(&sum[i][0], c + i * ldc, sizeof(Lane));
    std::memcpy(&sum[i][1], c + i * ldc + 4, sizeof(Lane));
  }
  for (int64_t p = 0; p < depth; ++p, a += kRows, b += kColumns) {
    Lane low, high;
    std::memcpy(&low, b, sizeof(Lane));
    std::memcpy(&high, b + 4, sizeof(Lane));
    for (int64_t i = 0; i < kRows; ++i) {
      sum[i][0] += a[i] * low;
      sum[i][1] += a[i] * high;
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    std::memcpy(c + i * ldc, &sum[i][0], sizeof(Lane));
    std::memcpy(c + i * ldc + 4, &sum[i][1], sizeof(Lane));
  }
}

using Kernel = void (*)(const double*, const double*, int64_t, double*, int64_t);

void PlainKernel(const double* a, const double* b, int64_t depth, double* c, int64_t ldc) {
  KernelBody(a, b, depth, c, ldc);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void Avx2Kernel(const double* a, const double* b, int64_t depth,
                                                double* c, int64_t ldc) {
  KernelBody(a, b, depth, c, ldc);
}
Kernel PickKernel() { return __builtin_cpu_supports("avx2") ? &Avx2Kernel : &PlainKernel; }
#else
Kernel PickKernel() { return &PlainKernel; }
#endif

struct Range {
  int64_t begin = 0, size = 0;
};

// One operand as a matrix: `outer` is m or n, `inner` is k.
struct Operand {
  const View* view;
  int64_t offset, outer_stride, inner_stride;
};

// panel[group][k][lane] = operand(outer = group * lanes + lane, k), zeros beyond the range.
void Pack(const Operand& in, Range outer, Range inner, int64_t lanes, double* panel,
          double* scratch) {
  const int64_t groups = (outer.size + lanes - 1) / lanes;
  if (outer.size % lanes != 0) std::fill_n(panel, groups * lanes * inner.size, 0.0);
  const int64_t start = in.offset + outer.begin * in.outer_stride + inner.begin * in.inner_stride;
  if (in.inner_stride <= in.outer_stride) {
    for (int64_t o = 0; o < outer.size; ++o) {
      ReadRun(*in.view, start + o * in.outer_stride, in.inner_stride, inner.size, scratch);
      double* to = panel + o / lanes * lanes * inner.size + o % lanes;
      for (int64_t p = 0; p < inner.size; ++p) to[p * lanes] = scratch[p];
    }
    return;
  }
  for (int64_t p = 0; p < inner.size; ++p) {
    ReadRun(*in.view, start + p * in.inner_stride, in.outer_stride, outer.size, scratch);
    for (int64_t o = 0; o < outer.size; ++o) {
      panel[o / lanes * lanes * inner.size + p * lanes + o % lanes] = scratch[o];
    }
  }
}

struct Buffers {
  std::vector<double> a = std::vector<double>(kTileRows * kDepth);
  std::vector<double> b = std::vector<double>(kTileColumns * kDepth);
  std::vector<double> c = std::vector<double>(kTileRows * kTileColumns);
  std::vector<double> scratch = std::vector<double>(kDepth);
};
static_assert(kDepth >= kTileRows && kDepth >= kTileColumns, "scratch holds a run either way");

// c (row stride ldc) = the tile `rows` x `columns` of a * b.
void Tile(Kernel kernel, const Operand& a, const Operand& b, Range rows, Range columns,
          int64_t depth, Buffers& buf, double* c, int64_t ldc) {
  std::fill(buf.c.begin(), buf.c.end(), 0.0);
  for (int64_t k = 0; k < depth; k += kDepth) {
    const Range inner{k, std::min(kDepth, depth - k)};
    Pack(a, rows, inner, kRows, buf.a.data(), buf.scratch.data());
    Pack(b, columns, inner, kColumns, buf.b.data(), buf.scratch.data());
    for (int64_t j = 0; j < columns.size; j += kColumns) {
      for (int64_t i = 0; i < rows.size; i += kRows) {
        kernel(buf.a.data() + i * inner.size, buf.b.data() + j * inner.size, inner.size,
               buf.c.data() + i * kTileColumns + j, kTileColumns);
      }
    }
  }
  for (int64_t i = 0; i < rows.size; ++i) {
    std::copy_n(buf.c.data() + i * kTileColumns, columns.size, c + i * ldc);
  }
}

// Offset of batch `index` in an operand, 0 when it has no batch dims.
int64_t BatchOffset(const View& view, int64_t index) {
  return OffsetOf(index, view.dims.data(), view.strides.data(), view.rank() - 2);
}

constexpr int64_t kRowsAtOnce = 16;

// A scale of an operand with `rows` rows.
class Scale {
 public:
  Scale(const View& view, int64_t rows) : view_(view) {
    if (view.rank() != 2) return;
    groups_ = view.dims[1];
    if (view.dims[0] != 1) shared_ = view.dims[0] == rows ? 1 : kScaleBlock;
  }
  int64_t groups() const { return groups_; }

  // By row of the operand, in group `group` of k.
  std::vector<double> Of(int64_t group, int64_t rows) const {
    const int64_t row_stride = shared_ > 0 ? view_.strides[0] : 0;
    const int64_t offset = groups_ > 1 ? group * view_.strides[1] : 0;
    std::vector<double> values(shared_ > 0 ? CeilDiv(rows, shared_) : 1), result(rows);
    ReadRun(view_, offset, row_stride, static_cast<int64_t>(values.size()), values.data());
    for (int64_t i = 0; i < rows; ++i) result[i] = values[shared_ > 0 ? i / shared_ : 0];
    return result;
  }

 private:
  const View& view_;
  int64_t groups_ = 1;
  int64_t shared_ = 0;  // rows that share a value; 0: all
};

// Columns [begin, begin + size) of the last axis.
View Part(View view, int64_t begin, int64_t size) {
  view = view.Moved(begin * view.strides[1]);
  view.dims[1] = size;
  return view;
}

// Numbers of the rows of a result of n elements each, by the matrix that they are products with.
using Groups = std::vector<std::vector<int64_t>>;

// Slots by the matrices that their ids name.
Groups GroupsOfIds(const View& ids, int64_t experts, int threads) {
  const Tensor given = Materialise(ids, threads);
  Groups groups(static_cast<size_t>(experts));
  for (int64_t i = 0; i < ids.Count(); ++i) {
    const double id = (*given.owned)[static_cast<size_t>(i)];
    if (!(id >= 0 && id < static_cast<double>(experts))) continue;
    groups[static_cast<size_t>(id)].push_back(i);
  }
  return groups;
}

// The slices along the last axis of `a`, [m, k] or [m, slots, k], that `mine` name. Without a slot
// axis all slots have the same.
Tensor RowsOf(const View& a, const std::vector<int64_t>& mine, int64_t slots) {
  const int64_t k = a.dims.back();
  Tensor rows = MakeTensor({static_cast<int64_t>(mine.size()), k});
  for (size_t i = 0; i < mine.size(); ++i) {
    int64_t offset = a.dims[0] == 1 ? 0 : mine[i] / slots * a.strides[0];
    if (a.rank() == 3 && a.dims[1] != 1) offset += mine[i] % slots * a.strides[1];
    ReadRun(a, offset, a.strides.back(), k, rows.owned->data() + static_cast<int64_t>(i) * k);
  }
  return rows;
}

// Matrix `expert` of w; one that all have where there is one.
View MatrixOf(const View& w, size_t expert) {
  View matrix = w.Moved(w.dims[0] == 1 ? 0 : static_cast<int64_t>(expert) * w.strides[0]);
  matrix.dims = {w.dims[1], w.dims[2]};
  matrix.strides = {w.strides[1], w.strides[2]};
  return matrix;
}

// `result`, zeros, with the sums of each group, sums_of(expert, its rows).
template <typename Sums>
Tensor OfGroups(const Groups& groups, Tensor result, const Sums& sums_of) {
  const int64_t n = result.view.dims.back();
  for (size_t expert = 0; expert < groups.size(); ++expert) {
    const std::vector<int64_t>& mine = groups[expert];
    if (mine.empty()) continue;
    const Tensor sums = sums_of(expert, mine);
    for (size_t i = 0; i < mine.size(); ++i) {
      std::copy_n(sums.owned->data() + static_cast<int64_t>(i) * n, n,
                  result.owned->data() + mine[i] * n);
    }
  }
  return result;
}

constexpr int64_t kLanes = 4;

typedef double Lane __attribute__((vector_size(32), aligned(8)));

// sum[i] += factor * row[i], `count` a multiple of kLanes.
inline void AddScaled(double factor, const double* row, int64_t count, double* sum) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Lane a, b;
    std::memcpy(&a, sum + i, sizeof a);
    std::memcpy(&b, row + i, sizeof b);
    a += factor * b;
    std::memcpy(sum + i, &a, sizeof a);
  }
}

// The extents, and the filter as [height][width][in][group][padded out of a group] in f64.
struct Filter {
  int64_t taps[2], in, groups, out, padded;  // in and out of a group
  std::vector<double> values;

  Filter(const View& w, const Conv2d& conv) {
    const int height = conv.height_axis();
    taps[0] = w.dims[height], taps[1] = w.dims[height + 1];
    in = w.dims[conv.in_axis()], groups = conv.groups, out = w.dims[conv.out_axis()] / groups;
    padded = (out + kLanes - 1) / kLanes * kLanes;
    values.resize(static_cast<size_t>(taps[0] * taps[1] * in * groups * padded));
    const int64_t step = w.strides[conv.out_axis()];
    double* to = values.data();
    for (int64_t r = 0; r < taps[0]; ++r) {
      for (int64_t s = 0; s < taps[1]; ++s) {
        for (int64_t c = 0; c < in; ++c) {
          const int64_t offset =
              r * w.strides[height] + s * w.strides[height + 1] + c * w.strides[conv.in_axis()];
          for (int64_t g = 0; g < groups; ++g, to += padded) {
            ReadRun(w, offset + g * out * step, step, out, to);
          }
        }
      }
    }
  }
  const double* Row(int64_t r, int64_t s, int64_t c, int64_t g) const {
    return values.data() + (((r * taps[1] + s) * in + c) * groups + g) * padded;
  }
};

// One row of result pixels.
class RowOfPixels {
 public:
  RowOfPixels(const View& x, const Filter& filter, const Conv2d& conv)
      : x_(x),
        filter_(filter),
        conv_(conv),
        pixel_(static_cast<size_t>(filter.in * filter.groups)),
        sum_(static_cast<size_t>(filter.padded * filter.groups)) {}

  void Compute(int64_t image, int64_t p, int64_t columns, double* out) {
    for (int64_t q = 0; q < columns; ++q) {
      std::fill(sum_.begin(), sum_.end(), 0.0);
      for (int64_t r = 0; r < filter_.taps[0]; ++r) {
        const int64_t y = p * conv_.strides[0] + r * conv_.dilations[0] - conv_.pads[0];
        for (int64_t s = 0; y >= 0 && y < x_.dims[1] && s < filter_.taps[1]; ++s) {
          const int64_t at = q * conv_.strides[1] + s * conv_.dilations[1] - conv_.pads[2];
          if (at >= 0 && at < x_.dims[2]) AddTap(image, y, at, r, s);
        }
      }
      for (int64_t g = 0; g < filter_.groups; ++g, out += filter_.out) {
        std::copy_n(sum_.begin() + g * filter_.padded, filter_.out, out);
      }
    }
  }

 private:
  void AddTap(int64_t image, int64_t y, int64_t at, int64_t r, int64_t s) {
    const int64_t offset = image * x_.strides[0] + y * x_.strides[1] + at * x_.strides[2];
    ReadRun(x_, offset, x_.strides[3], filter_.in * filter_.groups, pixel_.data());
    for (int64_t g = 0; g < filter_.groups; ++g) {
      for (int64_t c = 0; c < filter_.in; ++c) {
        AddScaled(pixel_[static_cast<size_t>(g * filter_.in + c)], filter_.Row(r, s, c, g),
                  filter_.padded, sum_.data() + g * filter_.padded);
      }
    }
  }

  const View& x_;
  const Filter& filter_;
  const Conv2d& conv_;
  std::vector<double> pixel_, sum_;
};

}  // namespace

Tensor Matmul(const View& a, const View& b, int threads) {
  const int64_t m = a.dims[a.rank() - 2], k = a.dims[a.rank() - 1], n = b.dims[b.rank() - 1];
  const View& batched = a.rank() >= b.rank() ? a : b;
  std::vector<int64_t> dims(batched.dims.begin(), batched.dims.end() - 2);
  dims.push_back(m);
  dims.push_back(n);
  Tensor result = MakeTensor(dims);
  if (result.owned->empty()) return result;
  const int64_t row_tiles = (m + kTileRows - 1) / kTileRows;
  const int64_t column_tiles = (n + kTileColumns - 1) / kTileColumns;
  const int64_t batches = static_cast<int64_t>(result.owned->size()) / (m * n);
  const Kernel kernel = PickKernel();
  const auto work = [&](int64_t begin, int64_t end) {
    Buffers buf;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t batch = task / (row_tiles * column_tiles);
      const int64_t row = task / column_tiles % row_tiles * kTileRows;
      const int64_t column = task % column_tiles * kTileColumns;
      const Operand left{&a, BatchOffset(a, batch), a.strides[a.rank() - 2],
                         a.strides[a.rank() - 1]};
      const Operand right{&b, BatchOffset(b, batch), b.strides[b.rank() - 1],
                          b.strides[b.rank() - 2]};
      Tile(kernel, left, right, {row, std::min(kTileRows, m - row)},
           {column, std::min(kTileColumns, n - column)}, k, buf,
           result.owned->data() + (batch * m + row) * n + column, n);
    }
  };
  const int64_t tasks = batches * row_tiles * column_tiles;
  const int64_t flops_per_task = std::min(m, kTileRows) * std::min(n, kTileColumns) * k;
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, flops_per_task));
  ParallelFor(threads, tasks, grain, work);
  return result;
}

Tensor ScaledMatmul(const View& a, const View& w, const View& scale_a, const View& scale_w,
                    int threads) {
  const int64_t m = a.dims[0], n = w.dims[0], k = a.dims[1];
  const Scale of_a(scale_a, m), of_w(scale_w, n);
  const int64_t groups = std::max(of_a.groups(), of_w.groups());
  const int64_t size = groups > 1 ? kScaleBlock : k;
  Tensor result = MakeTensor({m, n});
  for (int64_t group = 0; group < groups; ++group) {
    View turned = Part(w, group * size, size);
    std::swap(turned.dims[0], turned.dims[1]);
    std::swap(turned.strides[0], turned.strides[1]);
    const Tensor sums = Matmul(Part(a, group * size, size), turned, threads);
    const std::vector<double> rows = of_a.Of(group, m), columns = of_w.Of(group, n);
    ParallelFor(threads, m, kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double* from = sums.owned->data() + i * n;
        double* to = result.owned->data() + i * n;
        for (int64_t j = 0; j < n; ++j) to[j] += from[j] * (rows[i] * columns[j]);
      }
    });
  }
  return result;
}

Tensor GroupedMatmul(const View& a, const View& w, const View& ids, int threads) {
  const int64_t slots = ids.dims[1];
  return OfGroups(GroupsOfIds(ids, w.dims[0], threads), MakeTensor({ids.dims[0], slots, w.dims[2]}),
                  [&](size_t expert, const auto& mine) {
                    return Matmul(RowsOf(a, mine, slots).view, MatrixOf(w, expert), threads);
                  });
}

Tensor GroupedMatmulByEnds(const View& a, const View& w, const View& ends, int threads) {
  const Tensor given = Materialise(ends, threads);
  Groups groups(static_cast<size_t>(w.dims[0]));
  int64_t row = 0;
  for (size_t expert = 0; expert < groups.size(); ++expert) {
    for (; row < a.dims[0] && static_cast<double>(row) < (*given.owned)[expert]; ++row) {
      groups[expert].push_back(row);
    }
  }
  return OfGroups(groups, MakeTensor({a.dims[0], w.dims[2]}), [&](size_t expert, const auto& mine) {
    return Matmul(RowsOf(a, mine, 1).view, MatrixOf(w, expert), threads);
  });
}

Tensor ScaledGroupedMatmul(const View& a, const View& w, const View& ids, const View& scale_a,
                           const View& scale_w, int threads) {
  const int64_t slots = ids.dims[1];
  return OfGroups(GroupsOfIds(ids, w.dims[0], threads), MakeTensor({ids.dims[0], slots, w.dims[1]}),
                  [&](size_t expert, const auto& mine) {
                    const Tensor rows = RowsOf(a, mine, slots);
                    const bool one = scale_a.rank() == 0;  // of all
                    const Tensor scales = one ? Tensor() : RowsOf(scale_a, mine, slots);
                    return ScaledMatmul(rows.view, MatrixOf(w, expert), one ? scale_a : scales.view,
                                        scale_w.rank() == 0 ? scale_w : MatrixOf(scale_w, expert),
                                        threads);
                  });
}

Tensor Convolve(const View& x, const View& w, const Conv2d& conv, int threads) {
  const Filter filter(w, conv);
  const int64_t rows = conv.ResultPixels(0, x.dims[1], filter.taps[0]);
  const int64_t columns = conv.ResultPixels(1, x.dims[2], filter.taps[1]);
  const int64_t channels = filter.groups * filter.out;
  Tensor result = MakeTensor({x.dims[0], rows, columns, channels});
  if (result.owned->empty()) return result;
  ParallelFor(threads, x.dims[0] * rows, 1, [&](int64_t begin, int64_t end) {
    RowOfPixels row(x, filter, conv);
    for (int64_t i = begin; i < end; ++i) {
      row.Compute(i / rows, i % rows, columns, result.owned->data() + i * columns * channels);
    }
  });
  return result;
}

}  // namespace sinter::reference
