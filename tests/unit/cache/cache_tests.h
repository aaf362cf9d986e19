// What tests of the cache include: folders, keys and records; the tiers.
#pragma once

#include "cache/tiers/tiers.h"
#include "tests/support/child.h"
#include "tests/support/on_threads.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {

using cache_testing::CountFiles;
using cache_testing::FileCall;
using cache_testing::FilesWhose;
using cache_testing::kKernel;
using cache_testing::kPlan;
using cache_testing::PathIn;
using cache_testing::RandomBytes;
using cache_testing::ReadFile;
using cache_testing::SampleKernelKey;
using cache_testing::SampleKernelRecord;
using cache_testing::SamplePlanKey;
using cache_testing::WriteFile;

}  // namespace sinter
