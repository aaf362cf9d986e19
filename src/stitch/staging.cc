#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/phases.h"
#include "src/stitch/sectors.h"
#include "src/stitch/shared_reads.h"

namespace sinter {
namespace {

constexpr int64_t kMostColumns = 1 << 12, kStagedAlignment = 16, kBankBytes = 128;
constexpr int64_t kMostOfUnit = 256, kFewestOfUnit = 16;  // columns of units that are tried

// Whether an input may lie along another axis than its readers' last.
bool MayTurn(const Chain& body) {
  return std::any_of(body.ops().begin(), body.ops().end(), [](const Op& op) {
    if (op.kind == OpKind::kTranspose) return true;
    return op.kind == OpKind::kInput && !op.strides.empty() && op.strides.back().value != 1 &&
           op.type.dims.back() != Dim::Constant(1);
  });
}

int PowerIn(int64_t value, int64_t most) {
  int64_t power = 1;
  while (2 * power <= most && value % (2 * power) == 0) power *= 2;
  return static_cast<int>(power);
}

// The place in a row-major counter at which an address moves by one element; -1: none, or the
// first.
int64_t FastestBehindFirst(const MemoryTouch& touch) {
  int64_t begin = 1;
  for (const SectorDigit& digit : touch.element) {
    if (digit.extent > 1 && digit.step == touch.bytes) return begin == 1 ? -1 : begin;
    begin *= digit.extent;
  }
  return -1;
}

}  // namespace

ValueId OwnerOfTile(const UnitTile& tile, size_t ops) {
  return static_cast<ValueId>(2 * static_cast<int64_t>(ops) + tile.axis * kMostColumns +
                              tile.columns - 1);
}

UnitTile TileOfOwner(ValueId owner, size_t ops) {
  const int64_t code = int64_t{owner} - 2 * static_cast<int64_t>(ops);
  if (code < 0) return {};
  return {static_cast<int>(code / kMostColumns), code % kMostColumns + 1};
}

absl::Status SetTile(const Chain& body, const UnitTile& tile, StitchProgram& program) {
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.op(static_cast<ValueId>(id));
    if (op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul || op.kind == OpKind::kGather ||
        op.kind == OpKind::kScatter || op.kind == OpKind::kWindow || TakesRow(op)) {
      return RefuseOp(static_cast<ValueId>(id), op, "is not made in tiles of a result");
    }
  }
  if (SharesBuffers(body))
    return absl::FailedPreconditionError("an output in place is not made in tiles");
  const std::vector<Dim>& dims = body.output_type(0).dims;
  for (int i = 1; i < body.num_outputs(); ++i) {
    if (body.output_type(i).dims == dims) continue;
    return absl::FailedPreconditionError("outputs of several shapes are not made in tiles");
  }
  const auto rank = static_cast<int64_t>(dims.size());
  const auto refuse = [&](const char* field, int64_t value) {
    return Invalid(field, " of a tile is ", value, ", its result ", ToString(dims));
  };
  if (tile.axis + 1 >= rank || dims[static_cast<size_t>(tile.axis)].symbolic) {
    return refuse("axis", tile.axis);
  }
  if (dims.back().symbolic || dims.back().value % tile.columns != 0) {
    return refuse("columns", tile.columns);
  }
  program.tile = tile;
  program.tile_dims = dims;
  program.units_symbolic = dims[0].symbolic;
  program.units = ElementsPerM(dims) / tile.columns;
  return absl::OkStatus();
}

