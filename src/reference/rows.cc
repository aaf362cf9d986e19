#include "src/reference/rows.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/chain/chain.h"

namespace sinter::reference {

int HardwareThreads() {
  static const unsigned threads = std::thread::hardware_concurrency();  // reads a file of /sys
  return static_cast<int>(std::max(1u, threads));
}

void ParallelFor(int threads, int64_t items, int64_t grain,
                 const std::function<void(int64_t, int64_t)>& body) {
  if (items <= 0) return;
  grain = std::max<int64_t>(1, grain);
  const int64_t pieces = (items + grain - 1) / grain;
  if (threads <= 1 || pieces == 1) return body(0, items);
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr thrown;  // set by the one that set `failed`
  const auto work = [&]() noexcept {
    try {
      for (int64_t piece = next++; piece < pieces; piece = next++) {
        body(piece * grain, std::min(items, (piece + 1) * grain));
      }
    } catch (...) {
      next = pieces;
      if (!failed.exchange(true)) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (int64_t i = 1; i < std::min<int64_t>(threads, pieces); ++i) helpers.emplace_back(work);
  } catch (const std::exception&) {
    // Too few threads: slower, not wrong.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

namespace {

constexpr int64_t kElementsPerPass = int64_t{8} << 20;
constexpr int64_t kMostElementsPerPass = int64_t{1} << 28;  // where a pass has few rows
constexpr int64_t kLeastRows = 64;

int CountM(const std::vector<Dim>& dims) {
  return static_cast<int>(
      std::count_if(dims.begin(), dims.end(), [](Dim dim) { return dim.symbolic; }));
}

// Elements after the M axis in one row-major step of it.
int64_t ElementsBehindM(const std::vector<Dim>& dims) {
  int64_t count = 1;
  for (size_t i = dims.size(); i-- > 0 && !dims[i].symbolic;) count *= dims[i].value;
  return count;
}

bool Mixes(const Chain& chain, const Op& op) {
  if (CountM(op.type.dims) > 1) return true;
  if (op.operands.empty()) return false;
  const std::vector<Dim>& in = chain.op(op.operands[0]).type.dims;
  switch (op.kind) {
    case OpKind::kMatmul:
      return in[in.size() - (op.transpose_a ? 2 : 1)].symbolic;
    case OpKind::kReduce:
      return std::any_of(op.axes.begin(), op.axes.end(),
                         [&](int32_t axis) { return in[axis].symbolic; });
    case OpKind::kReshape:
      return CountM(in) == 1 && ElementsBehindM(in) != ElementsBehindM(op.type.dims);
    case OpKind::kGather:
    case OpKind::kScatter:
      return MixesRowsByIds(chain, op);
    case OpKind::kGroupedMatmul:  // a row's place says its matrix
      return IsByEnds(op) && op.type.dims[0].symbolic;
    default:
      return false;
  }
}

}  // namespace

std::string WhyRowsMix(const Chain& chain) {
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    const Op& op = chain.ops()[id];
    if (Mixes(chain, op)) {
      return absl::StrCat("op ", id, " (", NameOf(op), ") : ", ToString(op.type),
                          " mixes rows of M");
    }
  }
  return "";
}

int64_t RowsPerPass(const Chain& chain, int64_t rows) {
  int64_t widest = 1;
  for (const Op& op : chain.ops()) {
    if (CountM(op.type.dims) == 0 || op.kind == OpKind::kInput) continue;
    widest = std::max(widest, ElementsPerM(op.type.dims));
  }
  const int64_t least = std::clamp<int64_t>(kMostElementsPerPass / widest, 1, kLeastRows);
  return std::min(std::max<int64_t>(rows, 1), std::max(least, kElementsPerPass / widest));
}

}  // namespace sinter::reference
