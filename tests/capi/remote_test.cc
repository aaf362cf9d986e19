// A remote store of the caller's own, through the C interface.
#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

constexpr char kSecret[] = "a fleet's key of 32 bytes or so.";

// A store in memory, as a site might write one.
struct Site {
  std::mutex mutex;
  std::map<std::string, std::string> values, leases;
  std::map<std::string, std::vector<std::string>> sets;
  int gets = 0, puts = 0, leased = 0, destroyed = 0;
  bool down = false;
};
Site* Of(uintptr_t user_data) { return reinterpret_cast<Site*>(user_data); }

sinter_status Get(uintptr_t user_data, const char* name, int64_t, sinter_x_give give,
                  uintptr_t to) {
  const std::lock_guard<std::mutex> lock(Of(user_data)->mutex);
  ++Of(user_data)->gets;
  if (Of(user_data)->down) return SINTER_UNAVAILABLE;
  const auto found = Of(user_data)->values.find(name);
  if (found == Of(user_data)->values.end()) return SINTER_NOT_FOUND;
  give(to, found->second.data(), found->second.size());
  return SINTER_OK;
}
sinter_status Put(uintptr_t user_data, const char* name, const void* bytes, uint64_t size, int64_t,
                  int32_t, int64_t) {
  const std::lock_guard<std::mutex> lock(Of(user_data)->mutex);
  ++Of(user_data)->puts;
  Of(user_data)->values[name] = std::string(static_cast<const char*>(bytes), size);
  return SINTER_OK;
}
sinter_status TryLease(uintptr_t user_data, const char* name, const char* token, int64_t, int64_t) {
  const std::lock_guard<std::mutex> lock(Of(user_data)->mutex);
  ++Of(user_data)->leased;
  return Of(user_data)->leases.emplace(name, token).second ? SINTER_OK : SINTER_ALREADY_EXISTS;
}
sinter_status ReleaseLease(uintptr_t user_data, const char* name, const char* token, int64_t) {
  const std::lock_guard<std::mutex> lock(Of(user_data)->mutex);
  if (Of(user_data)->leases[name] == token) Of(user_data)->leases.erase(name);
  return SINTER_OK;
}
sinter_status AddMember(uintptr_t user_data, const char* set, const char* member, int64_t,
                        int64_t) {
  const std::lock_guard<std::mutex> lock(Of(user_data)->mutex);
  Of(user_data)->sets[set].push_back(member);
  return SINTER_OK;
}
sinter_status Members(uintptr_t user_data, const char* set, int64_t, sinter_x_give give,
                      uintptr_t to) {
  const std::lock_guard<std::mutex> lock(Of(user_data)->mutex);
  for (const std::string& member : Of(user_data)->sets[set]) give(to, member.data(), member.size());
  return SINTER_OK;
}
void Destroy(uintptr_t user_data) { ++Of(user_data)->destroyed; }

class RemoteAbi : public testing::Test {
 protected:
  RemoteAbi() {
    store_.user_data = reinterpret_cast<uintptr_t>(&site_);
    store_.get = Get;
    store_.put = Put;
    store_.try_lease = TryLease;
    store_.release = ReleaseLease;
    store_.add_member = AddMember;
    store_.members = Members;
    store_.destroy = Destroy;
    key_file_ = folder_.path() + "/key";
    FILE* file = fopen(key_file_.c_str(), "w");
    fputs(kSecret, file);
    fclose(file);
    chmod(key_file_.c_str(), 0600);
    options_.target = "h200";
    options_.cache_dir = "";
    options_.log_level = SINTER_LOG_OFF;
    options_.remote_key_file = key_file_.c_str();
  }
  ContextPtr Make() { return Made<ContextPtr>(sinter_x_context_create, &options_, &store_); }
  Result Prepare(const ContextPtr& context) {
    const ChainPtr chain = FromText(kSmall);
    sinter_plan* plan = nullptr;
    const Result result = Try(sinter_prepare, context.get(), chain.get(), 20, nullptr, &plan);
    sinter_plan_release(plan);
    return result;
  }
  sinter_stats Stats(const ContextPtr& context) { return StatsOf(context); }

  ScratchFolder folder_;
  std::string key_file_;
  Site site_;
  sinter_x_remote_store store_ = SINTER_INIT(sinter_x_remote_store);
  sinter_context_options options_ = SINTER_INIT(sinter_context_options);
};

