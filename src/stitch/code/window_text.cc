#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/phase_writer.h"
#include "src/stitch/shared_reads.h"

namespace sinter {
namespace {

// Joins of a thread in a loop over rows of taps that is unrolled: of more, what is read early takes
// more registers than the search counts.
constexpr int64_t kMostUnrolled = 256;

}  // namespace

Position WindowText::At(int64_t pixel) const {
  Position at = first_;
  at[2] = at[2].Plus(pixel);
  return at;
}

absl::Status WindowText::Reduce(ValueId id) {
  const Op& op = code_.body->op(id);
  const std::vector<Dim>& dims = code_.body->op(op.operands[0]).type.dims;
  const int64_t rows = dims[3].value, taps = dims[4].value, count = rows * taps;
  const int64_t pixels = code_.schedule.pixels;
  const int width = emitter_.width();
  const std::string word = WordName(op.type.dtype), join = JoinName(op.reduce);
  const bool mean = op.reduce == ReduceKind::kMean;
  std::vector<std::string> sums;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    sums.push_back(emitter_.NewName("v"));
    emitter_.Add(absl::StrCat(word, " ", sums.back(), "[", width, "];"));
    emitter_.Add(
        absl::StrCat(emitter_.EachText(), sums.back(), "[e] = ", join, "::empty(", word, "{});"));
  }
  const std::string counter = emitter_.NewName("r");
  const Index row =
      Index::Of(emitter_.space().AddLoop(counter, rows, emitter_.innermost() + 1, /*is_int=*/true));
  // In the order of columns of x, so that a pixel's registers are free again soon.
  std::vector<std::pair<int64_t, std::pair<int64_t, int64_t>>> order;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t column = pixel * program_.windows.columns + tap * program_.windows.dilation;
      order.push_back({column, {pixel, tap}});
    }
  }
  std::sort(order.begin(), order.end());
  emitter_.OpenScope();
  absl::Status status;
  for (const auto& [column, which] : order) {
    const auto& [pixel, tap] = which;
    const Position at = At(pixel);
    const absl::StatusOr<Emitted> value =
        emitter_.Pull(op.operands[0], {at[0], at[1], at[2], row, Index(tap), at[3]});
    status.Update(value.status());
    if (!status.ok()) break;
    emitter_.Add(emitter_.EachText() + TakeText(op, sums[static_cast<size_t>(pixel)] + "[e]",
                                                value->Each(), FloatText(MeanShare(count))));
  }
  const std::string inside = emitter_.CloseScope();
  SINTER_RETURN_IF_ERROR(status);
  emitter_.Add(count * pixels * width <= kMostUnrolled ? "#pragma unroll" : "#pragma unroll 1");
  emitter_.Add(
      absl::StrCat("for (int ", counter, " = 0; ", counter, " < ", rows, "; ++", counter, ") {"));
  emitter_.Append(inside);
  emitter_.Add("}");
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const std::string& sum = sums[static_cast<size_t>(pixel)];
    if (mean && MeanRest(count) != 1) {
      emitter_.Add(
          absl::StrCat(emitter_.EachText(), sum, "[e] *= ", FloatText(MeanRest(count)), ";"));
    }
    const Position at = emitter_.space().Canonical(At(pixel));
    emitter_.Remember({id, at}, Emitted{sum, true, emitter_.innermost()});
  }
  return absl::OkStatus();
}

// A result past the last of its row is not stored.
absl::Status WindowText::WriteRoots(const StitchLoop& loop, int64_t pixel) {
  const WindowRow& row = program_.windows;
  const int64_t all = row.dims[2].value;
  const bool guarded = pixel > 0 && all % code_.schedule.pixels != 0;
  if (guarded) {
    emitter_.Add(absl::StrCat("if (pixel + ", pixel, " < ", all, ") {"));
    emitter_.OpenScope(true);
  }
  absl::Status status;
  for (const StitchRoot& root : loop.roots) {
    const Position at =
        ReshapedPosition(row.dims, DimsOfRoot(*code_.body, root), At(pixel), emitter_.space());
    if (status.ok()) status.Update(writer_.WriteRoot(root, at));
  }
  if (guarded) {
    emitter_.Append(emitter_.CloseScope());
    emitter_.Add("}");
  }
  return status;
}

std::string WindowText::AroundTiles(const StitchLoop& loop, const FrameNames& names,
                                    const std::string& inside) const {
  const WindowRow& row = program_.windows;
  const int64_t pixels = code_.schedule.pixels, width = emitter_.width();
  const int threads = code_.schedule.block_threads;
  const int64_t rows = row.dims[1].value, tiles = CeilDiv(row.dims[2].value, pixels);
  const int64_t run = WindowRun(row, width, threads), runs = row.dims[3].value / width / run;
  const std::string first = absl::Substitute(
      "  for (long long tile = $0 * $1ll + static_cast<int>(threadIdx.x), count = "
      "$2;\n       tile < count; tile += $3 * $1ll) {\n"
      "    constexpr bool live = true;\n",
      names.block, threads, names.Count(WindowTiles(row, pixels, width), loop.symbolic),
      names.blocks);
  // One division of 64 bits, and those below it are of numbers without a sign: an image of a
  // WindowRow has fewer than 2^31 results.
  const std::string place = absl::Substitute(
      "    const long long image = static_cast<u64>(tile) / $0;\n"
      "    const u32 rest = static_cast<u32>(tile - image * $0);\n"
      "    const int row = static_cast<int>(rest / $1 % $2);\n"
      "    const int pixel = static_cast<int>(rest / $3 % $4) * $5;\n",
      run * rows * tiles * runs, run, rows, run * rows, tiles, pixels);
  const std::string outer =
      runs == 1 ? "" : absl::Substitute(" + rest / $0 * $1", run * rows * tiles, run);
  return absl::StrCat(first, place, "    const int channel = static_cast<int>(rest % ", run, outer,
                      ") * ", width, ";\n", inside, "  }\n");
}

absl::StatusOr<std::string> WindowText::Write(const StitchLoop& loop, const FrameNames& names,
                                              int number) {
  const WindowRow& row = program_.windows;
  IndexSpace& space = emitter_.space();
  const int64_t batch = row.dims[0].symbolic ? 0 : row.dims[0].value;
  const int64_t pixels = code_.schedule.pixels;
  const int64_t last = RoundUp(row.dims[2].value, pixels) - pixels;  // first pixel of a row's last
  const IndexVar image = space.AddLoop("image", batch, kElementDepth);
  const IndexVar line = space.AddLoop("row", row.dims[1].value, kElementDepth, true);
  const IndexVar pixel = space.AddLoop("pixel", last + 1, kElementDepth, true);
  const IndexVar channel = space.AddLoop("channel", row.dims[3].value, kElementDepth, true);
  first_ = {Index::Of(image), Index::Of(line), Index::Of(pixel), Index::Of(channel)};
  emitter_.SetKept({});
  emitter_.BeginPass(channel, WindowVector(row, code_.schedule.vector), number);
  emitter_.OpenScope();
  emitter_.OpenScope();
  absl::Status status;
  for (const ValueId id : row.reductions) {
    if (status.ok()) status.Update(Reduce(id));
  }
  for (int64_t i = 0; i < pixels && status.ok(); ++i) {
    status.Update(WriteRoots(loop, i));
  }
  const std::string inside = emitter_.CloseScope();
  const std::string before = emitter_.CloseScope();
  SINTER_RETURN_IF_ERROR(status);
  return AroundTiles(loop, names, before + inside);
}

}  // namespace sinter
