// Tuning sets through the ABI: the object, its file, a context that was given one.
#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

using testing::HasSubstr;

using SetBytes = std::vector<uint8_t>;

TuningSetPtr EmptySet() { return Made<TuningSetPtr>(sinter_tuning_set_create); }

SetBytes DigestOf(const sinter_tuning_set* set) {
  SetBytes digest(32);
  Ok(sinter_tuning_set_get_digest, set, digest.data());
  return digest;
}

SetBytes DigestOf(const sinter_context* context) {
  SetBytes digest(32, 0xee);
  Ok(sinter_context_get_tuning_digest, context, digest.data());
  return digest;
}

class TuningSet : public testing::Test {
 protected:
  void SetUp() override { unsetenv("SINTER_TUNING_SET"); }
  void TearDown() override { unsetenv("SINTER_TUNING_SET"); }

  std::string Path(const std::string& name) const { return scratch_.path() + "/" + name; }
  std::string EmptyFile(const std::string& name = "empty.txt") {
    const TuningSetPtr set = EmptySet();
    const std::string path = Path(name);
    Ok(sinter_tuning_set_write, set.get(), path.c_str());
    return path;
  }
  // With `tuning_set` as the option; null: the environment's.
  Result Create(const char* tuning_set, ContextPtr* out) {
    const auto options = Sized(sinter_context_options{
        .log_level = SINTER_LOG_OFF, .target = "h200", .cache_dir = "", .tuning_set = tuning_set});
    return TryMake(out, sinter_context_create, &options);
  }
  ScratchFolder scratch_;
};

TEST_F(TuningSet, AnEmptySetIsWrittenAndReadBack) {
  const std::string path = EmptyFile();
  EXPECT_THAT(FileText(path), testing::StartsWith("sinter tuning set 2\nsha256 "));
  const TuningSetPtr set = EmptySet();
  Ok(sinter_tuning_set_add_file, set.get(), path.c_str());
  EXPECT_EQ(sinter_tuning_set_get_count(set.get()), 0u);
  EXPECT_EQ(DigestOf(set.get()), DigestOf(EmptySet().get()));
}

TEST_F(TuningSet, AContextSaysWhichSetItChoosesBy) {
  const std::string path = EmptyFile();
  const SetBytes none(32), digest = DigestOf(EmptySet().get());
  ContextPtr context;
  EXPECT_EQ(Create(nullptr, &context).status, SINTER_OK);
  EXPECT_EQ(DigestOf(context.get()), none);
  EXPECT_EQ(Create(path.c_str(), &context).status, SINTER_OK);
  EXPECT_EQ(DigestOf(context.get()), digest);
  setenv("SINTER_TUNING_SET", path.c_str(), 1);
  EXPECT_EQ(Create(nullptr, &context).status, SINTER_OK);
  EXPECT_EQ(DigestOf(context.get()), digest);
  // The option wins, also to turn it off.
  EXPECT_EQ(Create("", &context).status, SINTER_OK);
  EXPECT_EQ(DigestOf(context.get()), none);
  setenv("SINTER_TUNING_SET", "/no/such/set", 1);
  EXPECT_EQ(Create(path.c_str(), &context).status, SINTER_OK);
  EXPECT_EQ(DigestOf(context.get()), digest);
}

TEST_F(TuningSet, ASetThatIsNamedMustBeThere) {
  const std::string damaged = EmptyFile("damaged.txt");
  std::fstream(damaged, std::ios::in | std::ios::out).seekp(40).put('~');
  const std::string foreign = Path("foreign.txt");
  std::ofstream(foreign) << "sinter tuning set 99\n";
  const std::pair<std::string, const char*> kRows[] = {
      {Path("none.txt"), "cannot be opened: No such file"},
      {scratch_.path(), "not a regular file"},
      {damaged, "damaged: its content has SHA-256"},
      {foreign, "format \"99\", must be 2"}};
  for (const auto& row : kRows) {
    ContextPtr context;
    const Result option = Create(row.first.c_str(), &context);
    EXPECT_EQ(option.status, SINTER_INVALID_ARGUMENT);
    EXPECT_EQ(context, nullptr);
    EXPECT_THAT(option.message, HasSubstr("tuning set " + row.first + ": " + row.second));
    setenv("SINTER_TUNING_SET", row.first.c_str(), 1);
    EXPECT_EQ(Create(nullptr, &context).status, SINTER_INVALID_ARGUMENT);
    unsetenv("SINTER_TUNING_SET");
    const TuningSetPtr set = EmptySet();
    const Result added = Try(sinter_tuning_set_add_file, set.get(), row.first.c_str());
    EXPECT_EQ(added.status, SINTER_INVALID_ARGUMENT);
    EXPECT_EQ(added.message, option.message);
  }
}

