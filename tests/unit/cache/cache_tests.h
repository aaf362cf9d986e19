// What tests of the cache include: folders, keys and records; the tiers.
#ifndef SINTER_TESTS_UNIT_CACHE_CACHE_TESTS_H_
#define SINTER_TESTS_UNIT_CACHE_CACHE_TESTS_H_

#include "cache/tiers/tiers.h"
#include "tests/support/on_threads.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {

using cache_testing::CountFiles;
using cache_testing::kKernel;
using cache_testing::kPlan;
using cache_testing::PathIn;
using cache_testing::RandomBytes;
using cache_testing::ReadFile;
using cache_testing::SampleKernelKey;
using cache_testing::SampleKernelRecord;
using cache_testing::SamplePlanKey;
using cache_testing::TempDir;
using cache_testing::WriteFile;

}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_CACHE_CACHE_TESTS_H_
