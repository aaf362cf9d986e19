// Bodies that the stitch family's unit tests share.
#ifndef SINTER_TESTS_UNIT_STITCH_BODIES_H_
#define SINTER_TESTS_UNIT_STITCH_BODIES_H_

#include "tests/support/chains.h"
#include "tests/support/chips.h"
#include "tests/support/test.h"

namespace sinter::testing {

// A chain's builder with short names; extent 0 is M. Fails the test on an error.
class Body {
 public:
  ValueId In(const std::vector<int64_t>& extents, DType dtype = DType::kF32) {
    return Take(b.Input({dtype, Dims(extents)}));
  }
  ValueId Reduce(ValueId a, const std::vector<int32_t>& axes, bool keepdims = true,
                 ReduceKind kind = ReduceKind::kSum) {
    return Take(b.Reduce(kind, a, axes, keepdims));
  }
  ValueId Spread(ValueId a, ValueId like) { return Take(b.Broadcast(a, b.TypeOf(like).dims)); }
  ValueId Sub(ValueId a, ValueId like) {
    return Take(b.Binary(BinaryKind::kSub, like, Spread(a, like)));
  }
  ValueId Exp(ValueId a) { return Take(b.Unary(UnaryKind::kExp, a)); }
  ValueId Take(absl::StatusOr<ValueId> id) {
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? *id : 0;
  }
  Chain Finish(const std::vector<ValueId>& outputs) { return Finished(b, outputs); }

  static std::vector<Dim> Dims(const std::vector<int64_t>& extents) {
    std::vector<Dim> dims;
    for (int64_t extent : extents) dims.push_back(extent == 0 ? Dim::M() : Dim::Constant(extent));
    return dims;
  }

  ChainBuilder b;
};

inline Chain FromText(const char* line) { return Got(ParseProblem(line)).chain; }

// x - mean(x) down the columns, then row sums of that.
inline Chain ColumnsThenRows(int64_t rows, int64_t columns) {
  Body body;
  const ValueId x = body.In({rows, columns});
  const ValueId centred = body.Sub(body.Reduce(x, {0}, true, ReduceKind::kMean), x);
  return body.Finish({centred, body.Reduce(centred, {1}, false)});
}

// The reduction of `kind` over `axis` that comes first; -1.
inline ValueId FirstReduction(const Chain& chain, int32_t axis) {
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    if (op.kind == OpKind::kReduce && op.axes == std::vector<int32_t>{axis}) {
      return static_cast<ValueId>(id);
    }
  }
  return -1;
}

}  // namespace sinter::testing

#endif  // SINTER_TESTS_UNIT_STITCH_BODIES_H_
