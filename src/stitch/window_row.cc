#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/body_work.h"
#include "src/stitch/index.h"
#include "src/stitch/shared_reads.h"

namespace sinter {
namespace {

constexpr int64_t kMostTaps = 128;      // of a window: longer ones are read one by one
constexpr int64_t kMostTapsOfRow = 16;  // each is a line of source for each result
constexpr size_t kMostRowVisits = 1 << 12;
constexpr size_t kPixelRank = 4;
// A block's rows of results, where a run of channels is not too short for that: runs of 128 bytes
// of 16-bit numbers, and never shorter ones than of 64.
constexpr int64_t kLeastRowsOfBlock = 6, kRunChannels = 64, kLeastRunChannels = 32;
const std::vector<int32_t> kTapAxes = {3, 4};  // of a window's result

// Whether one image or result is short: loops count pixels and channels with 32 bits.
bool IsShort(const std::vector<Dim>& dims) {
  return ElementsPerM(absl::MakeConstSpan(dims).subspan(1)) < int64_t{1} << 31;
}

class Finder {
 public:
  Finder(const Chain& body, const StitchProgram& program) : body_(body), program_(program) {}

  WindowRow Find() {
    const StitchLoop* const loop = OnlyLoop();
    if (loop == nullptr || !FindReductions(*loop)) return {};
    line_ = space_.AddLoop("line", 0, 2);
    pixel_ = space_.AddLoop("pixel", row_.dims[2].value, 2);
    const IndexVar channel = space_.AddLoop("channel", row_.dims[3].value, 2);
    const Dim batch = row_.dims[0];
    own_ = space_.Box(line_, {batch.symbolic ? 0 : batch.value, row_.dims[1].value});
    own_.push_back(Index::Of(pixel_));
    own_.push_back(Index::Of(channel));
    for (const StitchRoot& root : loop->roots) {
      Visit(root.value, ReshapedPosition(row_.dims, DimsOfRoot(body_, root), own_, space_));
    }
    row_.reductions.clear();
    for (const ValueId id : here_) {
      if (elsewhere_.count(id) == 0 && ReadsItsWindow(id)) row_.reductions.push_back(id);
    }
    return visits_ > kMostRowVisits || row_.reductions.empty() ? WindowRow() : row_;
  }

 private:
  // The program's one loop, if its roots only store.
  const StitchLoop* OnlyLoop() const {
    if (program_.owner >= 0 || program_.phases.size() != 1 || SharesBuffers(body_)) return nullptr;
    const StitchPhase& phase = program_.phases[0];
    if (!phase.loops.empty() || phase.flat.size() != 1) return nullptr;

    const StitchLoop& loop = phase.flat[0];
    const bool stores =
        std::all_of(loop.roots.begin(), loop.roots.end(), [&](const StitchRoot& root) {
          return root.kind == StitchRoot::kStore && body_.op(root.value).kind != OpKind::kScatter;
        });
    return stores && loop.apart < 0 ? &loop : nullptr;
  }

  // Reductions over the taps of a row of windows, with as many results as the loop has elements.
  bool FindReductions(const StitchLoop& loop) {
    for (ValueId id = 0; id < static_cast<ValueId>(body_.ops().size()); ++id) {
      const Op& op = body_.op(id);
      if (op.kind != OpKind::kReduce || op.keepdims || op.axes != kTapAxes) continue;
      if (program_.uses[static_cast<size_t>(id)] != ReduceUse::kSerial) continue;
      const std::vector<Dim>& from = body_.op(op.operands[0]).type.dims;
      if (op.type.dims.size() != kPixelRank || from[4].value > kMostTapsOfRow ||
          from[3].value * from[4].value > kMostTaps) {
        continue;
      }
      if (ElementsPerM(op.type.dims) != loop.elements ||
          op.type.dims[0].symbolic != loop.symbolic || !IsShort(op.type.dims)) {
        continue;
      }
      if (row_.dims.empty()) row_.dims = op.type.dims;
      if (op.type.dims == row_.dims) candidates_.insert(id);
    }
    return !candidates_.empty();
  }

  void Visit(ValueId id, const Position& at) {
    if (visits_ > kMostRowVisits || !seen_.insert({id, at}).second) return;
    ++visits_;
    const Op& op = body_.op(id);
    if (op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul) {
      if (candidates_.count(id) > 0) (IsAt(at, own_) ? here_ : elsewhere_).insert(id);
      return;
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      Visit(op.operands[i], PullPosition(body_, op, i, at, space_));
    }
  }

  bool IsAt(const Position& at, const Position& place) {
    return space_.Canonical(at) == space_.Canonical(place);
  }

  bool ReadsItsWindow(ValueId id) {
    const Op& op = body_.op(id);
    const std::vector<Dim>& dims = body_.op(op.operands[0]).type.dims;
    const Index r = Index::Of(space_.AddLoop("r", dims[3].value, 3));
    const Index s = Index::Of(space_.AddLoop("s", dims[4].value, 3));
    seen_.clear();
    return FindWindow(op.operands[0], {own_[0], own_[1], own_[2], r, s, own_[3]},
                      {own_[0], own_[1], own_[2], r, s, own_[3]});
  }