std::vector<ValueId> TileOwners(const Chain& body, const StitchProgram& flat) {
  if (!MayTurn(body) || flat.phases.size() != 1 || flat.phases[0].flat.size() != 1) return {};
  const std::vector<Dim>& dims = body.output_type(0).dims;
  const Evaluations read = EvaluationsOf(body, flat, flat.phases[0].flat[0], nullptr);
  std::map<int, double> bytes;  // by axis, of the inputs that lie along it
  for (const MemoryTouch& touch : read.touches) {
    if (touch.input < 0 || touch.by_ids || !touch.inner.empty()) continue;
    const int64_t begin = FastestBehindFirst(touch);
    int64_t behind = 1;
    for (size_t axis = dims.size(); begin > 0 && axis-- > 0 && behind <= begin;) {
      if (behind == begin && dims[axis] != Dim::Constant(1) && !dims[axis].symbolic) {
        bytes[static_cast<int>(axis)] += static_cast<double>(touch.bytes) * touch.times;
        break;
      }
      behind *= dims[axis].symbolic ? 1 : dims[axis].value;
    }
  }
  if (bytes.empty() || dims.back().symbolic) return {};
  UnitTile tile;
  tile.axis = std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) {
                return a.second < b.second;
              })->first;
  std::set<int64_t> columns;
  const int64_t last = dims.back().value;
  for (const int64_t one : {int64_t{64}, int64_t{128}}) {
    if (last % one == 0) columns.insert(one);
  }
  for (int64_t power = 8; power >= 1 && columns.empty(); power /= 2) {
    for (int64_t one = std::min(last, kMostOfUnit); one >= kFewestOfUnit; --one) {
      if (last % one != 0 || one % power != 0) continue;
      columns.insert(one);
      break;
    }
  }
  std::vector<ValueId> owners;
  for (const int64_t one : columns) {
    tile.columns = one;
    StitchProgram probe;
    if (SetTile(body, tile, probe).ok()) owners.push_back(OwnerOfTile(tile, body.ops().size()));
  }
  return owners;
}

std::vector<StagedInput> StagedInputsOf(const Chain& body, const StitchProgram& program,
                                        Pace* pace) {
  const bool units = program.owner >= 0 && program.phases.size() == 1 && program.handed.empty();
  if (!units || !MayTurn(body) || SharesBuffers(body)) return {};
  std::map<ValueId, std::pair<MemoryTouch, int64_t>> places;  // with the elements of the loop
  std::set<ValueId> others;                                   // read at several places
  for (const StitchLoop& loop : program.phases[0].loops) {
    const Evaluations read = EvaluationsOf(body, program, loop, &program.phases[0], pace);
    for (const MemoryTouch& touch : read.touches) {
      if (touch.input < 0) continue;
      const ValueId id = touch.input;
      if (touch.by_ids || !touch.inner.empty()) others.insert(id);
      const auto [known, fresh] = places.try_emplace(id, touch, loop.elements);
      if (!fresh && (!(known->second.first == touch) || known->second.second != loop.elements)) {
        others.insert(id);
      }
    }
  }
  std::vector<StagedInput> staged;
  for (const auto& [id, place] : places) {
    const auto& [touch, elements] = place;
    const auto moves =
        std::find_if(touch.element.begin(), touch.element.end(),
                     [](const SectorDigit& digit) { return digit.extent > 1 && digit.step != 0; });
    const bool along = moves == touch.element.end() || moves->step == touch.bytes;
    if (others.count(id) > 0 || along || touch.wide < 2) continue;
    if (program.units % touch.wide != 0) continue;
    staged.push_back({id, touch.wide, elements});
  }
  return staged;
}

std::vector<StagedPlace> LayOutStaged(const Chain& body, const StitchProgram& program,
                                      const StitchSchedule& s) {
  std::vector<StagedPlace> places;
  if (!s.staged) return places;
  int64_t offset = 0;
  for (const StagedInput& input : program.staged) {
    StagedPlace place;
    place.input = input.value;
    place.dtype = body.op(input.value).type.dtype;
    const int64_t size = SizeOf(place.dtype);
    place.elements = input.elements;
    place.wide = PowerIn(s.UnitsPerBlock(), input.wide);
    place.chunk = PowerIn(place.elements, std::max<int64_t>(kStagedAlignment / size, s.vector));
    const int64_t chunks = place.elements / place.chunk;
    place.mask = PowerIn(chunks, std::max<int64_t>(1, kBankBytes / (place.chunk * size))) - 1;
    place.offset = offset;
    place.bytes = RoundUp(s.UnitsPerBlock() * place.elements * size, kStagedAlignment);
    offset += place.bytes;
    places.push_back(place);
  }
  return places;
}

}  // namespace sinter
