#include "src/base/refusal.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(Refusal, AFieldIsInTheMessageAndBesideIt) {
  const absl::Status status = InvalidField("k", 7, absl::StrCat("a multiple of ", 8), ": pad it");
  EXPECT_EQ(status.message(), "k is 7, must be a multiple of 8: pad it");
  EXPECT_EQ(FieldsOf(status), (RefusalFields{-1, "k", "7", "a multiple of 8"}));
  EXPECT_EQ(InvalidFields("codes", "f32", "e4m3 or s8").message(),
            "codes are f32, must be e4m3 or s8");
}

TEST(Refusal, AnOpIsInTheMessageAndBesideIt) {
  const absl::Status status = OpRefused(12, " (", "exp", "): no kernel");
  EXPECT_EQ(status.message(), "op 12 (exp): no kernel");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpOf(status), 12);
}

TEST(Refusal, WhatIsAbsentIsUnset) {
  EXPECT_EQ(FieldsOf(absl::OkStatus()), RefusalFields());
  EXPECT_EQ(FieldsOf(Invalid("why")), RefusalFields());
  EXPECT_EQ(FieldsOf(WithField(Invalid("x is null"), "x", "null")),
            (RefusalFields{-1, "x", "null", ""}));
  EXPECT_TRUE(WithOp(absl::OkStatus(), 3).ok());
  EXPECT_TRUE(OfOp(3, "exp", absl::OkStatus()).ok());
}

TEST(Refusal, AnOpIsPutBeforeAFieldAndTheOuterOneStays) {
  const absl::Status inner = OfOp(9, "slice", InvalidField("axis", 4, "in [0, 1]"));
  EXPECT_EQ(inner.message(), "op 9 (slice): axis is 4, must be in [0, 1]");
  const absl::Status outer = OfOp(8, "window", inner);
  EXPECT_EQ(outer.message(), "op 8 (window): op 9 (slice): axis is 4, must be in [0, 1]");
  EXPECT_EQ(FieldsOf(outer), (RefusalFields{8, "axis", "4", "in [0, 1]"}));
}

TEST(Refusal, FieldsSurviveCopiesAnnotationsAndAnotherMessage) {
  const absl::Status status = OfOp(2, "exp", InvalidField("axis", 4, "in [0, 1]"));
  const RefusalFields fields{2, "axis", "4", "in [0, 1]"};
  const absl::Status copy = status;
  EXPECT_EQ(FieldsOf(copy), fields);
  EXPECT_EQ(FieldsOf(Annotate(status, "chains[1]")), fields);
  EXPECT_EQ(FieldsOf(WithMessage(status, "another")), fields);
  EXPECT_EQ(FieldsOf(WithFieldsOf(MakeError(ErrorCode::kNoLegalPlan, "why"), status)), fields);
}

}  // namespace
}  // namespace sinter
