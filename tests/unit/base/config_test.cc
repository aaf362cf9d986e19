#include "src/base/config.h"

#include <sys/auxv.h>

#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr int kNotSetUid = 99;  // the exit of a copy that could not become so

// Each test starts with none of the variables set.
class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"SINTER_CACHE_DIR",       "SINTER_CACHE",           "SINTER_MUST_HIT",
          "SINTER_BATCH_INVARIANT", "SINTER_VERIFY",          "SINTER_DUMP",
          "SINTER_NVRTC",           "SINTER_LIBCUDA",         "SINTER_LOG",
          "SINTER_LOG_FORMAT",      "SINTER_TRACE",           "SINTER_TUNING_SET",
          "SINTER_DEVICE_MODEL",    "SINTER_DENY_TOOLCHAINS", "SINTER_MODULE_CACHE_BYTES",
          "SINTER_CACHE_MAX_BYTES", "SINTER_CACHE_MAXBYTES",  "SINTER_CAHCE",
          "SINTER_LIB_DIR",         "XDG_CACHE_HOME",         "HOME",
          "SINTER_COMPILE_THREADS", "SINTER_METRICS_FILE",    "SINTER_STAND_INS",
          "SINTER_SLOT_MEASURE",    "SINTER_MEASURE"}) {
      unsetenv(name);
    }
  }
  static void Set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
};

TEST_F(ConfigTest, EmptyEnvironmentGivesDefaults) {
  const Config config = ConfigFromEnvironment().value();
  EXPECT_EQ(config.cache_dir, "");
  EXPECT_TRUE(config.cache_enabled);
  EXPECT_FALSE(config.must_hit);
  EXPECT_FALSE(config.batch_invariant);
  EXPECT_TRUE(config.stand_ins);
  EXPECT_FALSE(config.verify_first_use);
  EXPECT_EQ(config.dump_dir, "");
  EXPECT_EQ(config.tuning_set, "");
  EXPECT_EQ(config.device_model, "");
  EXPECT_EQ(config.log_level, LogLevel::kWarn);
  EXPECT_EQ(config.compile_threads, 2);
}

