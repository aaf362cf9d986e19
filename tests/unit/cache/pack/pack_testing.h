// What the pack tests share: keys, a pack in memory, a file system that is one string.
#pragma once

#include "absl/strings/escaping.h"
#include "cache/pack/pack.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace pack_testing {

// An Ed25519 private key in PEM: PKCS#8 is a fixed head and the 32-byte seed.
inline SigningKey MakeKey(char fill) {
  const std::string head = absl::HexStringToBytes("302e020100300506032b657004220420");
  const std::string pem = absl::StrCat("-----BEGIN PRIVATE KEY-----\n",
                                       absl::Base64Escape(head + std::string(32, fill)),
                                       "\n-----END PRIVATE KEY-----\n");
  return Got(SigningKey::FromPem(pem));
}

using cache_testing::StringFile;

// A local store with `kernels` kernels and as many plans, and packs made of it.
class PackTest : public testing::Test {
 protected:
  PackTest() : store_(Options()), key_(MakeKey('a')) {}

  LocalStoreOptions Options() const {
    return LocalStoreOptions{.root = temp_ / "store", .producer = "sinter test", .sync = false};
  }

  void Fill(int kernels) {
    for (int i = 0; i < kernels; ++i) {
      KernelRecord record = cache_testing::SampleKernelRecord();
      record.registers = static_cast<uint32_t>(i);
      Put(RecordKind::kKernel, EncodeKey(cache_testing::SampleKernelKey(i)),
          EncodeKernelRecord(record));
      Put(RecordKind::kPlan, EncodeKey(cache_testing::SamplePlanKey(i)), absl::StrCat("plan ", i));
    }
  }

  void Put(RecordKind kind, const std::string& key, const std::string& payload) {
    ASSERT_TRUE(store_.Put(kind, key, Sha256(key), payload).ok());
    records_.push_back({kind, key, payload});
  }

  PackWriteOptions To(const std::string& path, const SigningKey* signer) const {
    return PackWriteOptions{.path = path, .producer = "sinter test", .signer = signer};
  }

  // Everything in the store as one signed pack.
  std::string Pack() {
    const std::string path = temp_ / "all.pack";
    Got(ExportPack(&store_, {}, nullptr, To(path, &key_)));
    return path;
  }

  PackOptions From(const std::string& path) const {
    return PackOptions{.path = path, .keys = {key_.public_key()}};
  }
  std::shared_ptr<const PackReader> Open(const PackOptions& options) const {
    return Got(PackReader::Open(options));
  }

  struct Record {
    RecordKind kind;
    std::string key, payload;
  };
  Lookup Get(const PackReader& pack, const Record& record) const {
    return pack.Get(record.kind, record.key, Sha256(record.key));
  }

  cache_testing::TempDir temp_;
  LocalStore store_;
  SigningKey key_;
  std::vector<Record> records_;
};

}  // namespace pack_testing
}  // namespace sinter
