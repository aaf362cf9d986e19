#include "src/stitch/code/scatter_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/scoped_text.h"
#include "src/stitch/program.h"
#include "src/stitch/sectors.h"

namespace sinter {

absl::StatusOr<std::string> ScatterText::IdAt(ValueId ids) {
  const std::string counter = emitter_.NewName("k");
  const IndexVar k = emitter_.space().AddLoop(counter, 0, emitter_.innermost() + 1);
  emitter_.OpenScope();
  const absl::StatusOr<Emitted> id =
      emitter_.Pull(ids, PositionIn(body_.op(ids).type.dims, k, emitter_.space()));
  const std::string inside = emitter_.CloseScope();
  SINTER_RETURN_IF_ERROR(id.status());
  return absl::StrCat("[&](long long ", counter, ") {\n", inside, "return ", id->Each(), ";\n}");
}

std::string ScatterText::Count(ValueId ids) const {
  int64_t count = 1;
  bool rows = false;
  for (const Dim& dim : body_.op(ids).type.dims) {
    rows |= dim.symbolic;
    count *= dim.symbolic ? 1 : dim.value;
  }
  return absl::StrCat(count, "ll", rows ? " * m" : "");
}

absl::StatusOr<Emitted> ScatterText::Ask(ValueId ids, const std::string& question, bool vector,
                                         int depth, bool of_unit) {
  std::vector<ScopedText::Scope> inner = emitter_.SetAside(depth);
  const absl::StatusOr<std::string> id_at = IdAt(ids);
  Emitted answer;
  if (id_at.ok()) {
    answer = emitter_.Declare("bool", absl::StrCat(question, ", ", Count(ids), ", ", *id_at, ")"),
                              vector, depth, of_unit);
  }
  emitter_.Resume(std::move(inner));
  SINTER_RETURN_IF_ERROR(id_at.status());
  return answer;
}

// The first scatter by the same ids into as many rows: what is asked for one holds for all.
ValueId ScatterText::FirstAlike(ValueId scatter) const {
  const Op& op = body_.op(scatter);
  ValueId first = 0;
  while (body_.op(first).kind != OpKind::kScatter ||
         body_.op(first).operands[1] != op.operands[1] ||
         body_.op(first).type.dims[0] != op.type.dims[0]) {
    ++first;
  }
  return first;
}

absl::StatusOr<ScatterText::Place> ScatterText::Written(ValueId scatter, const Position& at) {
  const Op& op = body_.op(scatter);
  IndexSpace& space = emitter_.space();
  const ValueId ids = op.operands[1];
  const Position own = PullPosition(body_, op, 1, at, space);
  SINTER_ASSIGN_OR_RETURN(const Emitted id, emitter_.Pull(ids, own));
  const Index number = space.Canonical(LinearIndex(body_.op(ids).type.dims, own));
  const bool each =
      AlongVector(space, number, emitter_.element(), emitter_.width()) != Along::kUniform;
  const bool vector = id.vector || each, of_unit = id.of_unit || emitter_.MovesWithUnit(number);
  const int depth = std::max(id.depth, emitter_.LoadDepth(number));
  const Dim rows = op.type.dims[0];
  const std::string count = rows.symbolic ? "m" : absl::StrCat(rows.value);
  ElementKey key{FirstAlike(scatter), {}};
  for (const Index& index : own) key.second.push_back(space.Canonical(index));
  Emitted stored;
  if (const Emitted* found = emitter_.Find(key)) {
    stored = *found;
  } else {
    const std::string question =
        absl::StrCat("is_place(", id.Each(), ", ", count, ") && is_last(", id.Each(), ", ",
                     IndexText(space, number, emitter_.element(), each));
    SINTER_ASSIGN_OR_RETURN(stored, Ask(ids, question, vector, depth, of_unit));
    emitter_.Remember(key, stored);
  }
  const Emitted place =
      emitter_.Declare("long long", absl::StrCat("place_of(", id.Each(), ", ", count, ")"),
                       id.vector, id.depth, id.of_unit);
  const IndexVar read = ReadOfIds(body_, op, at, space);
  const bool one = place.vector && emitter_.width() == 1;
  space.NameRead(read, one ? absl::StrCat(place.name, "[0]") : place.Each(), place.depth);
  Place result{stored, {Index::Of(read)}};
  result.at.insert(result.at.end(), at.begin() + static_cast<std::ptrdiff_t>(own.size()), at.end());
  return result;
}

absl::StatusOr<ScatterText::Place> ScatterText::Left(ValueId scatter, const Position& at) {
  IndexSpace& space = emitter_.space();
  const Index row = space.Canonical(at[0]);
  const bool each =
      AlongVector(space, row, emitter_.element(), emitter_.width()) != Along::kUniform;
  SINTER_ASSIGN_OR_RETURN(
      const Emitted stored,
      Ask(body_.op(scatter).operands[1],
          absl::StrCat("!is_named(", IndexText(space, row, emitter_.element(), each)), each,
          emitter_.LoadDepth(row), emitter_.MovesWithUnit(row)));
  return Place{stored, at};
}

}  // namespace sinter