TEST_F(RemoteAbi, APublisherFillsItAndAReaderWithoutNvrtcIsServed) {
  options_.remote_publish = SINTER_SWITCH_ON;
  {
    const ContextPtr publisher = Make();
    const Result result = Prepare(publisher);
    if (result.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(result.message);
    ASSERT_EQ(result.status, SINTER_OK) << result.message;
  }  // publishes what is queued
  EXPECT_EQ(site_.destroyed, 1);
  EXPECT_EQ(site_.values.size(), 2u);
  EXPECT_GE(site_.leased, 2);
  EXPECT_TRUE(site_.leases.empty());
  EXPECT_EQ(site_.sets.size(), 1u);
  options_.remote_publish = SINTER_SWITCH_OFF;
  options_.nvrtc_path = "/dev/null";
  const ContextPtr reader = Make();
  const Result served = Prepare(reader);
  ASSERT_EQ(served.status, SINTER_OK) << served.message;
  const sinter_stats stats = Stats(reader);
  EXPECT_EQ(stats.kernels_compiled, 0u);
  EXPECT_EQ(stats.searched, 0u);
  // Prefetched in time, or asked for.
  EXPECT_EQ(stats.cache_remote_hits + stats.cache_memory_hits, 2u);
  for (auto& [name, value] : site_.values) value[60] = static_cast<char>(value[60] ^ 1);
  const ContextPtr wary = Make();
  EXPECT_EQ(Prepare(wary).status, SINTER_UNAVAILABLE);  // refused, and nothing to build with
  EXPECT_GE(Stats(wary).cache_remote_errors, 1u);
}

TEST_F(RemoteAbi, AStoreThatIsDownIsAMissWithThatReason) {
  site_.down = true;
  options_.nvrtc_path = "/dev/null";
  options_.must_hit = SINTER_SWITCH_ON;
  const ContextPtr context = Make();
  EXPECT_TRUE(Fails(Prepare(context), SINTER_ERROR_CACHE_MISS, "remote_down"));
  EXPECT_GE(Stats(context).cache_remote_down, 1u);
}

// Functions that throw are a store that does not work: what it lacks is built.
TEST_F(RemoteAbi, AStoreThatThrowsHurtsNobody) {
  store_.get = [](uintptr_t, const char*, int64_t, sinter_x_give, uintptr_t) -> sinter_status {
    throw 1;
  };
  store_.put = [](uintptr_t, const char*, const void*, uint64_t, int64_t, int32_t,
                  int64_t) -> sinter_status { throw 2; };
  store_.try_lease = [](uintptr_t, const char*, const char*, int64_t, int64_t) -> sinter_status {
    throw 3;
  };
  store_.release = [](uintptr_t, const char*, const char*, int64_t) -> sinter_status { throw 4; };
  store_.add_member = [](uintptr_t, const char*, const char*, int64_t, int64_t) -> sinter_status {
    throw 5;
  };
  store_.members = [](uintptr_t, const char*, int64_t, sinter_x_give, uintptr_t) -> sinter_status {
    throw 6;
  };
  store_.destroy = [](uintptr_t) { throw 7; };
  options_.remote_publish = SINTER_SWITCH_ON;
  const ContextPtr context = Make();
  const Result result = Prepare(context);
  if (result.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(result.message);
  EXPECT_EQ(result.status, SINTER_OK) << result.message;
  Ok(sinter_x_cache_flush, context.get());
  EXPECT_GE(Stats(context).cache_remote_errors + Stats(context).cache_remote_down, 1u);
}

TEST_F(RemoteAbi, WhatIsMissingIsNamedAndSecretsAreNot) {
  const auto refused = [&] {
    sinter_context* context = nullptr;
    return Try(sinter_x_context_create, &options_, &store_, &context);
  };
  store_.get = nullptr;
  EXPECT_THAT(refused().message, HasSubstr("store.get or store.put is null"));
  store_.get = Get;
  chmod(key_file_.c_str(), 0644);
  EXPECT_EQ(refused().status, SINTER_PERMISSION_DENIED);
  chmod(key_file_.c_str(), 0600);
  EXPECT_EQ(truncate(key_file_.c_str(), 5), 0);
  const Result shortened = refused();
  EXPECT_TRUE(Fails(shortened, SINTER_INVALID_ARGUMENT, "has 5 bytes"));
  EXPECT_THAT(shortened.message, testing::Not(HasSubstr("a fle")));
  EXPECT_EQ(site_.destroyed, 0);
}

}  // namespace
}  // namespace sinter_test
