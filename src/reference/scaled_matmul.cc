#include "src/reference/scaled_matmul.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/ceil_div.h"
#include "src/chain/scaled_matmul.h"
#include "src/reference/matmul.h"
#include "src/reference/parallel.h"

namespace sinter::reference {
namespace {

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

}  // namespace

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

}  // namespace sinter::reference
