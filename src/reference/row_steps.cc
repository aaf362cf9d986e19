// Steps of rows, and random numbers by place.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "src/reference/evaluator.h"
#include "src/reference/rows.h"

namespace sinter::reference {
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

// The 64 bits of one number, which float64 does not hold.
uint64_t BitsOf(const View& number) {
  if (number.storage == StorageOf(DType::kS64)) {
    uint64_t bits;
    std::memcpy(&bits, number.data, sizeof bits);
    return bits;
  }
  double value = 0;
  ReadRun(number, 0, 1, 1, &value);
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
  const uint64_t key = BitsOf(seed), first = BitsOf(offset);
  int64_t behind = 1;  // elements behind the axis of M
  for (size_t i = static_cast<size_t>(axis + 1); axis >= 0 && i < dims.size(); ++i)
    behind *= dims[i];
  const int64_t here = axis < 0 ? 1 : dims[static_cast<size_t>(axis)];
  for (int64_t i = 0; i < static_cast<int64_t>(result.owned->size()); ++i) {
    int64_t place = i;
    if (axis >= 0) {
      const int64_t row = i / behind % here, front = i / behind / here;
      const int64_t own = rows == nullptr ? row : (*rows)[static_cast<size_t>(row)];
      place = (front * m + own) * behind + i % behind;
    }
    (*result.owned)[static_cast<size_t>(i)] =
        UniformOf(Philox(key, first + static_cast<uint64_t>(place)));
  }
  return result;
}

}  // namespace sinter::reference
