// Every reason for a miss, provoked: each is reported and counted only under its own name.
#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/remote/remote_testing.h"

namespace sinter {
namespace {

using cache_testing::BuildTable;

class FailingReads : public FileOps {
 public:
  ssize_t PRead(int, void*, size_t, off_t) override {
    errno = EIO;
    return -1;
  }
};

// A folder with one sound record, and what to ask it with.
struct Scene {
  Scene() {
    options.local_root = temp / "root";
    options.sync = false;
    Put(options);
  }
  void Put(const TierOptions& by) const {
    std::make_unique<TieredStore>(by)->Put(kKernel, key,
                                           EncodeKernelRecord(SampleKernelRecord(), by.format));
  }
  std::string Path() const { return PathIn(options.local_root, kKernel, key); }
  // The record of another key under this one's name, as only a hand can put it.
  void Disguise(const KernelKey& other) const {
    const std::string payload = EncodeKernelRecord(SampleKernelRecord());
    const std::string echo = EncodeKey(other);
    WriteFile(
        Path(),
        BuildTable(TableUserKey(kKernel, Sha256(key)),
                   EncodeEnvelope(
                       {.kind = kKernel, .arch = other.arch, .key = echo, .payload = payload})));
  }

  TempDir temp;
  TierOptions options;
  const std::string key = EncodeKey(SampleKernelKey());
};

struct Case {
  MissReason reason;
  std::function<void(Scene*)> arrange;
};

KernelKey OfArch(const std::string& arch) {
  KernelKey key = SampleKernelKey();
  key.arch = arch;
  return key;
}

KernelKey OfToolchain(const std::string& id) {
  KernelKey key = SampleKernelKey();
  key.toolchain_id = id;
  return key;
}

const Case kCases[] = {
    {MissReason::kAbsent, [](Scene* s) { unlink(s->Path().c_str()); }},
    {MissReason::kDamaged,
     [](Scene* s) {
       std::string bytes = ReadFile(s->Path());
       bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
       WriteFile(s->Path(), bytes);
     }},
    {MissReason::kForeignArch, [](Scene* s) { s->Disguise(OfArch("sm_100a")); }},
    {MissReason::kOtherFormat,
     [](Scene* s) {
       TierOptions next = s->options;
       ++next.format.envelope;
       s->Put(next);
     }},
    {MissReason::kOtherToolchain, [](Scene* s) { s->Disguise(OfToolchain("nvrtc 12.0")); }},
    {MissReason::kRefusedOwner, [](Scene* s) { chmod(s->Path().c_str(), 0666); }},
    {MissReason::kQuarantined,
     [](Scene* s) {
       std::make_unique<TieredStore>(s->options)->Quarantine(kKernel, s->key, "wrong at seed 7");
     }},
    {MissReason::kDisabled, [](Scene* s) { s->options.local_root.clear(); }},
    {MissReason::kIoError, [](Scene* s) { s->options.ops = std::make_shared<FailingReads>(); }},
    {MissReason::kRemoteDown,
     [](Scene* s) {
       unlink(s->Path().c_str());
       uint16_t dead = 0;
       static const int held = remote_testing::HoldPort(&dead);
       ASSERT_GE(held, 0);
       const auto client = [&] {
         return std::make_unique<RedisBackend>(remote_testing::Loopback(dead), "");
       };
       s->options.remote = std::make_shared<RemoteTier>(
           RemoteOptions{.secret = "a fleet's key of 32 bytes or so."}, client(), client());
     }},
};

TEST(MissReasonsTest, EachIsToldAndCountedAlone) {
  constexpr int kReasons = static_cast<int>(MissReason::kCount);
  ASSERT_EQ(std::size(kCases), static_cast<size_t>(kReasons)) << "a reason without a case";
  for (const Case& c : kCases) {
    Scene scene;
    ASSERT_TRUE(std::make_unique<TieredStore>(scene.options)->Get(kKernel, scene.key).hit);
    c.arrange(&scene);
    const auto store = std::make_unique<TieredStore>(scene.options);
    const Lookup lookup = store->Get(kKernel, scene.key);
    EXPECT_FALSE(lookup.hit) << NameOf(c.reason);
    EXPECT_EQ(lookup.reason, c.reason) << lookup.detail;
    const StoreStats stats = store->Stats();
    for (int reason = 0; reason < kReasons; ++reason) {
      EXPECT_EQ(stats.misses[reason], reason == static_cast<int>(c.reason) ? 1u : 0u)
          << NameOf(c.reason) << ", counter of " << NameOf(static_cast<MissReason>(reason));
    }
    std::cout << "miss: " << NameOf(lookup.reason) << ": " << lookup.detail << "\n";
  }
}

}  // namespace
}  // namespace sinter
