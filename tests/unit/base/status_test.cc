// Statuses: the macros, refusals with fields, errors of the ports.
#include "src/base/ports.h"
#include "src/base/refusal.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(StatusNumber, CanonicalCodesKeepTheirNumbers) {
  EXPECT_EQ(StatusNumber(absl::OkStatus()), 0);
  EXPECT_EQ(StatusNumber(absl::CancelledError("x")), 1);
  EXPECT_EQ(StatusNumber(absl::InvalidArgumentError("x")), 3);
  EXPECT_EQ(StatusNumber(absl::FailedPreconditionError("x")), 9);
  EXPECT_EQ(StatusNumber(absl::UnavailableError("x")), 14);
  EXPECT_EQ(StatusNumber(absl::UnauthenticatedError("x")), 16);
}

TEST(StatusNumber, OwnCodesMapToTheNearestCanonicalOne) {
  const struct {
    ErrorCode code;
    int32_t number;
    absl::StatusCode canonical;
  } kRows[] = {
      {ErrorCode::kCompileFailed, 100, absl::StatusCode::kInternal},
      {ErrorCode::kNoLegalPlan, 101, absl::StatusCode::kUnimplemented},
      {ErrorCode::kDriver, 102, absl::StatusCode::kInternal},
      {ErrorCode::kCacheCorrupt, 103, absl::StatusCode::kDataLoss},
      {ErrorCode::kStreamCapturing, 104, absl::StatusCode::kFailedPrecondition},
      {ErrorCode::kCacheMiss, 105, absl::StatusCode::kNotFound},
  };
  for (const auto& row : kRows) {
    const absl::Status status = MakeError(row.code, "why");
    EXPECT_EQ(StatusNumber(status), row.number);
    EXPECT_EQ(status.code(), row.canonical) << row.number;
    EXPECT_EQ(status.message(), "why");
  }
}

TEST(StatusDetails, AbsentOnesReadAsZeroAndEmpty) {
  std::string storage = "stale";
  const absl::Status status = absl::InternalError("x");
  EXPECT_EQ(DriverResultOf(status), 0);
  EXPECT_EQ(CompileLogOf(status, &storage), "");
  EXPECT_EQ(DriverResultOf(absl::OkStatus()), 0);
}

TEST(StatusDetails, AttachedOnesReadBack) {
  absl::Status status = MakeError(ErrorCode::kDriver, "launch");
  AttachDriverResult(status, 719);
  AttachCompileLog(status, std::string("line\0two", 8));
  std::string storage;
  EXPECT_EQ(DriverResultOf(status), 719);
  EXPECT_EQ(CompileLogOf(status, &storage), absl::string_view("line\0two", 8));
  EXPECT_EQ(StatusNumber(status), 102);
}

TEST(Annotate, KeepsCodeAndDetailsAndPutsTheContextFirst) {
  absl::Status status = MakeError(ErrorCode::kCompileFailed, "refused");
  AttachDriverResult(status, -1);
  AttachCompileLog(status, "log");
  const absl::Status annotated = Annotate(Annotate(status, "kernel 1"), "plan");
  std::string storage;
  EXPECT_EQ(annotated.message(), "plan: kernel 1: refused");
  EXPECT_EQ(StatusNumber(annotated), 100);
  EXPECT_EQ(DriverResultOf(annotated), -1);
  EXPECT_EQ(CompileLogOf(annotated, &storage), "log");
}

TEST(Annotate, OfSuccessIsSuccess) { EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok()); }

absl::StatusOr<std::unique_ptr<int>> Make(bool good) {
  if (!good) return absl::NotFoundError("nothing");
  return std::make_unique<int>(7);
}

absl::Status Use(bool good, int* out) {
  SINTER_RETURN_IF_ERROR(good ? absl::OkStatus() : absl::OkStatus());
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<int> value, Make(good));
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<int> second, Make(good));
  *out = *value + *second;
  return absl::OkStatus();
}

TEST(Macros, AssignMovesTheValueOrReturnsTheError) {
  int out = 0;
  EXPECT_TRUE(Use(true, &out).ok());
  EXPECT_EQ(out, 14);
  EXPECT_TRUE(Says(Use(false, &out), "nothing"));
}

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

TEST(MissReason, EveryReasonHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(MissReason::kCount); ++i) {
    const std::string name(NameOf(static_cast<MissReason>(i)));
    EXPECT_NE(name, "invalid") << i;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(NameOf(MissReason::kCount), "invalid");
}

}  // namespace
}  // namespace sinter
