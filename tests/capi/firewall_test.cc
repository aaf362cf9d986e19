// The firewall itself: whatever is thrown becomes a status.
#include "src/capi/firewall.h"

#include "tests/capi/abi.h"

namespace sinter_test {
namespace {

using sinter::capi::Guard;

template <typename Thrown>
Result Throw(Thrown thrown) {
  return Try([&](sinter_error** e) { return Guard(e, [&]() -> absl::Status { throw thrown; }); });
}

TEST(Firewall, OutOfMemoryIsResourceExhausted) {
  const Result result = Throw(std::bad_alloc());
  EXPECT_EQ(result.status, SINTER_RESOURCE_EXHAUSTED);
  EXPECT_EQ(result.code, SINTER_RESOURCE_EXHAUSTED);
  EXPECT_EQ(result.message, "out of memory");
}

TEST(Firewall, EveryOtherExceptionIsInternal) {
  EXPECT_EQ(Throw(std::runtime_error("the moon")).status, SINTER_INTERNAL);
  EXPECT_THAT(Throw(std::runtime_error("the moon")).message, HasSubstr("the moon"));
  EXPECT_EQ(Throw(42).status, SINTER_INTERNAL);
  EXPECT_THAT(Throw(42).message, HasSubstr("not a std::exception"));
}

TEST(Firewall, AStatusKeepsItsNumberAndDetails) {
  sinter_error* error = nullptr;
  const sinter_status status = Guard(&error, []() -> absl::Status {
    absl::Status failed = sinter::MakeError(sinter::ErrorCode::kDriver, "cuLaunchKernelEx failed");
    sinter::AttachDriverResult(failed, 700);
    sinter::AttachCompileLog(failed, "a log");
    return failed;
  });
  EXPECT_EQ(status, SINTER_ERROR_DRIVER);
  EXPECT_EQ(sinter_error_get_driver_result(error), 700);
  EXPECT_STREQ(sinter_error_get_compile_log(error), "a log");
  EXPECT_STREQ(sinter_error_get_message(error), "cuLaunchKernelEx failed");
  sinter_error_release(error);
}

}  // namespace
}  // namespace sinter_test