TEST_F(ConfigTest, CacheDirectoryByPrecedence) {
  Set("HOME", "relative");
  EXPECT_EQ(ConfigFromEnvironment()->cache_dir, "");
  Set("HOME", "/home/u");
  EXPECT_EQ(ConfigFromEnvironment()->cache_dir, "/home/u/.cache/sinter");
  Set("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(ConfigFromEnvironment()->cache_dir, "/home/u/.cache/sinter");
  Set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(ConfigFromEnvironment()->cache_dir, "/xdg/sinter");
  Set("SINTER_CACHE_DIR", "");
  EXPECT_EQ(ConfigFromEnvironment()->cache_dir, "/xdg/sinter");
  Set("SINTER_CACHE_DIR", "here");
  EXPECT_EQ(ConfigFromEnvironment()->cache_dir, "here");
}

TEST_F(ConfigTest, EveryVariableIsRead) {
  for (const char* name : {"SINTER_MUST_HIT", "SINTER_BATCH_INVARIANT", "SINTER_VERIFY"}) {
    Set(name, "1");
  }
  Set("SINTER_CACHE", "off");
  Set("SINTER_DUMP", "/d");
  Set("SINTER_TRACE", "/t.json");
  Set("SINTER_METRICS_FILE", "/m.prom");
  Set("SINTER_LOG_FORMAT", "json");
  Set("SINTER_NVRTC", "/n.so");
  Set("SINTER_TUNING_SET", "/t.txt");
  Set("SINTER_DEVICE_MODEL", "/m.model");
  Set("SINTER_LIBCUDA", "/c.so");
  Set("SINTER_DENY_TOOLCHAINS", "13.0,8f3a90c1d2");
  Set("SINTER_MODULE_CACHE_BYTES", "1000000");
  Set("SINTER_COMPILE_THREADS", "7");
  Set("SINTER_STAND_INS", "0");
  Set("SINTER_SLOT_MEASURE", "1");
  Set("SINTER_MEASURE", "11");
  const Config config = ConfigFromEnvironment().value();
  EXPECT_EQ(config.deny_toolchains, "13.0,8f3a90c1d2");
  EXPECT_EQ(config.module_cache_bytes, 1000000u);
  EXPECT_EQ(config.compile_threads, 7);
  EXPECT_FALSE(config.stand_ins);
  EXPECT_TRUE(config.slot_measure);
  EXPECT_EQ(config.measure, 11);
  EXPECT_FALSE(config.cache_enabled);
  EXPECT_TRUE(config.must_hit);
  EXPECT_TRUE(config.batch_invariant);
  EXPECT_TRUE(config.verify_first_use);
  EXPECT_EQ(config.dump_dir, "/d");
  EXPECT_EQ(config.trace, "/t.json");
  EXPECT_EQ(config.metrics_file, "/m.prom");
  EXPECT_TRUE(config.log_json);
  EXPECT_EQ(config.nvrtc_path, "/n.so");
  EXPECT_EQ(config.tuning_set, "/t.txt");
  EXPECT_EQ(config.device_model, "/m.model");
  EXPECT_EQ(config.driver_path, "/c.so");
}

TEST_F(ConfigTest, AReadingTellsEveryVariableAndEveryErrorAtOnce) {
  Set("SINTER_CACHE", "maybe");
  Set("SINTER_LOG", "info");
  Set("SINTER_LOG_FORMAT", "xml");
  const EnvironmentReading reading = ReadEnvironment();
  std::vector<std::string> refused;
  for (const EnvironmentVariable& variable : reading.variables) {
    if (!variable.error.empty()) refused.push_back(variable.name + " " + variable.value);
  }
  EXPECT_THAT(refused, ElementsAre("SINTER_CACHE maybe", "SINTER_LOG_FORMAT xml"));
  EXPECT_EQ(reading.config.log_level, LogLevel::kInfo);
  EXPECT_TRUE(reading.config.cache_enabled);
  EXPECT_GT(reading.variables.size(), 25u);
}

TEST_F(ConfigTest, LogLevelsByName) {
  const std::pair<const char*, LogLevel> kRows[] = {{"error", LogLevel::kError},
                                                    {"warn", LogLevel::kWarn},
                                                    {"info", LogLevel::kInfo},
                                                    {"debug", LogLevel::kDebug}};
  for (const auto& row : kRows) {
    Set("SINTER_LOG", row.first);
    EXPECT_EQ(ConfigFromEnvironment()->log_level, row.second) << row.first;
  }
}

TEST_F(ConfigTest, MalformedValuesNameVariableValueAndChoices) {
  const struct {
    const char* name;
    const char* value;
    const char* message;
  } kRows[] = {
      {"SINTER_CACHE", "maybe", "SINTER_CACHE=\"maybe\" is not one of: on off"},
      {"SINTER_MUST_HIT", "yes", "SINTER_MUST_HIT=\"yes\" is not one of: 0 1"},
      {"SINTER_BATCH_INVARIANT", "2", "SINTER_BATCH_INVARIANT=\"2\""},
      {"SINTER_VERIFY", " 1", "SINTER_VERIFY=\" 1\""},
      {"SINTER_DENY_TOOLCHAINS", "13", "SINTER_DENY_TOOLCHAINS: denied toolchain \"13\""},
      {"SINTER_COMPILE_THREADS", "0", "SINTER_COMPILE_THREADS=\"0\" is not in 1..64"},
      {"SINTER_COMPILE_THREADS", "65", "is not in 1..64"},
      {"SINTER_COMPILE_THREADS", "two", "is not in 1..64"},
      {"SINTER_MODULE_CACHE_BYTES", "1X", "SINTER_MODULE_CACHE_BYTES=\"1X\" is not a size such as"},
      {"SINTER_CACHE_MAX_BYTES", "-1", "SINTER_CACHE_MAX_BYTES=\"-1\" is not a size such as"},
      {"SINTER_CACHE_MAX_BYTES", "99999999T", "is more than 2^64 - 1 bytes"},
      {"SINTER_LOG", "WARN", "is not one of: off error warn info debug"},
      {"SINTER_LOG_FORMAT", "JSON", "SINTER_LOG_FORMAT=\"JSON\" is not one of: text json"},
  };
  for (const auto& row : kRows) {
    SetUp();
    Set(row.name, row.value);
    EXPECT_TRUE(Fails(ConfigFromEnvironment(), absl::StatusCode::kInvalidArgument, row.message))
        << row.name;
  }
}

TEST_F(ConfigTest, SizesHaveUnits) {
  Set("SINTER_CACHE_MAX_BYTES", "2GiB");
  Set("SINTER_MODULE_CACHE_BYTES", "512M");
  const Config config = ConfigFromEnvironment().value();
  EXPECT_EQ(config.cache_max_bytes, uint64_t{2} << 30);
  EXPECT_EQ(config.module_cache_bytes, uint64_t{512} << 20);
}

TEST_F(ConfigTest, TheLogCanBeTurnedOff) {
  EXPECT_FALSE(ConfigFromEnvironment()->log_off);
  Set("SINTER_LOG", "off");
  EXPECT_TRUE(ConfigFromEnvironment()->log_off);
}

TEST_F(ConfigTest, AVariableThatNothingReadsIsNamedWithTheNearestOne) {
  EXPECT_THAT(ConfigFromEnvironment()->warnings, IsEmpty());
  Set("SINTER_CACHE_MAXBYTES", "1");
  Set("SINTER_CAHCE", "");  // as good as unset
  Set("SINTER_LIB_DIR", "/opt/sinter/lib");
  Set("SINTER_PLUGINS", "1");
  Set("SINTER_PREFILL_ROWS", "512");
  Set("SINTER_VLLM_FOLD", "1");
  Set("SINTER_VLLM_GRAPHS", "1");
  Set("SINTER_TORCH_COMPILE", "0");
  EXPECT_THAT(ConfigFromEnvironment()->warnings,
              ElementsAre("environment: no variable is called SINTER_CACHE_MAXBYTES; "
                          "did you mean SINTER_CACHE_MAX_BYTES?"));
}

TEST_F(ConfigTest, FlagsCanBeSetToZero) {
  Set("SINTER_VERIFY", "0");
  Set("SINTER_CACHE", "on");
  EXPECT_FALSE(ConfigFromEnvironment()->verify_first_use);
  EXPECT_TRUE(ConfigFromEnvironment()->cache_enabled);
}

// Another user runs this in a copy of this program that belongs to root and is set-uid.
TEST(SetUidProbe, DISABLED_ReadsNothing) {
  if (getauxval(AT_SECURE) == 0) std::exit(kNotSetUid);
  ASSERT_NE(getenv("SINTER_CACHE"), nullptr) << "the variables did not arrive";
  const EnvironmentReading reading = ReadEnvironment();
  EXPECT_TRUE(reading.config.cache_enabled);
  EXPECT_TRUE(reading.config.nvrtc_path.empty());
  EXPECT_TRUE(reading.config.driver_path.empty());
  for (const EnvironmentVariable& variable : reading.variables) {
    EXPECT_EQ(variable.value, "") << variable.name;
    EXPECT_EQ(variable.error, "") << variable.name;
  }
  EXPECT_TRUE(reading.config.warnings.empty());
}

TEST(SetUid, AProgramReadsNoVariable) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes a set-uid program of another user";
  namespace fs = std::filesystem;
  const TempDir folder;
  const std::string copy = folder / "probe";
  fs::copy_file("/proc/self/exe", copy);
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(copy.c_str(), 04755), 0);
  const int end = EndOfChild([&] {
    constexpr uid_t kNobody = 65534;
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) return kNotSetUid;
    char* const words[] = {const_cast<char*>("probe"),
                           const_cast<char*>("--gtest_filter=SetUidProbe.*"),
                           const_cast<char*>("--gtest_also_run_disabled_tests"), nullptr};
    char* const variables[] = {const_cast<char*>("SINTER_CACHE=off"),
                               const_cast<char*>("SINTER_NVRTC=/home/other/libnvrtc.so"),
                               const_cast<char*>("SINTER_LIBCUDA=/home/other/libcuda.so"),
                               const_cast<char*>("SINTER_LOG=not a level"),
                               const_cast<char*>("SINTER_CAHCE=off"),
                               nullptr};
    execve(copy.c_str(), words, variables);
    return kNotSetUid;
  });
  if (end == kNotSetUid) GTEST_SKIP() << folder.path() << " takes no set-uid programs";
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace sinter