  bool FindWindow(ValueId id, const Position& at, const Position& place) {
    if (visits_ > kMostRowVisits || !seen_.insert({id, at}).second) return false;
    ++visits_;
    const Op& op = body_.op(id);
    if (op.kind == OpKind::kInput || op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul) {
      row_.divided |= space_.MovesWith(at, pixel_);
      return false;
    }
    if (op.kind == OpKind::kWindow && IsAt(at, place)) {
      if (!IsShort(body_.op(op.operands[0]).type.dims)) return false;
      row_.taps = std::max(row_.taps, op.taps[1]);
      row_.columns = op.conv.strides[1];
      row_.dilation = op.conv.dilations[1];
      return true;
    }
    bool found = false;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      found |= FindWindow(op.operands[i], PullPosition(body_, op, i, at, space_), place);
    }
    return found;
  }

  const Chain& body_;
  const StitchProgram& program_;
  IndexSpace space_;
  IndexVar line_ = -1, pixel_ = -1;
  WindowRow row_;
  Position own_;  // where the loop stands in the results
  std::set<ValueId> candidates_, here_, elsewhere_;
  std::set<std::pair<ValueId, Position>> seen_;
  size_t visits_ = 0;
};

}  // namespace

WindowRow WindowRowOf(const Chain& body, const StitchProgram& program) {
  return body.Has(OpKind::kWindow) ? Finder(body, program).Find() : WindowRow();
}

absl::Status CheckPixels(const Chain& body, const WindowRow& row, int pixels) {
  const auto refuse = [pixels](absl::string_view bound, int64_t limit) {
    return FailedPrecondition("pixels ", pixels, " ", bound, " ", limit);
  };
  if (row.reductions.empty()) return refuse("without a row of windows is not", 1);
  int64_t branches = 0;  // in the source of one result
  for (const Op& op : body.ops()) branches += BranchesOf(op);
  const int64_t room = branches == 0 ? kMostBranches : kMostBranches / branches;
  const int64_t columns = row.dims[2].value;
  const int64_t most = std::max<int64_t>(1, std::min(room, columns));
  if (pixels > most) return refuse("are above", most);
  if (row.divided && columns % pixels != 0) return refuse("do not divide a row of", columns);
  return absl::OkStatus();
}

int64_t ColumnsRead(const WindowRow& row, int64_t pixels) {
  std::set<int64_t> columns;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t tap = 0; tap < row.taps; ++tap) {
      columns.insert(pixel * row.columns + tap * row.dilation);
    }
  }
  return static_cast<int64_t>(columns.size());
}

int64_t WindowTiles(const WindowRow& row, int64_t pixels, int64_t vector) {
  return ElementsPerM({row.dims[0], row.dims[1]}) * CeilDiv(row.dims[2].value, pixels) *
         (row.dims[3].value / vector);
}

int64_t WindowRun(const WindowRow& row, int64_t vector, int threads) {
  const int64_t across = row.dims[3].value / vector;
  const int64_t most = std::max<int64_t>(threads / kLeastRowsOfBlock, kRunChannels / vector);
  int64_t run = 1;
  for (int64_t each = 1; each <= std::min(across, most); ++each) {
    if (across % each == 0 && (each % 2 == 0 || each == across)) run = each;
  }
  return run * vector < kLeastRunChannels ? across : run;
}

double WindowReads(const Chain& body, const WindowRow& row, const StitchSchedule& s) {
  int64_t step = 1, reach = 1;  // of windows: rows from result to result, and of one
  for (const Op& op : body.ops()) {
    if (op.kind != OpKind::kWindow) continue;
    step = op.conv.strides[0];
    reach = std::max(reach, op.conv.Reach(0, op.taps[0]));
  }
  // A block's part of an image: so many rows of so many results.
  int64_t pixels = s.pixels, rows = 1;
  if (s.pixels == 1) {
    const int64_t results = s.TurnElements() / row.dims[3].value;
    pixels = std::clamp<int64_t>(results, 1, row.dims[2].value);
    rows = results / pixels;
  } else {
    rows = s.block_threads / WindowRun(row, s.vector, s.block_threads);
  }
  rows = std::clamp<int64_t>(rows, 1, row.dims[1].value);
  const auto below = static_cast<double>((rows - 1) * step + reach);
  const auto along = static_cast<double>(ColumnsRead(row, pixels));
  return std::max(1.0, along / static_cast<double>(pixels * row.columns) * below /
                           static_cast<double>(rows * step));
}

int WindowVector(const WindowRow& row, int vector) {
  while (row.dims[3].value % vector != 0) vector /= 2;
  return vector;
}

}  // namespace sinter