TEST_F(TuningSet, BadArgumentsAreNamed) {
  const TuningSetPtr set = EmptySet();
  const auto message = [](auto call) { return Try(call).message; };
  EXPECT_EQ(message(CallOf(sinter_tuning_set_create, nullptr)), "out_set is null");
  EXPECT_EQ(message(CallOf(sinter_tuning_set_add_file, nullptr, "x")), "set is null");
  EXPECT_EQ(message(CallOf(sinter_tuning_set_add_file, set.get(), nullptr)), "path is null");
  EXPECT_EQ(message(CallOf(sinter_tuning_set_write, set.get(), "")), "path is empty");
  EXPECT_THAT(message(CallOf(sinter_tuning_set_write, set.get(), "/dev/null/x")),
              HasSubstr("tuning set /dev/null/x: cannot be written"));
  EXPECT_EQ(message(CallOf(sinter_tuning_set_get_digest, set.get(), nullptr)),
            "out_digest is null");
  EXPECT_EQ(sinter_tuning_set_get_count(nullptr), 0u);
  sinter_tuning_set_release(nullptr);
  // Handles of another kind.
  const ChainPtr chain = EmptyChain();
  auto* wrong = reinterpret_cast<sinter_tuning_set*>(chain.get());
  EXPECT_THAT(message(CallOf(sinter_tuning_set_add_file, wrong, "x")),
              HasSubstr("set is not a live sinter_tuning_set"));
  EXPECT_EQ(sinter_tuning_set_get_count(wrong), 0u);
}

TEST_F(TuningSet, TuneOptionsAreChecked) {
  const ContextPtr context = MakeTarget();
  const ChainPtr chain = FromText(kSmall), open = EmptyChain();
  const auto tune = [&](auto change) {
    sinter_tune_options options = SINTER_INIT(sinter_tune_options);
    change(options);
    return Try(sinter_tune, context.get(), chain.get(), 16, &options);
  };
  EXPECT_THAT(
      tune([&](auto& o) { o.into = reinterpret_cast<sinter_tuning_set*>(open.get()); }).message,
      HasSubstr("tune.into is not a live sinter_tuning_set"));
  EXPECT_THAT(tune([](auto& o) { o.flags = SINTER_TUNE_KEEP; }).message,
              HasSubstr("SINTER_TUNE_KEEP needs a set in tune.into"));
  EXPECT_EQ(tune([](auto& o) { o.flags = 4; }).status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(tune([](auto& o) { o.switch_margin = -0.1; }).status, SINTER_INVALID_ARGUMENT);
  const TuningSetPtr set = EmptySet();
  EXPECT_EQ(tune([&](auto& o) {
              o.into = set.get();
              o.flags = SINTER_TUNE_KEEP | SINTER_TUNE_BATCH_INVARIANT;
            }).status,
            SINTER_UNAVAILABLE);  // no GPU
  EXPECT_EQ(sinter_tuning_set_get_count(set.get()), 0u);
}

TEST_F(TuningSet, APlanSaysItsSetAndItsDigestHoldsIt) {
  const std::string path = EmptyFile();
  const ChainPtr chain = FromText(kSmall);
  SetBytes digests[2] = {SetBytes(32), SetBytes(32)};
  for (const bool with_set : {false, true}) {
    ContextPtr context;
    ASSERT_EQ(Create(with_set ? path.c_str() : "", &context).status, SINTER_OK);
    PlanPtr plan;
    const Result prepared = TryMake(&plan, sinter_prepare, context.get(), chain.get(), 16, nullptr);
    if (prepared.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(prepared.message);
    ASSERT_EQ(prepared.status, SINTER_OK) << prepared.message;
    digests[with_set] = DigestOf(plan);
    std::string text(1 << 16, '\0');
    Ok(sinter_plan_explain, plan.get(), text.size(), &text[0], nullptr);
    EXPECT_THAT(text, HasSubstr(with_set ? "\ntuning: " : "\ntuning: none\n"));
    EXPECT_EQ(text.find(", no entry for this plan\n") != std::string::npos, with_set);
  }
  EXPECT_NE(digests[0], digests[1]);
}

TEST_F(TuningSet, ThreadsMayShareASet) {
  // A set of two entries, a fuzz target's seed: the test runs in the root of the source tree.
  const std::string path = "tests/fuzz/tuning_set/corpus/two";
  const TuningSetPtr set = EmptySet();
  OnThreads(4, [&](int i) {
    const std::string out = Path("out" + std::to_string(i));
    for (int j = 0; j < 20; ++j) {
      Ok(sinter_tuning_set_add_file, set.get(), path.c_str());
      Ok(sinter_tuning_set_write, set.get(), out.c_str());
      sinter_tuning_set_retain(set.get());
      sinter_tuning_set_release(set.get());
    }
  });
  // Every file is whole: it has both entries, and is the same set again.
  EXPECT_EQ(sinter_tuning_set_get_count(set.get()), 2u);
  const std::string first = FileText(Path("out0"));
  EXPECT_EQ(first, FileText(path));
  for (int i = 0; i < 4; ++i) {
    const std::string out = Path("out" + std::to_string(i));
    EXPECT_EQ(FileText(out), first) << i;
    const TuningSetPtr read = EmptySet();
    Ok(sinter_tuning_set_add_file, read.get(), out.c_str());
    EXPECT_EQ(DigestOf(read.get()), DigestOf(set.get()));
  }
}

}  // namespace
}  // namespace sinter_test
